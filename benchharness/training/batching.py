"""Batching: drawing the examples of each optimizer step, and cutting them into micro-batches.

The examples of a step are computed in micro-batches of similar lengths, so that there is little
padding. The losses of the micro-batches add up to the loss of the whole batch, so cutting and
padding affect only speed, rounding and the random numbers of dropout.

Batches consist of items. An item is a row, or several rows that must be in the same micro-batch,
such as the options of one question.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice, pairwise
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

ROUNDING = 8
"""Multiple to which the lengths of padded rows are rounded up. It suits matrix units and keeps the
number of different shapes low."""

MICRO_BATCH_TOKENS = 16384
"""Approximate maximum number of padded tokens in a micro-batch of several items: 32 rows of 512
tokens, like BERT's batch."""


@dataclass(frozen=True, kw_only=True)
class Features:
    """Encoded rows of a split, concatenated without padding.

    The tokens of row i are those from starts[i] to starts[i + 1] (exclusive).

    Attributes:
        token_ids: Token ids of all rows: `[tokens]`.
        token_types: Token types of all rows: `[tokens]`; None for encoders without token types.
        starts: Index of each row's first token, followed by the number of tokens: `[rows + 1]`.
        pad_id: Token id of padding.
        max_tokens: Maximum number of tokens of a padded row.
        items: Index of each item's first row, followed by the number of rows: `[items + 1]`; None
            if each row is an item.
        terms: Number of losses that each item adds to the mean of a batch, such as the number of
            tagged words in a sentence: `[items]`; None if every item adds one loss.
        marks: Position in the row of each marked span's first token, and of the token after its
            last: `[rows, marks, 2]`; None if the task has no marked spans.
        read: Mask of the tokens whose states the head needs: `[tokens]`; None if it needs all. The
            other tokens are only context for the encoder. If the encoder is frozen, their states
            are not stored.
        truncated: Mask of the examples that were cut to `max_tokens`: `[examples]`; None if
            examples are never cut.
        counts: Four numbers: tokens in the texts, unknown tokens, words without any token, and all
            words. Words are counted only if some character has no token; otherwise the last two
            numbers are 0. None if nothing was counted.
    """

    per_token: ClassVar[tuple[str, ...]] = ()
    """Names of a subclass's fields that are inputs of the network and have one value per token.
    These inputs are padded with 0."""

    carried: ClassVar[tuple[str, ...]] = ()
    """Names of a subclass's fields that have one value per token and are not inputs."""

    token_ids: NDArray[np.int32]
    token_types: NDArray[np.int32] | None
    starts: NDArray[np.int64]
    pad_id: int
    max_tokens: int
    items: NDArray[np.int64] | None = None
    terms: NDArray[np.int64] | None = None
    marks: NDArray[np.int64] | None = None
    read: NDArray[np.bool_] | None = None
    truncated: NDArray[np.bool_] | None = None
    counts: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each row, without padding: `[rows]`."""
        return np.diff(self.starts)

    @cached_property
    def width(self) -> int:
        """Number of tokens to which a batch with the longest row is padded."""
        return _width(self.lengths, self.max_tokens)

    @cached_property
    def item_starts(self) -> NDArray[np.int64]:
        """Index of each item's first row, followed by the number of rows: `[items + 1]`."""
        return np.arange(len(self) + 1) if self.items is None else self.items  # (items + 1,)

    @cached_property
    def item_sizes(self) -> NDArray[np.int64]:
        """Number of rows of each item: `[items]`."""
        return np.diff(self.item_starts)

    @cached_property
    def item_lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each item's longest row: `[items]`."""
        # (rows,) -> (items,). Every item has rows; for the last item, reduceat goes to the end.
        return np.maximum.reduceat(self.lengths, self.item_starts[:-1])

    def rows_of(self, items: Indices) -> Indices:
        """Return the indices of the rows that belong to these items, in the order of the items."""
        return expand(self.item_starts[items], self.item_sizes[items])

    def tokens_of(self, rows: Indices) -> Indices:
        """Return the indices of these rows' tokens in `token_ids`, in the order of the rows."""
        return expand(self.starts[rows], self.lengths[rows])

    def without_unread(self) -> Self:
        """Return the same rows without the tokens whose states the head does not need (see `read`).

        The result has no `read`. If `read` is None, the features themselves are returned.
        """
        if self.read is None:
            return self
        # Number of tokens before each token that are kept: (tokens + 1,)
        before = np.append(0, np.cumsum(self.read))
        columns = {
            name: getattr(self, name) for name in ("token_ids", "token_types", *self.carried)
        }
        kept: dict[str, Any] = {n: None if c is None else c[self.read] for n, c in columns.items()}
        return replace(self, **kept, starts=before[self.starts], read=None)

    def count_terms(self, items: Indices) -> int:
        """Return the number of losses that are averaged in a batch of these items, at least one."""
        return len(items) if self.terms is None else max(1, int(self.terms[items].sum()))


