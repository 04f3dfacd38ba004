"""`bench paper`: the folder that it writes, and errors."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import benchharness
from benchharness.cli.app import main
from benchharness.errors import BenchError
from benchharness.extensions.paper.folder import _write as write_paper
from benchharness.extensions.paper.folder import check_paper
from benchharness.leaderboard.store.archive import read_archive, write_archive
from benchharness.leaderboard.store.store import open_store
from tests.helpers.bench_process import BENCH, environment
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.learned_engine import LearnedEngine

SUITES = ("--suite", "snli", "--data", "mini")
WORDS = (*SUITES, "--device", "cpu", "--precision", "fp32", "--seeds", "2")


class _ByModel(LearnedEngine):
    def _result(self, job, share):
        return super()._result(job, 0.55 if job.model == "mine" else share)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_checkpoint(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def paper(tmp_path, monkeypatch, capsys, encoder):
    """Run the command with an engine that trains nothing; returns exit code and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DB", raising=False)

    def run(*words, share=0.95, against="tiny,majority", suites=WORDS):
        engine = _ByModel(dict.fromkeys(("snli/snli", "glue/rte"), share))
        monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)
        argv = ["bench", "paper", "--model", f"mine={encoder}", "--against", against]
        monkeypatch.setattr(sys, "argv", [*argv, *suites, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    return run


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_paper_from_an_imported_archive_is_identical_in_another_environment(
    paper, tmp_path, encoder
):
    code, printed = paper()
    assert code == 0, printed.err
    first = _files(tmp_path / "paper")
    table = first["snli.tex"].decode()
    below = r"^mine & 5\d\.\d .*\n & \{.*\\selectfont [\d.]+\\textendash\{\}[\d.]+\}"
    assert re.search(below, table, re.MULTILINE), "its interval is in the line below"
    assert re.search(r"^tiny & \\textbf\{9\d\.\d\}\\textsuperscript\{\\dag\}", table, re.MULTILINE)
    assert r"\dag{}: significantly different from mine in a paired test" in table
    assert r"\caption{SNLI, mini data, development sets.}" in table
    assert "SNLI on mini data" not in table, "the caption says so"
    rows = list(csv.DictReader(first["runs.csv"].decode().splitlines()))
    with open_store(tmp_path / "results" / "leaderboard.sqlite") as store:
        for row in rows:
            runs = [store.runs(key=key)[0] for key in row["runs"].split()]
            assert {run.model for run in runs} == {row["row"]}
            assert len(runs) == (1 if row["row"] == "majority" else 2)
    appendix = first["appendix.tex"].decode()
    for word in ("Hyperparameters", "learning rate", "google-research/bert", "Fingerprint"):
        assert word in appendix
    assert "against majority, tiny" in first["README.md"].decode()
    everything = b"".join(first.values())
    for word in (str(tmp_path), str(encoder), "2026-01-01"):
        assert word.encode() not in everything
    # Write the paper again from an imported archive, with another folder, time zone and language.
    other = tmp_path / "other"
    shutil.copytree(encoder, other / "weights")
    archive = tmp_path / "all.jsonl.gz"
    with open_store("results/leaderboard.sqlite") as store, archive.open("wb") as file:
        write_archive(file, store.stored_runs())
        (key, *_) = (run.key for run in store.runs())
        assert store.reading_from("there").result(key).job.data == "there"
    with open_store(other / "results" / "leaderboard.sqlite") as store:
        assert store.add_stored(read_archive(archive)) == 5
    words = ("paper", "--model", "mine=weights", "--against", "tiny,majority", *WORDS)
    ended = subprocess.run(
        (*BENCH, *words, "--to", "again"),
        cwd=other,
        env=environment() | {"TZ": "Pacific/Kiritimati", "LANG": "C", "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert _files(other / "again") == first


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="LaTeX is not installed")
def test_paper_compiles_without_overfull_boxes(paper, tmp_path):
    paper()
    folder = tmp_path / "paper"
    command = ("pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex")
    ended = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
    log = (folder / "main.log").read_text(encoding="latin-1")
    assert ended.returncode == 0, log[-2000:]
    assert re.findall(r"Overfull.*|.*Float too large.*|Missing character.*", log) == []
    # Files that LaTeX has written do not count as the user's files, so the same command succeeds.
    assert paper()[0] == 0
    assert (folder / "main.pdf").exists()


def test_paper_command_never_overwrites_foreign_or_edited_files(paper, tmp_path):
    folder = tmp_path / "paper"
    folder.mkdir()
    (folder / "main.tex").write_text("mine")
    code, printed = paper()
    assert code == 2
    assert (
        "paper is not empty, and `bench paper` did not create it: pass another --to" in printed.err
    )
    assert _files(folder) == {"main.tex": b"mine"}
    assert not (tmp_path / "results").exists(), "nothing has run"
    assert paper("--to", "new")[0] == 0
    (tmp_path / "new" / "snli.tex").write_text("edited")
    before = _files(tmp_path / "new")
    code, printed = paper("--to", "new")
    assert code == 2
    assert "snli.tex was edited after `bench paper` wrote it" in printed.err
    assert _files(tmp_path / "new") == before


def test_paper_without_a_finished_run_is_an_error(paper, tmp_path):
    code, printed = paper(share=None)
    assert code == 2
    assert "none of the 5 runs of this paper has finished" in printed.err
    assert not (tmp_path / "paper").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"against": "nobody"}, "nobody"),
        ({"against": "mine-not-there=/nowhere"}, "/nowhere"),
        ({"against": ","}, "pass your encoder and the systems to compare it with"),
    ],
)
def test_paper_with_an_unknown_model_to_compare_is_an_error(paper, tmp_path, words, said):
    code, printed = paper(**words)
    assert code in (2, 4)
    assert said in printed.err
    assert "Traceback" not in printed.err
    assert not (tmp_path / "paper").exists()


