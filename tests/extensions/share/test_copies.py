"""Tests that copied predictions are found, and that similar honest runs are not copies."""

import math
import random

import numpy as np
import pytest

from benchharness.extensions.reproduce.rounding import with_digits
from benchharness.extensions.share.copies import Sheet, copies, sheet_of
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.leaderboard.store.columns import to_columns, to_rows
from tests.helpers.shared_rows import as_data, made_run, rows_of, scored

LABELS = ("entailment", "not_entailment")


def sheets(run: Result) -> list[Sheet]:
    (one,) = run.evaluations
    rows = rows_of(one.task, one.split)
    return [sheet_of(run.job, one, predictions_of(one), rows, run.provenance)]


def alike(seed: int, noise: float, model: str = "ours") -> Result:
    """Return a run whose logits differ from the logits of other seeds only by noise.

    `noise` is the standard deviation of the noise.
    """
    shared, own = random.Random(0), random.Random(seed)
    predictions = []
    for example in rows_of("glue/rte", "dev").examples:
        chance = 1 / (1 + math.exp(-(shared.gauss(0, 2.5) + own.gauss(0, noise))))
        scores = [chance, 1 - chance]
        label = LABELS[scores.index(max(scores))]
        predictions.append({"id": example.id, "label": label, "scores": scores})
    return scored(made_run(model, seed), predictions)


@pytest.mark.parametrize("digits", [None, 4, 3, 2])
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_runs_of_other_seeds_with_mostly_equal_answers_are_not_copies(digits, noise):
    runs = [with_digits(alike(seed, noise), digits) for seed in range(6)]
    labels = [[row["label"] for row in run.evaluations[0].predictions] for run in runs]
    agreement = np.mean([a == b for a, b in zip(labels[0], labels[1], strict=True)])
    assert agreement > (0.9 if noise == 0.3 else 0.75)
    people = [(f"person{number}", sheets(run)) for number, run in enumerate(runs)]
    assert list(copies(people, range(len(people)))) == []


@pytest.mark.parametrize("digits", [None, 6, 4, 3, 2])
def test_a_copy_is_found_for_every_rounding_of_its_probabilities(digits):
    theirs = alike(1, 1.0)
    stolen = scored(made_run("mine", 7), list(theirs.evaluations[0].predictions))
    people = [("ada", sheets(theirs)), ("eve", sheets(with_digits(stolen, digits)))]
    (found,) = copies(people, [1])
    assert (found.place, found.source) == (1, 0)
    assert "are equal" in found.sentence


def test_repetition_of_a_job_and_own_run_of_the_same_seed_are_not_copies():
    run = alike(1, 1.0)
    again = scored(made_run("ours", 1), list(run.evaluations[0].predictions))
    other = made_run("ours", 1, settings={"epochs": 9})
    other = scored(other, list(run.evaluations[0].predictions))
    assert list(copies([("ada", sheets(run)), ("bob", sheets(again))], [0, 1])) == []
    assert list(copies([("ada", sheets(run)), ("ada", sheets(other))], [0, 1])) == []
    assert len(list(copies([("ada", sheets(run)), ("bob", sheets(other))], [1]))) == 1


# Conversion of predictions to columns.


@pytest.mark.parametrize("digits", [None, 6, 4, 2])
def test_predictions_are_unchanged_by_conversion_to_columns_and_back(digits):
    line = as_data(with_digits(made_run(), digits))
    columns = to_columns(line["data"])
    assert to_rows(columns) == line["data"]
    (packed,) = (each["predictions"] for each in columns["evaluations"])
    assert packed["columns"]["id"] == "numbers"
    assert isinstance(packed["columns"]["scores"], dict) == (digits is not None)


def test_predictions_with_odd_numbers_and_fields_are_unchanged_by_conversion_to_columns():
    odd = [
        {"id": "a", "scores": [-0.0, 1.0]},
        {"id": "b", "scores": [0.30000000000000004, 0.7]},
        {"id": "c", "scores": [1, 0]},
    ]
    mixed = [{"id": "0", "label": "x"}, {"id": "1", "label": "y", "text": None}]
    thirds = [{"id": "0", "scores": [0.33, 0.33, 0.33]}, {"id": "1", "scores": [1.0, 0.0, 0.0]}]
    for rows in (odd, odd[:1], odd[2:], mixed, thirds, [{"id": "0"}], []):
        data = {"evaluations": [{"predictions": rows}]}
        assert repr(to_rows(to_columns(data))) == repr(data)
