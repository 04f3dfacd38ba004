"""Fault 31: a thousand seeded sets for each metric against another's numbers or its formula.

SQuAD, ReCoRD and entities have theirs beside their own tests.
"""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import confusion_matrix

from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.metrics import (
    accuracy,
    answer_option_f1,
    binary_f1,
    macro_f1,
    matthews,
    pearson,
    question_exact_match,
    question_f1,
    spearman,
)

SETS = pytest.mark.parametrize("sets", [200, pytest.param(1000, marks=pytest.mark.soak)])

CB = ("entailment", "contradiction", "neutral")

Rows = list[tuple[str, str, str]]
"""Question, predicted and gold label."""


def build(rows):
    """Predictions and examples of (group, predicted, gold)."""
    predictions = [PairPrediction(id=str(i), label=guess) for i, (_, guess, _) in enumerate(rows)]
    examples = [
        PairExample(id=str(i), text_a="x", label=gold, group=group)
        for i, (group, _, gold) in enumerate(rows)
    ]
    return predictions, examples


def draw(random: Random, labels: tuple[str, ...]) -> Rows:
    """Up to 40 rows of up to 8 questions; how often a guess is right differs by set."""
    skill = random.random()
    rows = []
    for _ in range(random.randint(1, 40)):
        gold = random.choice(labels)
        guess = gold if random.random() < skill else random.choice(labels)
        rows.append((f"q{random.randrange(8)}", guess, gold))
    return rows


def f1(rows: Rows, label: str) -> float:
    """F1 of one class from its counts, 0 where nothing of it is right."""
    right = sum(guess == gold == label for _, guess, gold in rows)
    guessed = sum(guess == label for _, guess, _ in rows)
    known = sum(gold == label for _, _, gold in rows)
    return 2 * right / (guessed + known) if right else 0.0


def multirc(rows: Rows) -> list[float]:
    questions = [[row for row in rows if row[0] == name] for name in {row[0] for row in rows}]
    whole = [all(guess == gold for _, guess, gold in question) for question in questions]
    precision, recall = (
        sum(part(question, place) for question in questions) / len(questions) for place in (1, 2)
    )
    below = precision + recall
    f1m = 2 * precision * recall / below if below else 0.0
    return [f1(rows, "True"), sum(whole) / len(whole), f1m]


def part(question: Rows, place: int) -> float:
    """The right ones of what a question has at a place, predicted (1) or gold (2); all of none."""
    named = [row for row in question if row[place] == "True"]
    return sum(row[1] == row[2] for row in named) / len(named) if named else 1.0


def cb(rows: Rows) -> list[float]:
    right = [guess == gold for _, guess, gold in rows]
    return [sum(f1(rows, label) for label in CB) / 3, sum(right) / len(right)]


def binary(rows: Rows) -> list[float]:
    """F1, and Matthews' coefficient by the formula of the CoLA paper."""
    golds, guesses = ([row[place] for row in rows] for place in (2, 1))
    table = confusion_matrix(golds, guesses, labels=["no", "yes"])
    tn, fp, fn, tp = map(int, table.ravel())
    below = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    return [f1(rows, "yes"), (tp * tn - fp * fn) / below if below else 0.0]


@SETS
@pytest.mark.parametrize(
    ("labels", "metrics", "oracle"),
    [
        (
            ("True", "False"),
            (answer_option_f1("True"), question_exact_match, question_f1("True")),
            multirc,
        ),
        (CB, (macro_f1(CB), accuracy), cb),
        (("yes", "no"), (binary_f1("yes"), matthews), binary),
    ],
    ids=["multirc", "cb", "f1 and matthews"],
)
def test_31_random_sets_of_labels(
    labels, metrics, oracle: Callable[[Rows], list[float]], sets: int
) -> None:
    for seed in range(sets):
        rows = draw(Random(seed), labels)
        found = [metric.compute(*build(rows)) for metric in metrics]
        assert found == pytest.approx(oracle(rows), abs=1e-12), seed


def test_31_a_thousand_sets_of_numbers_score_as_in_scipy() -> None:
    for seed in range(1000):
        random = np.random.default_rng(seed)
        gold = np.round(random.uniform(0, 5, random.integers(3, 40)), 2)
        gold[:2] = 0.0, 5.0
        guess = gold * random.uniform(-1, 1) + random.normal(size=len(gold))
        if seed % 2:
            guess = np.round(guess)  # many ties
            guess[:2] = 1.0, 2.0
        rows = [("", float(a), float(b)) for a, b in zip(guess, gold, strict=True)]
        found = [metric.compute(*build(rows)) for metric in (pearson, spearman)]
        expected = [pearsonr(guess, gold).statistic, spearmanr(guess, gold).statistic]
        assert found == pytest.approx(expected, abs=1e-12), seed