def expand(starts: Indices, sizes: Indices) -> Indices:
    """Return the concatenated integers of some ranges, given their starts and sizes.

    For example, starts of 5 and 9 with sizes 2 and 3 give 5, 6, 9, 10, 11.
    """
    ends = np.cumsum(sizes)  # end of each range in the result
    total = int(ends[-1]) if len(ends) else 0
    # To consecutive numbers, add for each range its start minus its position in the result.
    return np.arange(total) + np.repeat(starts - ends + sizes, sizes)


def mixed_batches(
    sizes: Sequence[int], batch_size: int, steps: range, seed: int, power: float | None = None
) -> Iterator[tuple[int, Indices]]:
    """Yield the index of a task and a batch of its items for each optimizer step.

    Without a `power`, an epoch consists of every batch of every task once, in random order, as in
    algorithm 1 of Liu et al., arXiv:1901.11504, and with `mix_opt` 0 in their code. With a `power`,
    the task of each step is drawn at random, with a probability proportional to its number of items
    to that power, and an epoch has as many steps as without a `power`. A task starts over with a
    new order when its batches are used up. The order of a task's items depends only on the seed, on
    how often the task has started over, on the number of its items and, if there are several tasks,
    on the index of the task.

    Args:
        sizes: Number of items of each task.
        batch_size: Number of items per batch.
        steps: Range of the steps to yield, where 0 is the first step of the run. If a run is
            resumed, its first step may be in the middle of an epoch.
        seed: Seed of the random order.
        power: Exponent of the sampling probabilities, or None.
    """
    own_seeds = [[1 + task] if len(sizes) > 1 else [] for task in range(len(sizes))]
    weights = np.asarray(sizes, dtype=np.float64) ** (power or 0.0)  # (tasks,)

    def batches_of(task: int) -> Iterator[Indices]:
        for epoch in count():
            generator = np.random.default_rng([seed, epoch, *own_seeds[task]])
            order = generator.permutation(sizes[task])
            yield from np.split(order, range(batch_size, sizes[task], batch_size))

    def drawn() -> Iterator[tuple[int, Indices]]:
        batches = [batches_of(task) for task in range(len(sizes))]
        turns = np.repeat(np.arange(len(sizes)), [math.ceil(size / batch_size) for size in sizes])
        for epoch in count():
            generator = np.random.default_rng([seed, epoch])
            if power is None:
                tasks = generator.permutation(turns)
            else:
                tasks = generator.choice(len(sizes), size=len(turns), p=weights / weights.sum())
            yield from ((task, next(batches[task])) for task in tasks.tolist())

    return islice(drawn(), steps.start, steps.stop)  # a job may be resumed within an epoch


def cut_by_length(
    batch: Indices,
    lengths: NDArray[np.int64],
    parts: int,
    overhead: int,
    sizes: NDArray[np.int64] | None = None,
) -> list[Indices]:
    """Cut a batch into micro-batches of items with similar lengths, to have little padding.

    First, the items are sorted by length and cut so that the total cost is minimal, where the cost
    of a micro-batch is its number of padded tokens plus `overhead`. Then, to limit the memory,
    micro-batches with too many items (see `parts`), or with more than MICRO_BATCH_TOKENS padded
    tokens, are cut into smaller ones with about equal numbers of items. An item is never cut.

    Args:
        batch: Indices of the items of the batch; may be empty.
        lengths: Number of tokens of the longest row of every item in the data.
        parts: Divisor that limits the size of micro-batches: each has at most `len(batch) / parts`
            items, rounded up.
        overhead: Cost of starting a micro-batch, in tokens.
        sizes: Number of rows of every item in the data; None if every item is one row.

    Returns:
        Indices of the items of each micro-batch; micro-batches with longer items come first.
    """
    if not len(batch):  # with several processes, one may have no share of a small batch
        return []
    # The longest items come first, so that memory runs out at the start of a batch or not at all.
    # The sort is stable, because the order affects dropout and so the exact results.
    order = batch[np.argsort(-lengths[batch], kind="stable")]
    limit = math.ceil(len(batch) / parts)  # maximum number of items per part
    widths = _rounded(lengths[order])
    rows = np.ones_like(widths) if sizes is None else sizes[order]  # (items,)
    edges = [0, *_cheapest_cuts(widths, rows, overhead), len(order)]
    found: list[Indices] = []
    for start, end in pairwise(edges):
        # Cut into even parts that respect the limits on items and tokens.
        tokens = int(widths[start] * rows[start:end].sum())
        pieces = max(math.ceil((end - start) / limit), math.ceil(tokens / MICRO_BATCH_TOKENS))
        found += np.array_split(order[start:end], min(pieces, end - start))
    return found


