"""Tests of the distribution: one package with its data files, which occupies no other names."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
FOLDERS = {"benchharness": "benchharness"} | {
    name: f"benchharness/{name}" for name in ("leaderboard", "tasks")
}
"""The folders of the packages in the repository, and where they are installed."""

TASK = ("--model", "tiny", "--task", "glue/rte", "--limit", "16", "--data", "mini")
HOW = (*TASK, "--set", "epochs=1", "--seeds", "2")

PROJECT = {
    "tasks.py": 'MINE = "my tasks"\n',
    "leaderboard/__init__.py": 'MINE = "my leaderboard"\n',
    "conftest.py": "from tasks import MINE\n\nassert MINE\n",
    "tests/__init__.py": "",
    "tests/test_mine.py": """
import leaderboard
import tasks
from tests import helpers


def test_my_names_are_mine():
    assert (tasks.MINE, leaderboard.MINE, helpers.MINE) == (
        "my tasks", "my leaderboard", "my helpers")
""",
    "tests/helpers.py": 'MINE = "my helpers"\n',
    "tests/test_checked.py": """
import pytest
from tasks import MINE


@pytest.mark.bench(
    model="tiny", suite="glue", task="rte", limit=16, data="mini", set={"epochs": 1},
    baseline="baseline.json", seeds=2)
def test_rte_is_no_worse():
    assert MINE == "my tasks"
""",
    "plugin.py": """
from benchharness.tasks.task import Metric


def count(predictions, examples):
    return len(predictions) / 16


METRICS = {"glue/rte": (Metric(name="counted", compute=count),)}
""",
}
"""Project that used these names before benchharness was installed next to it."""


def build(builder: type[WheelBuilder] | type[SdistBuilder], root: Path, folder: Path) -> Path:
    (built,) = builder(str(root)).build(directory=str(folder), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel of this checkout."""
    return build(WheelBuilder, ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """Names of the files in the wheel."""
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_has_one_top_level_package(names: set[str]) -> None:
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"benchharness"}


def test_wheel_has_every_file_of_the_packages(names: set[str]) -> None:
    """Check that recipes, templates, published tables, vocabulary and mini data are packaged."""
    files = {
        f"{inside}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, inside in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    assert files - names == set()
    suffixes = {Path(name).suffix for name in names}
    assert {".toml", ".csv", ".tsv", ".txt", ".j2", ".css", ".js", ".json", ".jsonl"} <= suffixes


def test_wheel_has_the_licence_and_py_typed(names: set[str]) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "benchharness/py.typed" in names


def test_wheel_built_from_the_source_distribution_has_the_same_files(
    names: set[str], tmp_path: Path
) -> None:
    """Unpack the archive, which has no links: its packages are where they are installed."""
    with tarfile.open(build(SdistBuilder, ROOT, tmp_path / "source")) as archive:
        # Python before 3.11.4 does not have the argument `filter`.
        archive.extractall(
            tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    (unpacked,) = tmp_path.glob("benchharness-*/")
    with ZipFile(build(WheelBuilder, unpacked, tmp_path / "again")) as again:
        assert set(again.namelist()) == names


def test_readme_of_the_package_index_has_only_absolute_links(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(name).decode()
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []
    assert any(link.endswith("/main/docs/report.png") and "raw" in link for link in links)
    assert "Project-URL: Issues" in text
    assert "Programming Language :: Python :: 3.13" in text


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of a new environment, with the wheel and the other packages of this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    others = {str(Path(path)) for path in sys.path if Path(path).name == "site-packages"}
    (packages / "others.pth").write_text("\n".join(others))
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    options = ("--quiet", "--no-deps", "--no-index", "--force-reinstall")
    subprocess.run((*pip, "install", *options, wheel), check=True)
    return folder / "bin"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
@pytest.mark.soak
def test_project_can_have_packages_named_tasks_leaderboard_and_tests(
    installed: Path, project: Path
) -> None:
    def run(*command: str) -> str:
        hidden = ("PYTHONPATH", "PYTEST_ADDOPTS", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        ended = subprocess.run(
            (str(installed / command[0]), *command[1:]),
            cwd=project,
            env={**kept, "BENCH_CACHE": "cache", "BENCH_PLUGINS": "plugin.py"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    where = run("python", "-c", "import benchharness, tasks; print(benchharness.__path__, tasks)")
    assert str(installed.parent) in where
    run("bench", "run", *HOW)
    assert "counted" in run("python", "-m", "benchharness", "show", "runs", "--json")
    run("bench", "check", "--write", *TASK, "--allow-weak", "--out", "baseline.json")
    assert "2 passed" in run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
