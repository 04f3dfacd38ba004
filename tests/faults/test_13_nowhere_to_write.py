"""Tests of fault 13: a folder that cannot be written, or no home: one sentence, exit code 5."""

import os
import re
from errno import EROFS
from pathlib import Path

import pytest

from benchharness.errors import StoreError
from benchharness.leaderboard.store.database import check_writable
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import check_place
from tests.helpers.results import make_result

NOWHERE = Path("/proc/nowhere")
"""A folder in which not even root can create a file."""


def test_13_store_in_an_unwritable_folder_is_an_error_with_exit_code_5() -> None:
    with pytest.raises(StoreError, match=f"{NOWHERE}.* cannot be created: .*--db") as raised:
        open_store(NOWHERE / "board.sqlite")
    assert raised.value.exit_code == 5


def test_13_missing_home_folder_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(NOWHERE))
    with pytest.raises(StoreError, match=r"/proc/nowhere/board\.sqlite cannot be created"):
        open_store("~/board.sqlite")
    with pytest.raises(StoreError, match="home folder does not exist"):
        open_store("~nobody-of-this-name/board.sqlite")


def test_13_backup_into_an_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(make_result())
        with pytest.raises(StoreError, match="could not be written"):
            store.back_up(NOWHERE / "copy.sqlite")


def run(bench, *words):
    """Run a majority baseline; tests patch `plan` so that a started job would fail."""
    asked = ("--model", "majority", "--task", "glue/rte", "--data", "mini", "--limit", "20")
    return bench("run", *asked, *words)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["board.sqlite", "nowhere/board.sqlite"])
def test_13_database_in_an_unwritable_folder_is_refused_at_once(
    bench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Regression test: the command waited a minute for a lock file that no process held."""
    monkeypatch.setattr("benchharness.driver.session.plan", None)
    ended = run(bench, "--db", f"/proc/{name}")
    assert ended.code == 5
    assert re.fullmatch(
        rf"bench: the leaderboard /proc/{name} cannot be created: .*\n",
        ended.err,
    )
    with pytest.raises(StoreError, match="cannot be created"):
        open_store(f"/proc/{name}")


def test_13_unwritable_report_is_an_error_before_training(
    bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("benchharness.driver.session.plan", None)
        ended = run(bench, "--out", "/proc/board.html")
    assert ended.code == 2
    assert "no file can be created in /proc" in ended.err
    (tmp_path / "page.html").mkdir()
    assert "page.html cannot be written: it is a folder." in run(bench, "--out", "page.html").err
    assert not (tmp_path / "results").exists()


def test_13_unwritable_report_or_store_of_a_repeated_command_is_an_error_before_training(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(bench).code == 0
    assert run(bench, "--out", "results/leaderboard.html").code == 0
    ended = run(bench, "--seeds", "1", "--force", "--out", "/proc/board.html")
    assert (ended.code, "No job was started" in ended.err) == (2, True)
    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(StoreError, match="cannot be written: Read-only file system"):
        check_writable("results/leaderboard.sqlite")


def refuse(*words: object, **options: object) -> None:
    raise OSError(EROFS, "Read-only file system")


def test_13_unwritable_check_output_is_an_error(bench) -> None:
    words = ("--model", "tiny", "--task", "glue/rte")
    for option in ("--junit", "--markdown"):
        ended = bench("check", *words, option, "/proc/verdict")
        assert ended.code == 2
        assert "the verdict could not be written to /proc/verdict" in ended.err


def test_13_check_for_writability_leaves_no_file(tmp_path: Path) -> None:
    check_place(tmp_path / "a" / "b" / "page.html")
    check_writable(tmp_path / "c" / "board.sqlite")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mask", [0o002, 0o077])
def test_13_permissions_of_store_and_backup_follow_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with open_store(tmp_path / "x.sqlite") as store:
            store.add_result(make_result())
            store.back_up(tmp_path / "copy.sqlite")
    finally:
        os.umask(before)
    found = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("*.sqlite")}
    assert found == dict.fromkeys(("x.sqlite", "copy.sqlite"), oct(0o666 & ~mask))