def _cheapest_cuts(widths: NDArray[np.int64], rows: NDArray[np.int64], overhead: int) -> list[int]:
    """Return the indices at which to cut items of decreasing widths, by dynamic programming."""
    # For the first N items, keyed by N: the minimal cost of these items, and the starts of the
    # parts into which they are cut.
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    # Between items of equal width a cut saves no padding: cut only where the width changes.
    for end in (*(np.flatnonzero(np.diff(widths)) + 1).tolist(), len(widths)):
        # All rows of the last part get the width of its first row. On ties, the cut with the
        # longest last part is chosen.
        options = (
            (work + overhead + int(widths[start] * rows[start:end].sum()), [*starts, start])
            for start, (work, starts) in best.items()
        )
        best[end] = min(options, key=itemgetter(0))
    return best[len(widths)][1][1:]  # the first part always begins at 0


def length_batches(lengths: NDArray[np.int64], tokens: int) -> list[Indices]:
    """Return the indices of all rows in batches of similar lengths, the longest rows first.

    This function is used for prediction, because predictions do not depend on the rows that share a
    batch.

    Args:
        lengths: Number of tokens of each row.
        tokens: Maximum number of padded tokens of a batch; a batch of a single row may have more.
    """
    order = np.argsort(-lengths, kind="stable")
    widths = _rounded(lengths[order])
    batches, start = [], 0
    while start < len(order):
        end = start + max(1, tokens // int(widths[start]))  # the first row is the longest
        batches.append(order[start:end])
        start = end
    return batches


def pad(features: Features, rows: Indices, width: int | None = None) -> dict[str, NDArray[Any]]:
    """Return the network's inputs for some rows, padded and keyed by name.

    Args:
        features: Encoded rows of a split.
        rows: Indices of the rows.
        width: Number of tokens of each padded row; None for the length of the longest of these
            rows, rounded up.

    Returns:
        `input_ids`, `attention_mask`, `token_type_ids` (if the encoder has token types) and the
        fields in `per_token`: `[rows, tokens]` each; and `marks`, if the task has marked spans.
    """
    lengths = features.lengths[rows]  # (rows,)
    width = width or _width(lengths, features.max_tokens)
    columns = np.arange(width)
    mask = columns < lengths[:, None]  # (rows, tokens)
    places = np.where(mask, features.starts[rows][:, None] + columns, 0)  # (rows, tokens)
    inputs = {
        "input_ids": np.where(mask, features.token_ids[places], features.pad_id).astype(np.int64),
        "attention_mask": mask.astype(np.int64),
    }
    if features.token_types is not None:
        inputs["token_type_ids"] = np.where(mask, features.token_types[places], 0).astype(np.int64)
    for name in features.per_token:
        inputs[name] = np.where(mask, getattr(features, name)[places], 0).astype(np.int64)
    if features.marks is not None:
        inputs["marks"] = features.marks[rows]  # (rows, marks, 2)
    return inputs


def tail_of(tokens: int, width: int) -> int:
    """Return how many padding tokens to append to a packed row, so that few different sizes occur.

    At least one token is appended (the `tail` in encoder/packing.py). The size of the packed row
    then is a multiple of a unit, which is a power of two: the largest one up to `tokens` / 8, but
    at least ROUNDING, and in any case at most `width`.

    Args:
        tokens: Number of tokens of the packed row, without the appended ones.
        width: Number of tokens of a padded row.
    """
    eighth, most = (1 << (number.bit_length() - 1) for number in (tokens // 8 or 1, width))
    unit = int(min(max(ROUNDING, eighth), most))
    return unit - tokens % unit


def _width(lengths: NDArray[np.int64], max_tokens: int) -> int:
    """Return the length of the longest row, rounded up, but never rounded above `max_tokens`."""
    longest = lengths.max()
    return int(min(_rounded(longest), max(max_tokens, longest)))


def _rounded(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return -(-lengths // ROUNDING) * ROUNDING  # // rounds down, so the two minus signs round up
