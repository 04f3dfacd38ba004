"""Tests of the guards of the regression check: parsing, values, verdicts, and output."""

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from scipy.stats import t

from benchharness.errors import BenchError
from benchharness.extensions.gate.guards import Guard, below_minimum, values_of
from benchharness.extensions.gate.judge import judge
from benchharness.extensions.gate.sample import Baseline, Sample
from benchharness.extensions.gate.verdict_text import annotations, facts_of, to_junit, to_markdown
from benchharness.leaderboard.result import Evaluation, to_row
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.extensions.gate.samples import BEFORE, LARGE, MORE_IDS, sample
from tests.helpers.results import make_job, make_result

OLD = (0.90, 0.91, 0.89, 0.90, 0.92)


def guarded(name, before, now, **fields):
    """Return the verdict on a guard of RTE; the score itself has not changed."""
    old = replace(BEFORE["glue/rte"], guards={name: before})
    new = replace(sample((0.80, 0.81), "1101" + LARGE), guards={name: now})
    return judge(
        "tiny on mini data", {"glue/rte": old}, {"glue/rte": new}, MORE_IDS, alpha=0.05, **fields
    )


def test_check_fails_if_a_guard_drops_although_the_score_does_not():
    found = guarded("coverage=0.9", OLD, (0.6, 0.62))
    (guard,) = found.guards
    assert (guard.is_worse, found.tasks[0].is_worse, found.exit_code) == (True, False, 3)
    assert found.sentence.startswith("Guards fail: coverage=0.9 of RTE (of 1). RTE is not")
    kept = guarded("coverage=0.9", OLD, (0.9, 0.89))
    assert (kept.exit_code, kept.broken) == (0, ())


def test_p_value_of_a_guard_is_computed_as_for_scores_and_corrected_by_holm():
    found = guarded("coverage=0.9", OLD, (0.86, 0.88))
    spread = np.std(OLD, ddof=1) * np.sqrt(1 / 5 + 1 / 2)
    alone = t.cdf(-(np.mean(OLD) - 0.87) / spread, 4)
    assert found.guards[0].p_value == pytest.approx(2 * alone)  # the score is the second test
    share = t.ppf(1 - 0.05 / 2, 4) * spread
    assert found.guards[0].tolerated == pytest.approx(share)
    assert found.tasks[0].tolerated > judge_alone().tasks[0].tolerated


def judge_alone():
    now = {"glue/rte": sample((0.80, 0.81), "1101" + LARGE)}
    return judge("tiny", {"glue/rte": BEFORE["glue/rte"]}, now, MORE_IDS, alpha=0.05)


def test_minimum_of_a_guard_is_compared_with_the_mean_of_the_new_runs():
    assert guarded("recall=x>=0.8", OLD, (0.78, 0.81)).exit_code == 3
    kept = guarded("recall=x>=0.8", OLD, (0.79, 0.82))
    assert (kept.exit_code, kept.guards[0].p_value) == (0, None)
    assert "the minimum is 80.00" in kept.guards[0].sentence


def test_guards_fail_in_at_most_five_per_cent_of_checks_without_a_change():
    draw, alarms = np.random.default_rng(1), 0
    for _ in range(400):
        values = [tuple(draw.normal(0.8, 0.02, count)) for count in (5, 3)]
        alarms += guarded("coverage", *values).exit_code == 3
    assert alarms <= 22  # Holm tests the unchanged score too, so the rate is about 2.5 %


def test_every_output_format_has_the_guard():
    found = guarded("coverage=0.9", OLD, (0.6, 0.62))
    facts = json.loads(json.dumps(facts_of(found)))["guards"][0]
    assert (facts["guard"], facts["is_worse"]) == ("coverage=0.9", True)
    assert facts["drop"] == pytest.approx(0.294)
    assert "| coverage=0.9 of RTE | 90.40 | 61.00 | +29.40 |" in to_markdown(found)
    (suite,) = ET.fromstring(to_junit(found))
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")
    (case,) = [case for case in suite if case.attrib["name"] == "coverage=0.9 of RTE"]
    assert "61.00, after 90.40 in the baseline" in case.find("failure").attrib["message"]
    assert any("error title=coverage=0.9 of RTE is worse" in line for line in annotations(found))


