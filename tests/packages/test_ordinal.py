"""A third-party package adds a head, an answer type, a suite, a baseline and a command.

The package is in the folder `ordinal`. It uses the same interfaces as benchharness's extensions.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchharness.plugins import VARIABLE
from tests.helpers import ROOT

PACKAGE = Path(__file__).parent / "ordinal"
BENCH = (sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()")
WORDS = ("awful", "poor", "fair", "good", "superb")
FILLER = ("the", "film", "was", "long", "and", "seen", "in", "town")
RUN = ("run", "--task", "stars/reviews", "--data", "data", "--no-baselines", "--seeds", "1")


def write_reviews(folder: Path) -> None:
    """Write 300 training and 100 dev reviews, each with one word that gives its stars away."""
    draw = random.Random("stars")
    (folder / "reviews").mkdir(parents=True)
    for name, count in (("train", 300), ("dev", 100)):
        lines = ["review\tstars"]
        for number in range(count):
            level = number % len(WORDS)
            words = draw.sample(FILLER, 6)
            words.insert(draw.randrange(7), WORDS[level])
            lines.append(f"{' '.join(words)} {number}\t{level + 1}")
        (folder / "reviews" / f"{name}.tsv").write_text("\n".join(lines) + "\n")


def install(site: Path) -> None:
    """Make the package importable with its entry point, as pip does."""
    facts = site / "bench_ordinal-0.1.dist-info"
    facts.mkdir(parents=True)
    (site / "bench_ordinal").symlink_to(PACKAGE / "bench_ordinal")
    (facts / "METADATA").write_text("Name: bench-ordinal\nVersion: 0.1\n")
    point = re.search(r"(?m)^ordinal = .*$", (PACKAGE / "pyproject.toml").read_text())
    (facts / "entry_points.txt").write_text(
        f"[benchharness.extensions]\n{point[0].replace(chr(34), '')}\n"
    )


class Bench:
    """Runs `bench` in a folder with the package installed."""

    def __init__(self, folder: Path, words: tuple[str, ...] = BENCH) -> None:
        self.folder, self.words = folder, words
        write_reviews(folder / "data" / "stars")
        env = {name: value for name, value in os.environ.items() if name != VARIABLE}
        self.env = env | {"PYTHONDONTWRITEBYTECODE": "1"}

    def __call__(self, *words: str, code: int = 0) -> str:
        ended = subprocess.run(
            (*self.words, *words),
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("ordinal")
    install(folder / "site")
    found = Bench(folder)
    found.env["PYTHONPATH"] = str(folder / "site")
    models = ("--model", "majority", "--model", "bag-of-words", "--model", "tiny")
    found(*RUN, *models, "--keep-models")
    return found


def runs(bench: Bench) -> dict[str, dict[str, object]]:
    return {run["model"]: run for run in json.loads(bench("show", "runs", "--json"))}


@pytest.mark.soak
def test_ordinal_network_scores_above_the_majority_baseline(bench: Bench) -> None:
    board = json.loads(bench("leaderboard", "--suite", "stars", "--json"))[0]
    scores = {entry["model"]: entry["score"] for entry in board["entries"]}
    assert scores["tiny"] > 0.85
    assert scores["tiny"] > scores["majority"]
    assert scores["bag-of-words"] > scores["majority"]


@pytest.mark.soak
def test_ordinal_results_are_in_the_report_and_in_exports(bench: Bench) -> None:
    bench("report", "--suite", "stars", "--out", "page.html")
    page = (bench.folder / "page.html").read_text()
    assert "Reviews" in page
    assert re.search(r"<h2[^>]*>Levels .*mean level.*<th scope=row>tiny", page, re.DOTALL)
    bench("export", "--suite", "stars", "--format", "csv", "--out", "board.csv")
    assert "tiny" in (bench.folder / "board.csv").read_text()


@pytest.mark.soak
def test_command_of_a_third_party_package_reads_a_stored_run(bench: Bench) -> None:
    key = str(runs(bench)["tiny"]["key"])
    shown = bench("levels", key)
    assert int(re.search(r"0 levels away: (\d+)", shown)[1]) > 60
    assert "levels" in bench("--help")


@pytest.mark.soak
def test_recipe_file_of_a_third_party_package_is_a_recipe(bench: Bench) -> None:
    planned = bench(*RUN, "--model", "tiny", "--recipe", "gentle", "--dry-run")
    assert "tiny Reviews seed 1, gentle, " in planned
    bench(*RUN, "--model", "tiny", "--recipe", "gentle", "--set", "epochs=1")
    stored = json.loads(bench("show", "runs", "--model", "tiny", "--json"))
    (key,) = (run["key"] for run in stored if run["recipe"].startswith("gentle"))
    assert '"value": 1e-05' in bench("show", key, "--json")


@pytest.mark.soak
def test_killed_training_of_a_third_party_head_resumes_with_the_same_result(
    bench: Bench, tmp_path: Path
) -> None:
    other = Bench(tmp_path)
    other.env["PYTHONPATH"] = bench.env["PYTHONPATH"]
    words = (*RUN, "--model", "tiny")
    begun = subprocess.Popen(
        (*other.words, *words), cwd=tmp_path, env=other.env, start_new_session=True
    )
    time.sleep(6)
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    other(*words)
    assert runs(other)["tiny"]["scores"] == runs(bench)["tiny"]["scores"]
    assert runs(other)["tiny"]["key"] == runs(bench)["tiny"]["key"]


@pytest.mark.soak
def test_third_party_technique_changes_the_training_of_a_built_in_task(bench: Bench) -> None:
    words = ("run", "--task", "glue/rte", "--data", "mini", "--model", "tiny", "--seeds", "1")
    bench(*words, "--no-baselines", "--set", "fresh_layers=1,0")
    found = json.loads(bench("show", "runs", "--task", "glue/rte", "--json"))
    assert len({run["key"] for run in found}) == 2
    shown = [json.loads(bench("show", str(run["key"]), "--json")) for run in found]
    assert [("fresh_layers" in json.dumps(run)) for run in shown].count(True) == 1


@pytest.mark.soak
def test_changed_code_of_a_third_party_head_changes_the_job_key(
    bench: Bench, tmp_path: Path
) -> None:
    """The digest of a job covers modules that only its worker imports."""
    site = tmp_path / "site"
    install(site)
    package = site / "bench_ordinal"
    package.unlink()
    package.mkdir()
    for path in (PACKAGE / "bench_ordinal").rglob("*.*"):
        target = package / path.relative_to(PACKAGE / "bench_ordinal")
        target.parent.mkdir(exist_ok=True)
        if path.suffix in (".py", ".toml"):
            target.write_bytes(path.read_bytes())
    head = package / "head.py"
    head.write_text(head.read_text() + "\n# changed\n")
    kept = bench.env["PYTHONPATH"]
    try:
        bench.env["PYTHONPATH"] = str(site)
        assert "1 to run" in bench(*RUN, "--model", "tiny", "--dry-run")
    finally:
        bench.env["PYTHONPATH"] = kept


@pytest.mark.soak
def test_third_party_package_can_be_used_after_pip_install(tmp_path: Path) -> None:
    """pip builds a wheel of the package and installs it next to benchharness."""
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run((sys.executable, "-m", "venv", tmp_path / "env"), check=True)
    # Reuse the libraries of this environment, so that only the build backend is downloaded.
    place = next(path for path in sys.path if path.endswith("site-packages"))
    own = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    (own / "libraries.pth").write_text(f"{place}\n{ROOT}\n")
    pip = (python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run((*pip, str(PACKAGE)), check=True, cwd=tmp_path)
    words = (str(python), "-P", "-c", "from benchharness.cli.app import main; main()")
    found = Bench(tmp_path, words)
    found(*RUN, "--model", "tiny")
    assert "0 levels away" in found("levels", str(runs(found)["tiny"]["key"]))
