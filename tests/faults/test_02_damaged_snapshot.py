"""Tests of fault 2: a partial or damaged snapshot is skipped, and the previous one is used."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchharness.worker.job import run_job
from tests.helpers.stopped_jobs import EVERY_STEP, Reporter, deterministic, small_job, stop

FILES = (
    "manifest.json",
    "numbers.json",
    "optimizer.safetensors",
    "random.safetensors",
    "weights.safetensors",
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Snapshots of steps 3 and 4."""
    folder = tmp_path_factory.mktemp("kept") / "snapshots"
    stop(small_job(), folder, step=4, checkpoint_every=EVERY_STEP)
    assert [path.name[-2:] for path in sorted(folder.iterdir())] == ["03", "04"]
    return folder


@pytest.fixture(scope="module")
def expected():
    return deterministic(run_job(small_job()))


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize("damage", [truncate, Path.unlink])
@pytest.mark.parametrize("name", FILES)
def test_02_damaged_snapshot_is_skipped_with_a_warning_for_the_older_one(
    tmp_path: Path, kept: Path, expected, name: str, damage: Callable[[Path], None]
):
    folder = Path(shutil.copytree(kept, tmp_path / "snapshots"))
    newest = max(folder.iterdir())
    damage(newest / name)
    reporter = Reporter()
    found = run_job(small_job(), reporter, snapshots=folder)
    assert reporter.notes[0].startswith(f"skips the snapshot {newest}: it ")
    assert name in reporter.notes[0] or "cannot be read" in reporter.notes[0]
    assert found.provenance["resumed"]["steps"] == [3]
    assert deterministic(found) == expected


def test_02_job_starts_over_if_all_snapshots_are_damaged(tmp_path: Path, kept: Path, expected):
    folder = Path(shutil.copytree(kept, tmp_path / "snapshots"))
    for snapshot in folder.iterdir():
        truncate(snapshot / "weights.safetensors")
    reporter = Reporter()
    found = run_job(small_job(), reporter, snapshots=folder)
    assert len(reporter.notes) == 2
    assert "resumed" not in found.provenance
    assert deterministic(found) == expected


def test_02_temporary_folder_of_an_incomplete_snapshot_is_ignored_and_deleted(
    tmp_path: Path, kept: Path, expected
):
    """A process that is killed before it writes the manifest leaves such a folder."""
    folder = Path(shutil.copytree(kept, tmp_path / "snapshots"))
    draft = folder / "step-0000000005.4321.draft"
    shutil.copytree(max(folder.iterdir()), draft)
    (draft / "manifest.json").unlink()
    found = run_job(small_job(), snapshots=folder)
    assert found.provenance["resumed"]["steps"] == [4]
    assert not draft.exists()
    assert deterministic(found) == expected
