"""F1 of several labels an example: as scikit-learn counts it, by a count of our own."""

import random

import pytest

from benchharness.extensions.custom_data.task import OwnData, own_task
from benchharness.leaderboard.comparing import break_down
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.metrics import accuracy, label_f1
from benchharness.tasks.task import find_fault

LABELS = ("a", "b", "c", "d")


def drawn(seed: int, count: int = 40):
    """Examples and predictions; nobody has, and nobody predicts, the label d."""
    draw = random.Random(seed)

    def some() -> tuple[str, ...]:
        return tuple(label for label in LABELS[:3] if draw.random() < 0.4)

    examples = [PairExample(id=str(n), text_a="x", label=some()) for n in range(count)]
    guesses = [
        PairPrediction(id=e.id, label=e.label if draw.random() < 0.5 else some()) for e in examples
    ]
    return guesses, examples


def counted(guesses, examples, labels):
    """(right, predicted, gold) of some labels together."""
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
def test_micro_and_macro_are_as_counted_by_hand(seed):
    guesses, examples = drawn(seed)
    micro, macro = (
        label_f1(LABELS, kind).compute(guesses, examples) for kind in ("micro", "macro")
    )
    assert micro == pytest.approx(f1(*counted(guesses, examples, LABELS)))
    each = [f1(*counted(guesses, examples, [label])) for label in LABELS]
    assert each[3] == 0
    assert macro == pytest.approx(sum(each) / 4)


def test_accuracy_asks_for_all_labels_of_an_example():
    """scikit-learn's accuracy_score of several labels."""
    from sklearn.metrics import accuracy_score

    guesses, examples = drawn(1)
    table = [
        [[int(label in x.label) for label in LABELS] for x in some] for some in (examples, guesses)
    ]
    assert accuracy.compute(guesses, examples) == pytest.approx(accuracy_score(*table))


def test_intervals_take_the_scores_apart_as_they_are_counted():
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


def test_a_label_that_the_task_does_not_have_is_a_fault():
    columns = {"text": ("text",), "labels": ("labels",)}
    own = OwnData(title="t", kind="labels", columns=columns, labels=LABELS, metrics=("micro_f1",))
    task = own_task(own)
    assert find_fault(task, PairExample(id="1", text_a="x", label=("a", "e"))) == (
        "has the label 'e'; expected any of a, b, c, d"
    )
    assert "has the label 'a'" in find_fault(task, PairExample(id="1", text_a="x", label="a"))
    assert not find_fault(task, PairExample(id="1", text_a="x", label=()))
