"""Held-out training rows: stratified, grouped and reproducible."""

import random
from collections import Counter

import pytest

from benchharness.errors import DataError
from benchharness.tasks.examples import ChoiceExample, Example, PairExample, SpanExample
from benchharness.tasks.read import SplitRows, fingerprint, hold_out, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import TASKS


def rows_of(*examples: Example) -> SplitRows:
    return SplitRows(examples=examples, fingerprint=fingerprint(examples))


def labelled(number: int, **shares: float) -> SplitRows:
    labels = [label for label, share in shares.items() for _ in range(round(number * share))]
    return rows_of(
        *(
            PairExample(id=f"train-{index}", text_a=f"text {index}", label=label)
            for index, label in enumerate(labels)
        )
    )


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_held_out_rows_are_stratified_by_label(share: float):
    rows = labelled(1000, yes=0.7, no=0.25, perhaps=0.05)
    left, held = hold_out(rows, share)
    assert len(held.examples) == 1000 * share
    counts = Counter(e.label for e in held.examples if isinstance(e, PairExample))
    for label, whole in {"yes": 0.7, "no": 0.25, "perhaps": 0.05}.items():
        assert counts[label] == pytest.approx(1000 * share * whole, abs=1.5)
    assert len(left.examples) + len(held.examples) == 1000


def test_held_out_and_other_rows_are_disjoint_and_keep_their_order():
    rows = labelled(200, yes=0.5, no=0.5)
    left, held = hold_out(rows, 0.1)
    assert {e.id for e in left.examples} | {e.id for e in held.examples} == {
        e.id for e in rows.examples
    }
    assert not {e.id for e in left.examples} & {e.id for e in held.examples}
    for part in (left, held):
        assert list(part.examples) == [e for e in rows.examples if e in part.examples]
        assert part.fingerprint == fingerprint(part.examples)
    assert left.fingerprint != rows.fingerprint


def test_held_out_rows_do_not_depend_on_seeds():
    """Hold out the same rows for every seed, and the smaller part within the larger."""
    rows = labelled(300, yes=0.5, no=0.5)
    first = hold_out(rows, 0.1)
    random.seed(99)
    assert hold_out(rows, 0.1) == first
    assert {e.id for e in first[1].examples} <= {e.id for e in hold_out(rows, 0.2)[1].examples}


def question(number: int, passage: int) -> SpanExample:
    return SpanExample(
        id=f"q{number}", question=f"what {number}?", context=f"passage {passage}", answers=()
    )


def test_questions_on_one_passage_are_held_out_together():
    rows = rows_of(*(question(n, n // 5) for n in range(100)))
    left, held = hold_out(rows, 0.2)
    sides = [
        {e.context for e in part.examples if isinstance(e, SpanExample)} for part in (left, held)
    ]
    assert not sides[0] & sides[1]
    assert len(held.examples) == 20


def test_multiple_choice_questions_on_one_passage_are_held_out_together():
    rows = rows_of(
        *(
            ChoiceExample(
                id=str(n), context=f"passage {n // 4}", question="?", options=("a", "b"), gold=(0,)
            )
            for n in range(40)
        )
    )
    left, held = hold_out(rows, 0.25)
    contexts = [
        {e.context for e in part.examples if isinstance(e, ChoiceExample)} for part in (left, held)
    ]
    assert not contexts[0] & contexts[1]


def test_examples_that_are_scored_together_are_held_out_together():
    rows = rows_of(
        *(
            PairExample(id=str(n), text_a="a", label="true", group=f"question {n // 3}")
            for n in range(60)
        )
    )
    left, held = hold_out(rows, 0.2)
    groups = [
        {e.group for e in part.examples if isinstance(e, PairExample)} for part in (left, held)
    ]
    assert not groups[0] & groups[1]


def test_holding_out_rows_of_a_single_passage_is_an_error():
    rows = rows_of(*(question(n, 0) for n in range(7)))
    with pytest.raises(DataError) as caught:
        hold_out(rows, 0.1)
    assert "a share of 0.1 cannot be held out" in str(caught.value)


@pytest.mark.parametrize("task", [t for t in TASKS.values() if t.has_train])
def test_every_task_with_training_rows_can_hold_out_some(task):
    rows = read(task, "train", parse_data("mini"))
    left, held = hold_out(rows, 0.1)
    assert 0 < len(held.examples) <= max(0.1 * len(rows.examples) + 1, 12)
    assert len(left.examples) + len(held.examples) == len(rows.examples)
