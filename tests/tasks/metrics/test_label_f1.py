"""Tests of multi-label F1 against an independent count."""

import random

import pytest

from benchharness.extensions.custom_data.task import OwnData, own_task
from benchharness.leaderboard.comparing import break_down
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.metrics import accuracy, label_f1
from benchharness.tasks.task import find_fault

LABELS = ("a", "b", "c", "d")


def drawn(seed: int, count: int = 40):
    """Draw examples and predictions; no example and no prediction has the label d."""
    draw = random.Random(seed)

    def some() -> tuple[str, ...]:
        return tuple(label for label in LABELS[:3] if draw.random() < 0.4)

    examples = [PairExample(id=str(n), text_a="x", label=some()) for n in range(count)]
    guesses = [
        PairPrediction(id=e.id, label=e.label if draw.random() < 0.5 else some()) for e in examples
    ]
    return guesses, examples


def counted(guesses, examples, labels):
    """Count (right, predicted, gold) over some labels together."""
    pairs = [
        (set(g.label) & set(labels), set(e.label) & set(labels))
        for g, e in zip(guesses, examples, strict=True)
    ]
    return (
        sum(len(g & e) for g, e in pairs),
        sum(len(g) for g, _ in pairs),
        sum(len(e) for _, e in pairs),
    )


def f1(right, predicted, gold):
    return 2 * right / (predicted + gold) if predicted + gold else 0.0


@pytest.mark.parametrize("seed", range(5))
def test_micro_and_macro_f1_match_an_independent_count(seed):
    guesses, examples = drawn(seed)
    micro, macro = (
        label_f1(LABELS, kind).compute(guesses, examples) for kind in ("micro", "macro")
    )
    assert micro == pytest.approx(f1(*counted(guesses, examples, LABELS)))
    each = [f1(*counted(guesses, examples, [label])) for label in LABELS]
    assert each[3] == 0
    assert macro == pytest.approx(sum(each) / 4)


def test_multi_label_accuracy_counts_only_exact_label_sets():
    from sklearn.metrics import accuracy_score

    guesses, examples = drawn(1)
    table = [
        [[int(label in x.label) for label in LABELS] for x in some] for some in (examples, guesses)
    ]
    assert accuracy.compute(guesses, examples) == pytest.approx(accuracy_score(*table))


def test_per_example_parts_reproduce_micro_and_macro_f1():
    columns = {"text": ("text",), "labels": ("labels",)}
    own = OwnData(
        title="t", kind="labels", columns=columns, labels=LABELS, metrics=("micro_f1", "macro_f1")
    )
    task = own_task(own)
    guesses, examples = drawn(2)
    for metric in task.metrics:
        value = metric.compute(guesses, examples)
        found = break_down(task, metric, [guesses], examples)
        assert found is not None
        units = [[n] for n in range(len(examples))]
        assert found.score(found.parts(guesses, examples, units).sum(axis=0)) == pytest.approx(
            value
        )


def test_check_reports_unknown_labels_of_a_multi_label_example():
    columns = {"text": ("text",), "labels": ("labels",)}
    own = OwnData(title="t", kind="labels", columns=columns, labels=LABELS, metrics=("micro_f1",))
    task = own_task(own)
    assert find_fault(task, PairExample(id="1", text_a="x", label=("a", "e"))) == (
        "has the label 'e'; expected any of a, b, c, d"
    )
    assert "has the label 'a'" in find_fault(task, PairExample(id="1", text_a="x", label="a"))
    assert not find_fault(task, PairExample(id="1", text_a="x", label=()))
