from collections import Counter

import pytest

from benchharness.errors import BenchError
from benchharness.tasks.examples import Example, PairExample, SpanExample
from benchharness.tasks.read import subset


def pairs(labels: list[str | float | None]) -> list[Example]:
    return [PairExample(id=str(i), text_a="a", label=x) for i, x in enumerate(labels)]


def ids(examples: list[Example]) -> list[int]:
    return [int(example.id) for example in examples]


def labels_of(examples: list[Example]) -> Counter[str | float | None]:
    return Counter(e.label for e in examples if isinstance(e, PairExample))


SORTED = pairs(["yes"] * 700 + ["no"] * 300)


def test_subset_is_stratified_in_a_file_sorted_by_label() -> None:
    assert labels_of(subset(SORTED, 100)) == {"yes": 70, "no": 30}


def test_subset_covers_the_whole_split_in_its_order() -> None:
    taken = ids(subset(SORTED, 100))
    assert taken == sorted(taken)
    assert taken[:70] != list(range(70))
    assert max(taken[:70]) > 500


def test_subsets_are_reproducible_and_nested() -> None:
    assert subset(SORTED, 100) == subset(SORTED, 100)
    assert set(ids(subset(SORTED, 100))) < set(ids(subset(SORTED, 200)))


def test_subset_includes_rare_labels_if_the_limit_allows() -> None:
    rare = pairs(["a"] * 500 + ["b"] * 499 + ["c"])
    assert labels_of(subset(rare, 3)) == {"a": 1, "b": 1, "c": 1}


def test_subset_of_regression_rows_covers_the_label_range() -> None:
    graded = pairs([i / 200 for i in range(1001)])
    grades = Counter(round(float(e.label or 0)) for e in subset(graded, 50))  # type: ignore[union-attr]
    assert set(grades) == {0, 1, 2, 3, 4, 5}
    assert grades[0] == grades[5] == 5


@pytest.mark.parametrize("limit", [1000, 1001, 10**9])
def test_subset_with_a_limit_above_the_row_count_keeps_every_row(limit: int) -> None:
    assert subset(SORTED, limit) == SORTED


@pytest.mark.parametrize("limit", [0, -1])
def test_subset_with_a_limit_below_1_is_an_error(limit: int) -> None:
    with pytest.raises(BenchError, match=f"the limit is {limit} rows"):
        subset(SORTED, limit)


def test_subset_never_splits_groups() -> None:
    grouped: list[Example] = [
        PairExample(id=str(i), text_a="a", label="yes", group=str(i // 3)) for i in range(90)
    ]
    taken = subset(grouped, 10)
    assert len(taken) == 9
    groups = Counter(e.group for e in taken if isinstance(e, PairExample))
    assert set(groups.values()) == {3}


def test_subset_keeps_one_group_even_if_it_exceeds_the_limit() -> None:
    grouped: list[Example] = [
        PairExample(id=str(i), text_a="a", label="yes", group=str(i // 5)) for i in range(20)
    ]
    assert len(subset(grouped, 2)) == 5


def test_subset_keeps_the_share_of_unanswerable_questions() -> None:
    questions: list[Example] = [
        SpanExample(id=str(i), question="q", context="c", answers=() if i < 50 else (("c", 0),))
        for i in range(100)
    ]
    taken = subset(questions, 10)
    assert sum(1 for e in taken if isinstance(e, SpanExample) and not e.answers) == 5
