"""Tests of score tests, summaries of verdicts, and the file of verdicts."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchharness.errors import StoreError
from benchharness.extensions.reproduce.seeds import ALPHA, check_scores
from benchharness.extensions.reproduce.shown import facts
from benchharness.extensions.reproduce.verdicts import Verdict, Verdicts, identity, summary
from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import make_job, make_result

DEVIATION = 0.008
ROWS = 277


def score_test(stored, found, others=(), rows=ROWS):
    (test,) = check_scores(
        {"RTE dev accuracy": (stored, found)},
        {"RTE dev accuracy": others},
        {"RTE dev accuracy": rows},
        {"RTE dev accuracy": 1.0},
    )
    return test


@pytest.mark.soak
@pytest.mark.parametrize("count", [3, 5])
def test_score_test_finds_a_planted_point_as_often_as_its_stated_power(count):
    """Draw scores with and without an added point, and compare the share of findings."""
    draw = np.random.default_rng(5)
    scores = draw.normal(0.7, DEVIATION, size=(4000, count + 2))
    alarms, found, power = 0, 0, []
    for stored, again, *others in scores.tolist():
        honest, raised = score_test(stored, again, others), score_test(stored + 0.01, again, others)
        alarms += not honest.is_within
        found += not raised.is_within
        power.append(raised.power)
    assert abs(alarms / len(scores) - ALPHA) < 0.015
    # The stated power uses the estimated deviation, so only its mean can be compared.
    known = score_test(0.7, 0.7, [0.7 - DEVIATION, 0.7, 0.7 + DEVIATION]).power
    assert abs(found / len(scores) - np.mean(power)) < 0.1
    assert 0 < known < 1


def test_stated_power_equals_the_share_of_findings_in_a_simulation():
    draw = np.random.default_rng(6)
    others = [0.70, 0.71, 0.69, 0.705]
    test = score_test(0.7, 0.7, others)
    scale = test.deviation * np.sqrt(2)
    spread = np.sqrt(draw.chisquare(3, size=200_000) / 3)
    for difference, power in ((0.01, test.power), (test.detectable, 0.8)):
        values = np.abs(draw.normal(difference / scale, 1, size=200_000)) / spread
        assert abs(float(np.mean(values > test.limit / scale)) - power) < 0.005


def test_without_two_other_seeds_the_limit_comes_from_the_standard_error():
    for others in ((), (0.7,), (0.7, 0.7)):
        test = score_test(0.70, 0.72, others)
        assert test.seeds == 0
        error = (0.72 * 0.28 / ROWS) ** 0.5
        assert test.limit == pytest.approx(1.96 * 2**0.5 * error, rel=1e-3)
        assert test.is_within
        assert "from the standard error of a difference" in test.sentence
        assert "probability" in test.sentence
    assert not score_test(0.70, 0.90).is_within
    assert score_test(0.7, 1.0, rows=5).limit > 0, "a perfect score still has an error"


def test_several_scores_share_the_significance_level():
    one = score_test(0.7, 0.7, [0.70, 0.71, 0.69])
    names = ("a", "b")
    both = check_scores(
        dict.fromkeys(names, (0.7, 0.7)),
        {name: [0.70, 0.71, 0.69] for name in names},
        dict.fromkeys(names, ROWS),
        dict.fromkeys(names, 1.0),
    )
    assert all(each.limit > one.limit for each in both)


def verdict(kind="bits", host="aa", *, round_id="r1", key="k", run="x", differs=""):
    return Verdict(
        round=round_id,
        key=key,
        run=run,
        kind=kind,
        differs=differs,
        sentences=(f"{differs}: it was 1, and is 2.",) if differs else (),
        answers=0,
        rows=3,
        moved=0.0,
        tests=(),
        machine={"host": host},
        versions={},
        seconds=1.0,
        finished="2026-01-01T00:00:00+00:00",
    )


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([verdict()], "reproduced once on 1 machine (the same bits)"),
        (
            [verdict(), verdict(host="bb"), verdict("answers", "bb")],
            "reproduced 3 times on 2 machines (2 the same bits, 1 the same answers)",
        ),
        (
            [verdict(), verdict("different", differs="score")],
            "reproduced once on 1 machine (the same bits); different once (score)",
        ),
        ([verdict("different", differs="data")], "not reproduced: different once (data)"),
    ],
)
def test_summary_counts_reproductions_and_machines(verdicts, words):
    assert summary(verdicts) == words


def test_verdicts_are_kept_once_per_round_and_job(store):
    kept = Verdicts(store)
    assert kept.all() == []
    assert not kept.file.path.exists(), "reading creates no file"
    for each in (verdict("within"), verdict(), verdict(round_id="r2"), verdict(key="other")):
        kept.add(each)
    assert [(v.round, v.key, v.kind) for v in kept.all({"k"})] == [
        ("r1", "k", "bits"),
        ("r2", "k", "bits"),
    ]
    assert Verdict.from_json(json.loads(json.dumps(verdict().to_json()))) == verdict()


def test_verdicts_apply_only_to_the_run_with_the_same_end_and_scores(store):
    result = make_result()
    store.add_result(result)
    (row,) = store.runs()
    Verdicts(store).add(verdict(key=row.key, run=identity(row)))
    known = facts(store, [row])[row.key]
    assert (known["times"], known["machines"]) == (1, 1)
    assert known["text"] == "reproduced once on 1 machine (the same bits)"
    again = replace(result, finished="2026-08-02T12:00:00Z")
    store.add_result(again)
    assert facts(store, store.runs()) == {}
    edited = replace(row, scores={"glue/rte": {"accuracy": 0.99}})
    assert facts(store, [edited]) == {}


def test_damaged_file_of_verdicts_raises_a_one_sentence_error(store):
    kept = Verdicts(store)
    kept.file.path.write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match=r"verdicts .* cannot be used .* delete the file"):
        kept.all()


def test_file_of_verdicts_has_the_name_of_its_store(tmp_path):
    with open_store(tmp_path / "a.sqlite") as one, open_store(tmp_path / "b.sqlite") as other:
        paths = [Verdicts(each).file.path for each in (one, other)]
    assert [path.name for path in paths] == ["a.sqlite.reproduced", "b.sqlite.reproduced"]
    assert make_job().key
