"""Tests of fault 52: files of other users and behind links are never deleted."""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchharness.driver.live import delete_dead
from benchharness.extensions.gate import gate
from benchharness.kept_folders import Holds, SnapshotFolder
from benchharness.leaderboard.store.store import open_store
from benchharness.training.snapshots import Snapshots, State
from tests.helpers.results import make_job, make_result

KEY = "0123456789abcdef" * 4
RUN = ("run", "--model", "majority", "--task", "glue/rte", "--data", "mini", "--no-baselines")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Folder of another user with files of which some are named like benchharness's."""
    folder = tmp_path / "victim"
    folder.mkdir()
    for name in ("precious", "a.jsonl", "1-2.jsonl", "1-2.new", KEY, f"{KEY}.encoder"):
        (folder / name).write_text("keep")
    return folder


def is_untouched(folder: Path) -> bool:
    files = list(folder.iterdir())
    return len(files) == 6 and all(file.read_text() == "keep" for file in files)


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_52_folder_of_locks_that_is_a_link_is_refused(
    bench: Any, victim: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "locks").symlink_to("../victim")
    ended = bench(*RUN, *words)
    assert (ended.code, ended.err.count("bench: ")) == (5, 1), ended
    assert "is a link" in ended.err
    assert is_untouched(victim)


def test_52_locks_are_not_written_if_their_folder_becomes_a_link_during_the_run(
    victim: Path, tmp_path: Path
) -> None:
    holds = Holds(tmp_path / "locks")
    (tmp_path / "locks").symlink_to(victim)
    assert holds.take(KEY), "as good as held"
    holds.close()
    assert is_untouched(victim)


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_52_lock_file_that_is_a_link_is_not_written(
    victim: Path, tmp_path: Path, link: Any
) -> None:
    (tmp_path / "locks").mkdir()
    link(tmp_path / "locks" / KEY, victim / "precious")
    holds = Holds(tmp_path / "locks")
    assert holds.take(KEY)
    assert holds.descriptor(KEY) is None
    holds.share(f"{KEY}.encoder")
    holds.close()
    assert is_untouched(victim)


def test_52_foreign_files_among_the_locks_are_not_deleted(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    for name in ("precious", KEY[:63], f"{KEY}.txt", KEY, f"{KEY}.encoder"):
        (locks / name).touch()
    Holds(locks).close()
    assert {path.name for path in locks.iterdir()} == {"precious", KEY[:63], f"{KEY}.txt"}


def test_52_live_files_of_ended_runs_are_deleted_unless_their_folder_is_a_link(
    victim: Path, tmp_path: Path
) -> None:
    (tmp_path / "live").symlink_to(victim)
    delete_dead(tmp_path / "live")
    assert is_untouched(victim)
    delete_dead(victim)
    assert {path.name for path in victim.glob("*.*")} == {"a.jsonl", f"{KEY}.encoder"}


def test_52_cleanup_of_old_checks_deletes_no_foreign_files(victim: Path) -> None:
    for path in (*victim.iterdir(), victim):
        os.utime(path, (0, time.time() - 2 * gate.KEPT_SECONDS))
    (victim / KEY[:32]).mkdir()
    os.utime(victim / KEY[:32], (0, 0))
    gate._delete_old(victim)
    assert is_untouched(victim)


def test_52_cleanup_of_snapshots_deletes_no_foreign_files(tmp_path: Path) -> None:
    """The snapshot folder is a link to another disk."""
    elsewhere = tmp_path / "elsewhere"
    for name in ("precious", "v1.2", "step-1"):
        (elsewhere / name).mkdir(parents=True)
    (tmp_path / KEY).symlink_to(elsewhere)
    machine = {"device": "cpu", "capability": "avx2", "threads": 2, "host": "x"}
    provenance = {"versions": {}, "machine": machine, "model": {"tokenizer": "t"}}
    kept = Snapshots(
        folder=tmp_path / KEY,
        key=KEY,
        every=60.0,
        provenance=provenance,
        accumulation=1,
        report=lambda _: None,
    )
    for step in (1, 2, 3):
        numbers = {"meter": {"step": step, "losses": []}, "job": {"evaluations": []}}
        tensors = {"weights": {}, "optimizer": {}, "random": {}}
        kept.save(partial(State, tensors=tensors, numbers=numbers))
    kept.newest()
    found = {path.name for path in elsewhere.iterdir()}
    assert found == {"precious", "v1.2", "step-1", "step-0000000002", "step-0000000003"}
    SnapshotFolder(root=tmp_path).delete_all([KEY])
    assert found == {path.name for path in elsewhere.iterdir()}


def test_52_foreign_archive_among_unstored_results_is_not_stored(tmp_path: Path) -> None:
    """Check that neither an archive with another name nor a linked folder is read or deleted."""
    with open_store(tmp_path / "x.sqlite") as store:
        kept = store.keep(make_result())
        kept.rename(kept.parent / "mine.jsonl.gz")
        assert store.take_kept().added == 0
        assert (kept.parent / "mine.jsonl.gz").exists()
        kept.parent.rename(tmp_path / "elsewhere")
        kept.parent.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere" / "mine.jsonl.gz").rename(kept)
        assert store.take_kept().added == 0
        assert kept.exists()


def test_52_world_writable_folder_of_unstored_results_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "everybody's"
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    monkeypatch.setattr(
        "benchharness.leaderboard.store.store.kept_elsewhere", lambda _: [elsewhere]
    )
    with open_store(tmp_path / "x.sqlite") as store:
        store.keep(make_result(make_job())).rename(elsewhere / f"{KEY[:12]}-{KEY[:12]}.jsonl.gz")
        assert store.take_kept().added == 0
        (tmp_path / "x.sqlite.unstored").touch()
        with pytest.raises(OSError, match="exists"):
            store.keep(make_result())
