"""Tests of `bench share check --reproduce`: a sample of contributed runs is run again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.extensions.reproduce.rounding import with_digits
from tests.helpers.learned_engine import LearnedEngine
from tests.helpers.plans import plan_jobs
from tests.helpers.shared_rows import made_repository, scored

SEEDS = range(1, 6)
LABELS = ("entailment", "not_entailment")


def results(share=0.8, world=0):
    jobs = plan_jobs("tiny", "glue/rte", seeds=SEEDS).jobs
    return list(LearnedEngine({"glue/rte": share}, world).run(jobs, None))


@pytest.fixture
def engine(monkeypatch):
    """Return a function that sets the accuracy and the machine of the repetitions' engine."""

    def use(share=0.8, world=0):
        made = LearnedEngine({"glue/rte": share}, world)
        monkeypatch.setattr("benchharness.extensions.reproduce.replay.LocalEngine", made)
        return made

    return use


def check(bench, tmp_path, runs, *words):
    """Check a repository with these runs; return the exit code and the JSON."""
    made_repository(tmp_path / "board", {"ada": {"a.jsonl.gz": runs}})
    ended = bench("share", "check", "board", "--json", "--sample-seed", "1", *words)
    return ended.code, json.loads(ended.out)


@pytest.mark.parametrize("digits", [None, 3])
def test_honest_runs_are_reproduced_even_if_their_probabilities_were_rounded(
    bench, tmp_path, engine, digits
):
    made = engine()
    runs = [with_digits(run, digits) for run in results()]
    words = ("--reproduce", "40%", "--verdicts", "verdicts.json")
    code, found = check(bench, tmp_path, runs, *words)
    assert (code, found["faults"]) == (0, [])
    assert len(made.started) == len(found["sample"]["reproduced"]) == 2
    assert "2 of 2 drawn runs ran again, 2 reproduced" in found["sample"]["sentence"]
    assert found["sample"]["power"]["drawn"] == 2
    verdicts = json.loads(Path("verdicts.json").read_text())
    assert {each["verdict"] for each in verdicts} == {"the same bits"}
    theirs = tmp_path / "board" / "contributors" / "bob" / "verdicts.json"
    theirs.parent.mkdir()
    theirs.write_text(json.dumps(verdicts))
    assert bench("share", "check", "board").code == 0
    assert bench("share", "build", "board", "--out", "site").code == 0
    page = Path("site/index.html").read_text()
    assert "by ada" in page
    assert "reproduced once on 1 machine (the same bits) by bob" in page


def improved(run):
    """Return a run with every fourth answer and its probabilities exchanged; keep the curve."""
    (one,) = run.evaluations
    rows = [dict(row) for row in one.predictions]
    for row in rows[::4]:
        row["label"] = LABELS[1 - LABELS.index(row["label"])]
        row["scores"] = list(reversed(row["scores"]))
    return scored(run, rows)


def test_edited_predictions_that_pass_all_other_checks_are_found_by_the_sample(
    bench, tmp_path, engine
):
    engine()
    runs = [improved(run) for run in results()]
    code, found = check(bench, tmp_path, runs)
    assert (code, found["faults"]) == (0, [])
    code, found = check(bench, tmp_path / "again", runs, "--reproduce", "100%")
    assert code == 1
    assert {each["kind"] for each in found["faults"]} == {"reproduction"}
    assert "different" in found["faults"][0]["sentence"]


def test_time_limit_of_0_minutes_is_reported_and_nothing_runs(bench, tmp_path, engine):
    made = engine()
    code, found = check(bench, tmp_path, results(), "--reproduce", "100%", "--minutes", "0")
    assert (code, made.started) == (0, [])
    assert "time did not suffice for 5" in found["sample"]["sentence"]
    assert {each["kind"] for each in found["notes"]} == {"reproduction"}


def test_runs_of_a_refused_archive_are_not_run_again(bench, tmp_path, engine):
    made = engine()
    runs = results()
    runs[0] = replace(runs[0], finished="2999-01-01T00:00:00")
    code, found = check(bench, tmp_path, runs, "--reproduce", "100%")
    assert (code, made.started, found["sample"]) == (1, [], None)


def test_implausible_score_is_refused_until_it_is_reproduced(bench, tmp_path, engine):
    engine(share=0.99)
    best = results(share=0.99)
    others = {
        f"person{n}": {"a.jsonl.gz": [run]} for n, run in enumerate(results(share=0.6, world=3)[:4])
    }
    root = made_repository(tmp_path / "board", {**others, "eve": {"e.jsonl.gz": best[4:]}})
    found = json.loads(bench("share", "check", str(root), "--json").out)
    (fault,) = found["faults"]
    assert (fault["kind"], fault["place"]) == ("implausible", "contributors/eve/e.jsonl.gz")
    assert "runs of the same weights by others" in fault["sentence"]
    words = ("share", "check", str(root), "--json", "--reproduce", "100%")
    found = json.loads(bench(*words, "--verdicts", "v.json").out)
    assert "implausible" not in {each["kind"] for each in found["faults"]}
    # Without a sample, a verdict by another contributor is required, on exactly this run.
    verdicts = json.loads(Path("v.json").read_text())
    for who, run, kinds in (
        ("eve", None, {"implausible"}),
        ("person1", "0" * 64, {"implausible"}),
        ("person1", None, set()),
    ):
        given = [{**each, "run": run or each["run"]} for each in verdicts]
        place = root / "contributors" / who / "v.json"
        place.write_text(json.dumps(given))
        found = json.loads(bench("share", "check", str(root), "--json").out)
        assert {each["kind"] for each in found["faults"]} == kinds
        place.unlink()
