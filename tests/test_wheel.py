"""The wheel holds the three packages with their data files, and nothing else."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
PACKAGES = {"benchharness", "leaderboard", "tasks"}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files in a wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_its_top_level_is_the_three_packages(names: set[str]) -> None:
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == PACKAGES


def test_it_holds_every_file_of_the_packages(names: set[str]) -> None:
    """Recipes, templates, published tables, vocabulary and mini data travel with the code."""
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    assert files - names == set()
    suffixes = {Path(name).suffix for name in names}
    assert {".toml", ".csv", ".tsv", ".txt", ".j2", ".css", ".js", ".json", ".jsonl"} <= suffixes


def test_it_carries_the_licence(names: set[str]) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in names)
