"""Tests that `bench check` and `bench compare` count right answers by official exact match."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.examples import SpanPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.results import make_job, make_result

TASK = find_task("squad/v2.0")
CALL = ("--task", "squad/v2.0", "--db", "board.sqlite")


def store_run(model, seed, answer):
    """Store a run on mini data whose answer to the n-th question is `answer(n, gold text)`."""
    splits = {f"squad/v2.0:{s}": read(TASK, s, parse_data("mini")) for s in ("train", "dev")}
    job = make_job(
        model=model,
        task="squad/v2.0",
        seed=seed,
        fingerprints={name: rows.fingerprint for name, rows in splits.items()},
    )
    rows = read_split(job, "squad/v2.0:dev")
    predictions = [
        SpanPrediction(id=e.id, **answer(n, e.answers[0][0] if e.answers else ""))
        for n, e in enumerate(rows.examples)
    ]
    found = evaluate_split("squad/v2.0:dev", rows, predictions)
    with open_store("board.sqlite") as store:
        store.add_result(replace(make_result(job), evaluations=(found,)))
    return found.scores["em"] * len(rows.examples)


def abstaining(n, gold):
    """Return the right text for every question, but no answer for every third."""
    return {"text": gold or "the", "no_answer_score": 1.0 if n % 3 == 0 else -1.0}


def always_wrong(n, gold):
    return {"text": "no such words", "no_answer_score": -1.0 if gold else -2.0}


def test_bench_check_and_bench_compare_use_the_official_exact_match(bench):
    exact = store_run("able", 1, abstaining)
    assert store_run("wrong", 1, always_wrong) == 0
    store_run("able", 2, always_wrong)
    words = ("--model", "able", *CALL, "--allow-weak", "--out", "baseline.json")
    assert bench("check", "--write", *words).code == 0
    written = json.loads(Path("baseline.json").read_text())
    right = written["tasks"]["squad/v2.0"]["right"]["squad/v2.0:dev"]
    assert right[0].count("1") == pytest.approx(exact)
    assert "1" not in right[1]
    ended = bench("compare", "able", "wrong", *CALL, "--json", "--examples", "10000")
    (found,) = json.loads(ended.out)
    compared = found["tasks"]["squad/v2.0"]
    assert compared["flipped"] == [pytest.approx(exact), 0]
    places = {flip["place"] for flip in compared["flips"]}
    assert places == {place for place, each in enumerate(right[0]) if each == "1"}