def test_baseline_file_round_trips_guards_and_collapsed_runs_are_left_out():
    made = replace(sample(OLD, "1101"), guards={"coverage": OLD}, collapsed=(2,))
    text = Baseline(
        model="tiny", data="mini", limit=None, recipe="", environment={}, tasks={"glue/rte": made}
    ).to_text()
    read_again = Baseline.from_text(text, "b.json").tasks["glue/rte"]
    assert read_again == made
    assert read_again.learned.guards == {"coverage": (0.90, 0.89, 0.90, 0.92)}
    old = json.loads(text)["tasks"]["glue/rte"]
    del old["guards"]
    assert Sample.from_json(old).guards == {}
    with pytest.raises(ValueError, match="the guard coverage must have one finite value"):
        Sample.from_json({**old, "guards": {"coverage": [1.0]}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed", "--guard 'speed' is unknown: expected calibration, coverage, "),
        ("recall=x>=high", "has the minimum 'high', which is not a number"),
    ],
)
def test_wrong_guards_are_reported_in_one_sentence(text, said):
    with pytest.raises(BenchError, match=said):
        Guard.parse(text)


# Values from predictions.


def values(guard, right, task="glue/rte", scores=True):
    """Return the value of a guard for a synthetic run, and the rows.

    The run answers the n-th row correctly if `right(n)` is true.
    """
    found = find_task(task)
    rows = read(found, "dev", parse_data("mini")).examples
    job = make_job(task=task)
    guesses = []
    for place, row in enumerate(rows):
        gold = found.labels.index(row.label)
        guess = gold if right(place) else 1 - gold
        chances = tuple(0.5 + 0.4 * (n == guess) - 0.4 * (n != guess) for n in range(2))
        guesses.append(
            PairPrediction(id=row.id, label=found.labels[guess], scores=chances if scores else ())
        )
    evaluation = Evaluation(
        task=task, split="dev", fingerprint="", scores={}, predictions=tuple(map(to_row, guesses))
    )
    result = replace(make_result(job), evaluations=(evaluation,))
    (value,) = values_of([guard], [result], {f"{task}:dev": rows})[guard]
    return value, rows


def test_guard_values_agree_with_their_definitions():
    value, rows = values("recall=entailment", lambda place: place % 4 > 0)
    own = [place % 4 > 0 for place, row in enumerate(rows) if row.label == "entailment"]
    assert value == pytest.approx(np.mean(own))
    # Three of four answers are right, and the confidence is 0.9: the calibration error is 0.15.
    value, _ = values("calibration", lambda place: place % 4 > 0)
    assert value == pytest.approx(1 - 0.15)
    assert values("coverage=0.7", lambda place: place % 4 > 0)[0] == 1.0
    assert values("coverage=0.8", lambda place: place % 4 > 0)[0] == 0.0
    value, rows = values("worst-group=answer", lambda place: place % 4 > 0)
    shares = {
        label: np.mean([place % 4 > 0 for place, row in enumerate(rows) if row.label == label])
        for label in ("entailment", "not_entailment")
    }
    assert value == pytest.approx(min(shares.values()))


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        ("recall=happy", "its classes are entailment, not_entailment"),
        ("coverage=95", "must be an accuracy above 0 and at most 1"),
        ("calibration=3", "takes no value"),
        ("worst-group=colour", "--groups 'colour' is unknown"),
    ],
)
def test_guards_that_do_not_fit_the_task_are_reported_in_one_sentence(guard, said):
    with pytest.raises(BenchError, match=said):
        values(guard, lambda _: True)


def test_calibration_guard_is_refused_without_probabilities():
    with pytest.raises(BenchError, match="without probabilities"):
        values("calibration", lambda _: True, scores=False)


def test_baseline_below_the_minimum_of_a_guard_is_reported():
    assert list(below_minimum({"recall=x>=0.8": (0.7, 0.8), "coverage": (0.1,)})) == [
        "the guard recall=x>=0.8 has the mean 0.750, below its minimum"
    ]
