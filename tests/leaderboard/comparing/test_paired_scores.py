"""Tests that headline scores split into per-example parts that reproduce them."""

from statistics import fmean

import numpy as np
import pytest
from sklearn.metrics import f1_score, matthews_corrcoef

from benchharness.leaderboard.boards.cell import score_names
from benchharness.leaderboard.comparing import (
    break_down,
    correlation,
    f1_of_counts,
    f1_of_label,
    headline_pairs,
    macro_f1,
    matthews,
    ratio,
    units_of,
)
from benchharness.tasks.suites import SUITES, find_task
from benchharness.tasks.task import Metric
from benchharness.tasks.task import score as score_split
from tests.helpers.drawn_predictions import drawn, mini

RULES = {task: suite.rule for suite in SUITES.values() for task in suite.tasks}
# The official F1 concatenates all sentences, so it is not a sum over sentences.
del RULES["xtreme/udpos"]


def splits_of(task: str) -> tuple[str, ...]:
    found = find_task(task)
    return found.dev_splits or found.test_splits


@pytest.mark.parametrize("name", sorted(n for n in RULES if find_task(n).head != "timed"))
def test_per_example_parts_of_every_task_reproduce_its_score_on_the_leaderboard(name: str) -> None:
    chances = {"one": (0.85, 0.8), "other": (0.6, 0.65)}
    splits = [drawn(name, split, **chances) for split in splits_of(name)]
    names = score_names(name, RULES[name])
    headline = headline_pairs(splits, names)
    assert headline is not None
    pairs = headline.pairs

    def official(side: str, seed: int) -> float:
        scores: dict[str, float] = {}
        for s in splits:
            scores |= score_split(s.task, s.split, getattr(s, side)[seed], s.examples)
        return fmean(scores[score] for score in names)

    for seed in range(2):
        assert pairs.one.scores[seed] == pytest.approx(official("one", seed))
        assert pairs.other.scores[seed] == pytest.approx(official("other", seed))
    assert sum(map(len, headline.units)) == sum(len(split.examples) for split in splits)


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("glue/cola", "mcc"),
        ("glue/mrpc", "f1"),
        ("glue/stsb", "pearson"),
        ("superglue/cb", "f1"),
        ("conll2003/ner", "f1"),
    ],
)
def test_per_example_parts_of_a_subset_reproduce_its_metric(name: str, score: str) -> None:
    split = drawn(name)
    (metric,) = (m for m in split.task.metrics if m.name == score)
    way = break_down(split.task, metric, (*split.one, *split.other), split.examples)
    assert way is not None
    parts = way.parts(split.one[0], split.examples, units_of(split.examples))
    half = len(split.examples) // 2
    value = metric.compute(split.one[0][:half], split.examples[:half])
    assert way.score(parts[:half].sum(axis=0)) == pytest.approx(value)


def test_examples_of_a_group_form_one_resampling_unit() -> None:
    assert max(map(len, units_of(mini("superglue/multirc", "dev")))) > 1
    assert {len(unit) for unit in units_of(mini("superglue/axg", "test"))} == {2}
    assert {len(unit) for unit in units_of(mini("race/all", "dev"))} == {1}


def test_score_counts_as_accuracy_only_if_it_is_the_accuracy_on_a_single_split() -> None:
    def is_accuracy(name: str) -> bool:
        splits = [drawn(name, split) for split in splits_of(name)]
        headline = headline_pairs(splits, score_names(name, RULES[name]))
        return headline is not None and headline.is_accuracy

    assert is_accuracy("glue/rte")
    assert is_accuracy("race/all")
    others = ("glue/cola", "glue/mrpc", "glue/mnli", "glue/stsb", "squad/v1.1", "superglue/axg")
    assert not any(map(is_accuracy, others))


def test_metric_that_is_not_additive_over_examples_has_no_per_example_parts() -> None:
    task = find_task("glue/rte")
    odd = Metric(name="odd", compute=lambda p, e: float(p[0].label == e[0].label) + len(e))
    split = drawn("glue/rte")
    assert break_down(task, odd, split.one, split.examples) is None
    assert headline_pairs([split], ("no such score",)) is None


def test_mcc_f1_and_correlation_formulas_match_scikit_learn_and_numpy() -> None:
    draw = np.random.default_rng(1)
    gold, guess = draw.integers(0, 3, size=(2, 90))
    guess[:40] = gold[:40]
    matrix = np.zeros((3, 3))
    np.add.at(matrix, (gold, guess), 1)
    flat = np.stack([matrix.ravel(), np.full(9, 10.0)]) / 90
    assert matthews(flat)[0] == pytest.approx(matthews_corrcoef(gold, guess))
    assert matthews(flat)[1] == pytest.approx(0.0)
    assert macro_f1(flat)[0] == pytest.approx(f1_score(gold, guess, average="macro"))
    each = f1_score(gold, guess, average=None)
    assert [f1_of_label(flat[0], k) for k in range(3)] == pytest.approx(list(each))
    x, y = draw.normal(size=(2, 50)) + 3
    moments = np.stack([np.ones(50), x, y, x * y, x * x, y * y], axis=1).mean(axis=0)
    assert correlation(moments) == pytest.approx(np.corrcoef(x, y)[0, 1])


def test_ratio_of_zero_and_zero_is_0() -> None:
    assert ratio(np.array([0.0, 0.0])) == 0
    assert f1_of_counts(np.array([0.0, 0.0, 0.0])) == 0
    assert correlation(np.array([1.0, 0.5, 0.5, 0.25, 0.25, 0.25])) == 0
    assert matthews(np.array([0.5, 0.0, 0.5, 0.0])) == 0
