"""Tests of fault 42: names that are paths, reserved, too long or differ only in case."""

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
def test_42_default_submission_name_is_a_safe_file_name(name: str) -> None:
    path = Path(_default_name("glue", name))
    assert path.parent == Path()
    assert 5 < len(path.name.encode()) <= 255
    assert path.name.startswith("glue-")
    assert path.name.isprintable()


def test_42_folder_of_a_kept_model_is_named_by_its_key_only() -> None:
    """A key is 64 hex digits, and no name of a job is part of a path."""
    for name in NAMES:
        folder = checkpoint_folder(Path("root"), make_job(model=name.replace("\ud800", "")).key)
        assert folder.parent == Path("root")
        assert set(folder.name) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    "name", ["../../escaped", "..", "", "a\\b", "CON", "aux.txt", "x" * 300], ids=ascii
)
def test_42_unknown_model_name_is_an_error(
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


def test_42_models_with_similar_names_are_separate_leaderboard_entries(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.sqlite") as store:
        for name in (*ALIKE, *NAMES):
            store.add_result(make_result(make_job(model=name, weights=f"of {name!r}")))
        (board,) = build_boards(store.runs(), SUITES["glue"])
    names = [entry.model for entry in board.entries]
    assert len(set(names)) == len(names) == len(ALIKE) + len(NAMES)
    assert set(ALIKE) < set(names)
