import math
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness.recipes.recipe import count_steps
from benchharness.training.batching import (
    Features,
    Indices,
    cut_by_length,
    expand,
    length_batches,
    mixed_batches,
    pad,
    tail_of,
)


def make_features(*rows: list[int], types: bool = False, max_tokens: int = 100) -> Features:
    ids = np.concatenate([np.array(row, dtype=np.int32) for row in rows])
    return Features(
        token_ids=ids,
        token_types=(ids % 2).astype(np.int32) if types else None,
        starts=np.cumsum([0, *map(len, rows)]),
        pad_id=9,
        max_tokens=max_tokens,
    )


def shuffled_batches(items: int, batch_size: int, steps: range, seed: int) -> list[Indices]:
    """Return the batches of one task."""
    return [batch for _, batch in mixed_batches([items], batch_size, steps, seed)]


def test_each_training_epoch_has_every_row_once():
    batches = shuffled_batches(10, batch_size=4, steps=range(6), seed=1)
    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2]
    for epoch in (batches[:3], batches[3:]):
        assert sorted(np.concatenate(epoch)) == list(range(10))


def test_order_of_training_rows_depends_on_seed_and_epoch():
    first, again, other = (
        np.concatenate(shuffled_batches(50, 8, range(14), seed)) for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()
    assert (first[:50] != first[50:]).any()


def test_short_run_has_the_first_batches_of_a_longer_run():
    short = np.concatenate(shuffled_batches(20, 8, range(3), seed=3))
    long = np.concatenate(shuffled_batches(20, 8, range(9), seed=3))
    assert (long[:20] == short).all()


@pytest.mark.parametrize(
    ("rows", "epochs", "steps"), [(64, 3, 6), (65, 1, 3), (64, 0.5, 1), (64, 0.1, 1), (1, 1, 1)]
)
def test_number_of_steps_is_computed_from_rows_batch_size_and_epochs(
    rows: int, epochs: float, steps: int
):
    assert count_steps([rows], 32, epochs) == steps
    assert count_steps([rows, 40], 32, epochs) == math.ceil(epochs * (math.ceil(rows / 32) + 2))
    assert len(shuffled_batches(rows, 32, range(steps), seed=0)) == steps


lengths_of_batches = st.lists(st.integers(1, 128), min_size=1, max_size=12)


@given(lengths_of_batches, st.integers(1, 5), st.integers(0, 500))
def test_splitting_a_batch_by_length_keeps_every_row_and_limits_part_sizes(
    lengths: list[int], parts: int, overhead: int
):
    batch = np.arange(len(lengths))[::-1] + 3
    table = np.array([0, 0, 0, *lengths])
    pieces = cut_by_length(batch, table, parts, overhead)
    assert sorted(np.concatenate(pieces)) == sorted(batch)
    assert max(map(len, pieces)) <= -(-len(batch) // parts)
    assert (np.diff([table[piece].max() for piece in pieces]) <= 0).all()


def test_row_much_longer_than_the_others_gets_its_own_micro_batch():
    lengths = np.array([10, 120, 11, 12, 9])
    pieces = cut_by_length(np.arange(5), lengths, 1, overhead=64)
    assert [piece.tolist() for piece in pieces] == [[1], [3, 2, 0, 4]]


def test_batch_is_not_split_by_length_if_the_overhead_per_part_is_large():
    assert len(cut_by_length(np.arange(3), np.array([1, 50, 100]), 1, overhead=10**6)) == 1


def test_prediction_batches_are_sorted_by_length_and_within_the_token_budget():
    lengths = np.array([5, 60, 7, 33, 8, 64])
    batches = length_batches(lengths, tokens=128)
    assert [batch.tolist() for batch in batches] == [[5, 1], [3, 4, 2], [0]]


def test_row_over_the_token_budget_is_a_batch_of_its_own():
    assert [len(b) for b in length_batches(np.array([500, 500]), tokens=128)] == [1, 1]


def test_example_is_encoded_as_one_row_by_default():
    features = make_features([1, 2, 3], [4])
    assert features.item_sizes.tolist() == [1, 1]
    assert features.item_lengths.tolist() == [3, 1]
    assert features.rows_of(np.array([1, 0])).tolist() == [1, 0]
    assert features.count_terms(np.array([1, 0])) == 2


def test_example_may_be_encoded_as_several_rows():
    features = replace(
        make_features([1, 2, 3], [4], [5, 6], [7]),
        items=np.array([0, 2, 3, 4]),
        terms=np.array([5, 0, 2]),
    )
    assert features.item_lengths.tolist() == [3, 2, 1]
    assert features.rows_of(np.array([2, 0])).tolist() == [3, 0, 1]
    assert features.tokens_of(np.array([2, 0])).tolist() == [4, 5, 0, 1, 2]
    assert features.count_terms(np.array([0, 2])) == 7
    assert features.count_terms(np.array([1])) == 1, "a mean of nothing is not divided by nothing"


@given(st.lists(st.integers(0, 4), max_size=6))
def test_expand_returns_the_concatenated_ranges(sizes: list[int]):
    starts = np.arange(len(sizes)) * 10
    expected = [start * 10 + i for start, size in enumerate(sizes) for i in range(size)]
    assert expand(starts, np.array(sizes, dtype=np.int64)).tolist() == expected


def test_marked_spans_are_batched_with_their_rows():
    features = replace(make_features([1, 2, 3], [4]), marks=np.array([[[0, 2]], [[0, 1]]]))
    assert pad(features, np.array([1, 0]))["marks"].tolist() == [[[0, 1]], [[0, 2]]]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 5)), min_size=1, max_size=6),
    st.integers(0, 100),
    st.booleans(),
)
def test_cut_by_length_finds_the_split_with_the_least_work(
    items: list[tuple[int, int]], overhead: int, plain: bool
):
    lengths, sizes = (np.array(column) for column in zip(*items, strict=True))
    rows = np.ones_like(sizes) if plain else sizes

    def work(parts: list[np.ndarray]) -> int:
        widths = [int(-(-lengths[part].max() // 8) * 8) for part in parts]
        return sum(overhead + w * int(rows[p].sum()) for w, p in zip(widths, parts, strict=True))

    order = np.argsort(-lengths, kind="stable")
    gaps = range(1, len(order))
    cheapest = min(
        work(np.split(order, [gap for gap in gaps if choice >> gap & 1]))
        for choice in range(0, 2 ** len(order), 2)
    )
    ours = cut_by_length(np.arange(len(order)), lengths, 1, overhead, None if plain else sizes)
    assert work(ours) == cheapest


def test_number_of_tokens_per_micro_batch_is_limited():
    lengths = np.full(96, 512)
    parts = cut_by_length(np.arange(96), lengths, 1, overhead=10**9)
    assert [len(part) for part in parts] == [32, 32, 32]
    sizes = np.full(96, 4)
    parts = cut_by_length(np.arange(96), lengths, 1, 10**9, sizes)
    assert [len(part) for part in parts] == [8] * 12
    huge = cut_by_length(np.arange(2), lengths, 1, 10**9, np.array([100, 1]))
    assert [part.tolist() for part in huge] == [[0], [1]], "an item is never cut"


def test_batch_rows_are_padded_to_a_multiple_of_8_tokens():
    features = make_features([1, 2, 3], [4], [5, 6], types=True)
    inputs = pad(features, np.array([2, 0]))
    assert inputs["input_ids"].tolist() == [[5, 6] + [9] * 6, [1, 2, 3] + [9] * 5]
    assert inputs["attention_mask"].tolist() == [[1, 1] + [0] * 6, [1, 1, 1] + [0] * 5]
    assert inputs["token_type_ids"].tolist() == [[1, 0] + [0] * 6, [1, 0, 1] + [0] * 5]


def test_batch_of_features_without_token_types_has_no_token_types():
    assert set(pad(make_features([1]), np.array([0]))) == {"input_ids", "attention_mask"}


def test_batch_padding_never_exceeds_the_maximum_length_of_the_model():
    features = make_features(list(range(1, 11)), [1], max_tokens=10)
    assert pad(features, np.array([0, 1]))["input_ids"].shape == (2, 10)
    assert pad(features, np.array([1]))["input_ids"].shape == (1, 8)


def test_additional_columns_of_a_head_are_padded_with_zeros():
    @dataclass(frozen=True, kw_only=True)
    class Numbered(Features):
        per_token: ClassVar[tuple[str, ...]] = ("numbers",)
        carried: ClassVar[tuple[str, ...]] = ("numbers",)

        numbers: np.ndarray

    plain = make_features([1, 2, 3], [4, 5], types=True)
    features = Numbered(**vars(plain), numbers=np.array([6, 7, 8, 9, 10]))
    inputs = pad(features, np.array([1, 0]), width=3)
    assert inputs["numbers"].tolist() == [[9, 10, 0], [6, 7, 8]]
    assert inputs["input_ids"].tolist() == [[4, 5, 9], [1, 2, 3]]
    read = replace(features, read=np.array([False, True, True, True, False]))
    shorter = read.without_unread()
    assert shorter.read is None
    assert shorter.starts.tolist() == [0, 2, 3]
    assert [c.tolist() for c in (shorter.token_ids, shorter.token_types, shorter.numbers)] == [
        [2, 3, 4],
        [0, 1, 0],
        [7, 8, 9],
    ]


@pytest.mark.parametrize(
    ("tokens", "width", "tail"),
    [(3, 16, 5), (16, 16, 8), (130, 128, 14), (128, 64, 16), (1000, 16, 8), (1000, 40, 24)],
)
def test_tail_of_returns_the_number_of_padding_tokens_for_the_next_size(
    tokens: int, width: int, tail: int
):
    assert tail_of(tokens, width) == tail <= width


def steps_of(
    sizes: list[int], steps: int, done: int = 0, **words: Any
) -> list[tuple[int, list[int]]]:
    batches = mixed_batches(sizes, 4, range(done, steps), seed=1, **words)
    return [(task, items.tolist()) for task, items in batches]


def test_multi_task_epoch_has_each_batch_of_each_task_once():
    sizes = [10, 3, 10]  # the three tasks have 3, 1 and 3 batches per epoch
    steps = steps_of(sizes, 14)
    for epoch in (steps[:7], steps[7:]):
        for task, size in enumerate(sizes):
            assert sorted(chain.from_iterable(i for t, i in epoch if t == task)) == [*range(size)]
    assert [task for task, _ in steps[:7]] != [0, 0, 0, 1, 2, 2, 2]
    assert [t for t, _ in steps[:7]] != [t for t, _ in steps[7:]], "each epoch has its own turns"
    orders = {task: [i for t, i in steps if t == task] for task in (0, 2)}
    assert orders[0] != orders[2], "tasks of one size have orders of their own"
    assert orders[0][:3] != orders[0][3:], "and a task has one for each epoch"


@pytest.mark.parametrize(
    ("power", "shares"), [(0.0, (0.5, 0.5)), (1.0, (0.9, 0.1)), (0.5, (0.75, 0.25))]
)
def test_multi_task_batches_are_sampled_in_proportion_to_a_power_of_task_size(
    power: float, shares: tuple[float, float]
):
    sizes = [360, 40]
    steps = steps_of(sizes, 2000, power=power)
    counts = np.bincount([task for task, _ in steps], minlength=2) / 2000
    assert counts == pytest.approx(shares, abs=0.03)
    for task, batches in enumerate((90, 10)):
        own = [items for t, items in steps if t == task]
        for start in range(0, len(own) - batches + 1, batches):
            seen = sorted(chain.from_iterable(own[start : start + batches]))
            assert seen == [*range(sizes[task])], "all of its batches before it begins anew"


@pytest.mark.parametrize("sizes", [[10], [10, 3, 6]])
@pytest.mark.parametrize("power", [None, 0.5])
def test_a_resumed_run_continues_with_the_next_batch(sizes: list[int], power: float | None):
    whole = steps_of(sizes, 20, power=power)
    for done in range(21):
        assert steps_of(sizes, 20, power=power, done=done) == whole[done:]


def test_batch_order_of_a_seed_has_not_changed_between_versions():
    """A changed order changes results: then raise METHOD in leaderboard/job.py."""
    alone = [items.tolist() for items in shuffled_batches(5, 2, range(6), seed=7)]
    assert alone == [[2, 0], [4, 1], [3], [3, 0], [2, 1], [4]]
    shared = [(task, items.tolist()) for task, items in mixed_batches([3, 4], 2, range(4), seed=7)]
    assert shared == [(0, [0, 2]), (1, [2, 3]), (0, [1]), (1, [0, 1])]
