"""Tests of the folders in which runs save their encoders for jobs that start from them."""

import json
import os
import shutil
from pathlib import Path

import pytest

from benchharness.errors import JobError
from benchharness.kept_folders import (
    MANIFEST,
    check_checkpoint,
    checkpoint_folder,
    delete_checkpoint,
    is_whole,
    new_checkpoint,
    require_room,
)
from tests.helpers.fake_worker import make_job

JOB = make_job(task="glue/mnli")
KEY = JOB.key


def write(root: Path, content: str = "weights") -> Path:
    folder = checkpoint_folder(root, KEY)
    with new_checkpoint(folder, JOB) as draft:
        (draft / "model.safetensors").write_text(content)
        (draft / "config.json").write_text("{}")
    return folder


def test_saved_checkpoint_is_complete_and_its_manifest_names_the_run(tmp_path: Path):
    folder = write(tmp_path / "results" / "models")
    assert is_whole(folder, KEY)
    assert set(check_checkpoint(folder, KEY)) == {"model.safetensors", "config.json"}
    manifest = json.loads((folder / MANIFEST).read_text())
    assert (manifest["run"], manifest["task"], manifest["model"]) == (KEY, "glue/mnli", "tiny")
    assert [path.name for path in folder.parent.iterdir()] == [KEY]


def test_checkpoint_folder_appears_only_when_it_is_complete(tmp_path: Path):
    folder = checkpoint_folder(tmp_path, KEY)
    with new_checkpoint(folder, JOB) as draft:
        (draft / "model.safetensors").write_text("half")
        assert not folder.exists()
        assert not is_whole(folder, KEY)
    assert is_whole(folder, KEY)


def fail_to_write(folder: Path) -> None:
    with new_checkpoint(folder, JOB) as draft:
        (draft / "model.safetensors").write_text("half")
        raise OSError(28, "No space left on device")


def test_failed_save_leaves_no_partial_files_and_keeps_the_old_checkpoint(tmp_path: Path):
    with pytest.raises(OSError, match="No space"):
        fail_to_write(checkpoint_folder(tmp_path, KEY))
    assert list(tmp_path.iterdir()) == []
    folder = write(tmp_path)
    with pytest.raises(OSError, match="No space"):
        fail_to_write(folder)
    assert is_whole(folder, KEY)


def test_a_new_checkpoint_replaces_the_old_one(tmp_path: Path):
    write(tmp_path, "old")
    folder = write(tmp_path, "new")
    assert (folder / "model.safetensors").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == [KEY]


def test_unchanged_checkpoint_is_rewritten_only_if_it_is_damaged(tmp_path: Path):
    folder = write(tmp_path)
    before = folder.stat().st_ino
    write(tmp_path)
    assert folder.stat().st_ino == before
    damage_a_byte(folder)
    write(tmp_path)
    assert folder.stat().st_ino != before
    assert is_whole(folder, KEY)
    assert [path.name for path in tmp_path.iterdir()] == [KEY]


def test_a_checkpoint_written_meanwhile_by_another_process_is_replaced(tmp_path: Path, monkeypatch):
    rename, filled = Path.rename, []

    def fill_first(path: Path, target: Path) -> Path:
        if path.suffix == ".draft" and not filled:
            filled.append((target / "other").mkdir(parents=True))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fill_first)
    assert is_whole(write(tmp_path), KEY)
    assert filled
    assert [path.name for path in tmp_path.iterdir()] == [KEY]


def damage_a_byte(folder: Path) -> None:
    (folder / "model.safetensors").write_text("weighty")


def take_a_file_away(folder: Path) -> None:
    (folder / "config.json").unlink()


def take_the_manifest_away(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def cut_the_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text('{"run": "')


def empty_the_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text("[]")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (damage_a_byte, "is damaged .model.safetensors differs from the file that was written"),
        (take_a_file_away, r"is incomplete \(config.json is missing"),
        (take_the_manifest_away, "manifest.json is missing"),
        (cut_the_manifest, "cannot be read"),
        (empty_the_manifest, "cannot be read"),
        (shutil.rmtree, "is incomplete"),
    ],
)
def test_check_of_a_damaged_or_incomplete_checkpoint_folder_raises_an_error(
    tmp_path: Path, damage, sentence: str
):
    folder = write(tmp_path)
    damage(folder)
    assert not is_whole(folder, KEY)
    with pytest.raises(JobError, match=sentence) as caught:
        check_checkpoint(folder, KEY)
    assert str(caught.value).startswith(f"the model of run {KEY[:12]} ")
    assert str(caught.value).endswith("The same command trains that run again.")


def test_check_of_the_checkpoint_folder_of_another_run_raises_an_error(tmp_path: Path):
    folder = write(tmp_path).rename(tmp_path / ("0" * 64))
    with pytest.raises(JobError, match="belongs to another run"):
        check_checkpoint(folder, "0" * 64)


def test_deleting_a_checkpoint_deletes_partial_copies_of_killed_processes(tmp_path: Path):
    folder, other = write(tmp_path), tmp_path / "another"
    other.mkdir()
    (tmp_path / f"{KEY}.123.draft").mkdir()
    (tmp_path / f"{KEY}.123.old").mkdir()
    delete_checkpoint(folder)
    assert list(tmp_path.iterdir()) == [other]
    delete_checkpoint(folder)


def test_partial_checkpoint_of_a_killed_process_with_the_same_pid_is_replaced(tmp_path: Path):
    draft = tmp_path / f"{KEY}.{os.getpid()}.draft"
    draft.mkdir()
    (draft / "rest").write_text("of a killed process")
    assert set(check_checkpoint(write(tmp_path), KEY)) == {"model.safetensors", "config.json"}


def test_too_little_free_disk_space_is_an_error_before_training(tmp_path: Path):
    folder = checkpoint_folder(tmp_path / "not" / "there", KEY)
    require_room(folder, 1)
    with pytest.raises(JobError, match=r"GB free, and 1000000.0 GB are needed for the trained"):
        require_room(folder, 10**15)
    with pytest.raises(JobError, match=r"for best\. Free some space, or choose another folder\.$"):
        require_room(folder, 10**15, "for best", "choose another folder")
