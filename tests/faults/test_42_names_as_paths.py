"""Fault 42: names that are paths, reserved, too long, or alike but for case or normal form."""

import unicodedata
from pathlib import Path

import pytest

from benchharness.errors import BenchError
from benchharness.extensions.submission.command import _default_name
from benchharness.kept_folders import checkpoint_folder
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.store.store import open_store
from benchharness.models import find_model
from benchharness.tasks.suites import SUITES
from tests.helpers.results import make_job, make_result

NAMES = (
    *(
        "../../escaped",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        "nul\0inside",
        "CON",
        "aux.txt",
    ),
    *("x" * 300, "\u202egnp.exe", "-rf", "~", "$HOME", "a\nb", "\ud800", "C:\\x"),
)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_42_a_submission_is_a_file_of_this_folder(name: str) -> None:
    path = Path(_default_name("glue", name))
    assert path.parent == Path()
    assert 5 < len(path.name.encode()) <= 255
    assert path.name.startswith("glue-")
    assert path.name.isprintable()


def test_42_a_checkpoint_is_called_by_its_key_alone() -> None:
    """By design: of a job's names none is part of a path; a key is 64 hex digits."""
    for name in NAMES:
        folder = checkpoint_folder(Path("root"), make_job(model=name.replace("\ud800", "")).key)
        assert folder.parent == Path("root")
        assert set(folder.name) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    "name", ["../../escaped", "..", "", "a\\b", "CON", "aux.txt", "x" * 300], ids=ascii
)
def test_42_a_model_is_a_known_one_a_folder_or_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((BenchError, ValueError)):
        find_model(name)


ALIKE = (
    "Model",
    "model",
    unicodedata.normalize("NFC", "caf\u00e9"),
    unicodedata.normalize("NFD", "caf\u00e9"),
)


def test_42_names_that_are_alike_are_other_rows(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.sqlite") as store:
        for name in (*ALIKE, *NAMES):
            store.add_result(make_result(make_job(model=name, weights=f"of {name!r}")))
        (board,) = build_boards(store.runs(), SUITES["glue"])
    names = [entry.model for entry in board.entries]
    assert len(set(names)) == len(names) == len(ALIKE) + len(NAMES)
    assert set(ALIKE) < set(names)
