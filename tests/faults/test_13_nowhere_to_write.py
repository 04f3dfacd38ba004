"""Fault 13: a folder that cannot be written, or no home: one sentence, exit code 5."""

from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.errors import StoreError
from tests.helpers.results import make_result

NOWHERE = Path("/proc/nowhere")
"""Nobody can make a file there, not even root, whom no permission keeps out."""


def test_13_a_folder_that_cannot_be_written() -> None:
    with pytest.raises(StoreError, match=f"{NOWHERE}.* cannot be made: .*--db") as raised:
        open_store(NOWHERE / "board.sqlite")
    assert raised.value.exit_code == 5


def test_13_a_home_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(NOWHERE))
    with pytest.raises(StoreError, match=r"/proc/nowhere/board\.sqlite cannot be made"):
        open_store("~/board.sqlite")
    with pytest.raises(StoreError, match="there is no such home folder"):
        open_store("~nobody-of-this-name/board.sqlite")


def test_13_a_backup_into_such_a_folder(tmp_path: Path) -> None:
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(make_result())
        with pytest.raises(StoreError, match="could not be written"):
            store.back_up(NOWHERE / "copy.sqlite")