def test_hours_option_of_the_paper_command_limits_the_number_of_seeds(paper, tmp_path, encoder):
    code, printed = paper("--hours", "0.00001")
    assert code == 2
    assert "one seed of all jobs takes about" in printed.err
    options = {"suite": "snli", "data": "mini", "device": "cpu", "precision": "fp32", "seeds": 2}
    model, against = f"mine={encoder}", ("tiny", "majority")
    every = benchharness.paper(model, against=against, dry_run=True, **options).schedule
    seconds = {seed: sum(j["about_seconds"] for j in every if j["seed"] <= seed) for seed in (1, 2)}
    hours = str((seconds[1] + seconds[2]) / 2 / 3600)
    code, printed = paper("--dry-run", "--jobs", "1", "--hours", hours)
    assert "2 jobs with more seeds do not fit into --hours" in printed.err
    assert "3 jobs" in printed.out
    assert not (tmp_path / "paper").exists()


def test_paper_on_single_tasks_has_tables_of_only_these_tasks(paper, tmp_path):
    tasks = ("--task", "glue/rte", "--task", "snli/snli", *WORDS[2:])
    code, printed = paper(suites=tasks)
    assert code == 0, printed.err
    files = _files(tmp_path / "paper")
    assert {"glue.tex", "snli.tex"} <= files.keys()
    rows = list(csv.DictReader(files["runs.csv"].decode().splitlines()))
    columns = {row["column"] for row in rows if row["table"] == "tab:glue"}
    assert "RTE" in columns
    assert not columns & {"score", "Score", "CoLA", "MNLI-m/mm"}
    assert b"CoLA" not in files["glue.tex"]
    code, printed = paper("--suite", "snli", "--to", "both", suites=tasks[:2] + WORDS[2:])
    assert code == 2
    assert "glue/rte" in printed.err


def test_paper_folder_can_be_written_from_python(paper, tmp_path, encoder):
    paper()
    options = {"suite": "snli", "data": "mini", "device": "cpu", "precision": "fp32", "seeds": 2}
    found = benchharness.paper(f"mine={encoder}", against="tiny", to=tmp_path / "api", **options)
    assert len(found.keys) == 4
    assert "snli.tex" in _files(tmp_path / "api")
    with pytest.raises(BenchError, match="tiny cannot be compared with itself"):
        benchharness.paper("tiny", against=["tiny"], to=tmp_path / "no", **options)


@pytest.mark.soak  # takes some minutes on two cores
@pytest.mark.timeout(1200)
def test_paper_on_small_encoders_is_complete_in_under_ten_minutes(tmp_path: Path, encoder):
    started = os.times()
    words = ("--model", "tiny", "--against", f"small={encoder},majority", "--data", "mini")
    code, _, said = bench_for(tmp_path, 1200, "paper", *words, "--seeds", "2")
    assert code == 0, said
    ended = os.times()
    cores = len(os.sched_getaffinity(0))
    # Measure processor time, because other programs on the machine must not make this test fail.
    taken = ended.children_user + ended.children_system
    taken -= started.children_user + started.children_system
    assert taken < 600 * min(cores, 2)
    names = _files(tmp_path / "paper").keys()
    assert {"glue.tex", "superglue.tex", "squad.tex", "beir.tex"} <= names


def bench_for(folder, seconds, *words):
    """Run `bench` in a process that may take `seconds`."""
    ended = subprocess.run(
        (*BENCH, *words),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_temporary_file_of_a_killed_paper_command_is_removed(tmp_path: Path):
    (tmp_path / ".manifest.json.x1").write_text("half")
    check_paper(tmp_path)
    write_paper(tmp_path, {"main.tex": b"text"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["main.tex", "manifest.json"]


def test_paper_that_is_written_again_without_changes_has_the_same_files(tmp_path: Path):
    write_paper(tmp_path, {"main.tex": b"text"})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_paper(tmp_path, {"main.tex": b"text"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
