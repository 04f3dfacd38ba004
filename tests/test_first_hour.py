"""The first hour of a user: in an empty folder and a new environment, with pip and nothing else.

`make try-packages` runs it with the packages in the folder $BENCH_TEST_DIST, as the workflow of a
release does before it uploads them. Without this variable, a wheel is built.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.helpers import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(1500)]

REVIEWS = """
import benchharness as bh
rows = bh.load("glue/sst2", "train", data="mini")[["text_a", "label"]]
rows.rename(columns={"text_a": "text"}).to_csv("reviews.csv", index=False)
"""


class Installed(NamedTuple):
    """Programs of a new environment, an empty folder outside of the repository, and the version."""

    programs: Path
    folder: Path
    version: str

    def run(self, program: str, *words: str) -> str:
        """Run a program in the folder; return what it prints on stdout, and require success."""
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        ended = subprocess.run(
            (self.programs / program, *words),
            cwd=self.folder,
            env={
                **kept,
                "PATH": f"{self.programs}:/usr/bin:/bin",
                "HOME": str(self.folder.parent / "home"),
                # An unreachable hub, so that nothing is downloaded.
                "HF_ENDPOINT": "http://127.0.0.1:9",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{program} {words}: {ended.stdout}{ended.stderr}"
        return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel with the pinned versions, as README describes it."""
    folder = tmp_path_factory.mktemp("user")
    dist = os.environ.get("BENCH_TEST_DIST")
    if dist:
        (wheel,) = (ROOT / dist).glob("benchharness-*.whl")
    else:
        (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
        wheel = Path(built)
    subprocess.run((sys.executable, "-m", "venv", folder / "bench-env"), check=True)
    for name in ("work", "home"):
        (folder / name).mkdir()
    version = wheel.name.split("-")[1]
    found = Installed(folder / "bench-env" / "bin", folder / "work", version)
    options = ("--quiet", "--disable-pip-version-check", "--no-compile")
    constraint = ("--constraint", str(ROOT / "constraints.txt"))
    found.run("python", "-m", "pip", "install", *options, *constraint, "torch", str(wheel))
    return found


def test_installed_package_knows_its_version_and_doctor_finds_no_problem(
    installed: Installed,
) -> None:
    assert installed.run("bench", "--version") == f"benchharness {installed.version}\n"
    place = installed.run("python", "-c", "import benchharness; print(benchharness.__file__)")
    assert Path(place.strip()).is_relative_to(installed.programs.parent)
    findings = json.loads(installed.run("bench", "doctor", "--json"))
    assert {each["name"] for each in findings if each["state"] == "problem"} == set()
    (optional,) = (each["found"] for each in findings if each["name"] == "optional")
    assert optional.startswith("none installed; not installed: ")


def test_demo_own_data_export_and_prediction_work_after_the_installation(
    installed: Installed,
) -> None:
    has_demo = re.search(r"(?m)^ +demo\b", installed.run("bench", "--help"))
    glue = ("run", "--model", "tiny", "--suite", "glue", "--data", "mini", "--seeds", "1")
    board = installed.run("bench", *(("demo",) if has_demo else glue))
    assert re.search(r"(?m)^(1 )?tiny +\d\d\.\d", board), board
    installed.run("python", "-c", REVIEWS)
    custom = ("--model", "tiny", "--data-file", "reviews.csv", "--seeds", "1", "--keep-models")
    board = installed.run("bench", "run", *custom)
    assert "bag-of-words" in board
    installed.run("bench", "model", "tiny", "--suite", "reviews", "--to", "model")
    assert (installed.folder / "model" / "model.safetensors").is_file()
    (installed.folder / "new.csv").write_text("text\nthe film is splendid .\nthe plot is dull .\n")
    lines = installed.run("bench", "predict", "model", "new.csv").splitlines()
    predictions = [json.loads(line) for line in lines]
    assert [each["id"] for each in predictions] == ["2", "3"]
    assert {each["label"] for each in predictions} <= {"negative", "positive"}
    runs = json.loads(installed.run("bench", "show", "runs", "--json"))
    assert len(runs) > 10
    assert f"the newest by benchharness {installed.version}" in installed.run("bench", "doctor")
