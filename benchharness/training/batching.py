"""Which examples share an optimizer step, and how they are cut and padded to be computed fast.

Only the first decides what is learned. The examples of a step are computed in micro-batches of like
length, so that little of the work is padding; their summed losses are those of the whole batch.

Batches are of items. An item is a row, or several that are only right or wrong together, as the
options of one question are: they share a micro-batch.
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
"""Padded lengths are multiples of it: matrix units like them, and few shapes recur often."""

MICRO_BATCH_TOKENS = 16384
"""Padded tokens of a micro-batch of several items at most: BERT's batch of 32 rows of 512."""


@dataclass(frozen=True, kw_only=True)
class Features:
    """Encoded texts, end to end: those of row i stand at starts[i] to starts[i + 1].

    `token_types` is None for encoders without segments. Padding is `pad_id`, and no padded row is
    longer than `max_tokens`. Item i is the rows items[i] to items[i + 1], or row i where `items` is
    None. `terms` is how many losses each item adds to the mean of a batch (a sentence: one for each
    tagged word), one where it is None. `marks` (rows, marks, 2) are the first token and the one
    after the last of each marked stretch. `read` (tokens,) are those whose states a head on a
    frozen encoder reads, the others being there for the encoder alone; all where it is None.
    `truncated` (examples,) are those that lost words to `max_tokens`; None where none can. `counts`
    (4,) are how many tokens the texts have, how many of them stand for an unknown word, how many
    words the tokenizer makes nothing of, and of how many; None where nobody counted.
    """

    per_token: ClassVar[tuple[str, ...]] = ()
    """Columns of a head's own kind that its network reads like the ids, 0 at padding."""

    carried: ClassVar[tuple[str, ...]] = ()
    """Other columns of a head's own kind with a value for each token."""

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
        """Tokens of every row, without padding."""
        return np.diff(self.starts)

    @cached_property
    def width(self) -> int:
        """That of a padded batch with the longest row."""
        return _width(self.lengths, self.max_tokens)

    @cached_property
    def item_starts(self) -> NDArray[np.int64]:
        """The first row of every item, and the number of rows."""
        return np.arange(len(self) + 1) if self.items is None else self.items  # (items + 1,)

    @cached_property
    def item_sizes(self) -> NDArray[np.int64]:
        """Rows of every item."""
        return np.diff(self.item_starts)

    @cached_property
    def item_lengths(self) -> NDArray[np.int64]:
        """Tokens of the longest row of every item."""
        # (rows,) -> (items,). reduceat takes the last item to the end; no item is without rows.
        return np.maximum.reduceat(self.lengths, self.item_starts[:-1])

    def rows_of(self, items: Indices) -> Indices:
        """The rows of some items, in that order."""
        return expand(self.item_starts[items], self.item_sizes[items])

    def tokens_of(self, rows: Indices) -> Indices:
        """Where the tokens of some rows stand in `token_ids`, in that order."""
        return expand(self.starts[rows], self.lengths[rows])

    def without_unread(self) -> Self:
        """The same rows of the tokens that are read."""
        if self.read is None:
            return self
        before = np.append(0, np.cumsum(self.read))  # (tokens + 1,), those read before each token
        columns = {
            name: getattr(self, name) for name in ("token_ids", "token_types", *self.carried)
        }
        kept: dict[str, Any] = {n: None if c is None else c[self.read] for n, c in columns.items()}
        return replace(self, **kept, starts=before[self.starts], read=None)

    def count_terms(self, items: Indices) -> int:
        """How many losses these items add up to, at least one."""
        return len(items) if self.terms is None else max(1, int(self.terms[items].sum()))


def expand(starts: Indices, sizes: Indices) -> Indices:
    """The numbers start, start + 1, ... of every stretch, end to end."""
    ends = np.cumsum(sizes)  # where each stretch ends in the result
    total = int(ends[-1]) if len(ends) else 0
    # Counting through, each stretch is off by the same: its start less its place in the result.
    return np.arange(total) + np.repeat(starts - ends + sizes, sizes)


def count_steps(items: Sequence[int], batch_size: int, epochs: float) -> int:
    """Optimizer steps of a run over these numbers of items of each task, whose batches are its own.

    A last, smaller batch of an epoch counts as one.
    """
    return max(1, math.ceil(epochs * sum(math.ceil(size / batch_size) for size in items)))


def mixed_batches(
    sizes: Sequence[int], batch_size: int, steps: range, seed: int, power: float | None = None
) -> Iterator[tuple[int, Indices]]:
    """The task and its items of these optimizer steps, where tasks of these sizes share a network.

    Without a `power` an epoch has each batch of each task once, in a random order: algorithm 1 of
    Liu et al., arXiv:1901.11504, and `mix_opt` 0 of their released code. With one the task of every
    step is drawn with a probability proportional to its size to that power, as often as an epoch
    has batches; a task begins anew when all of its batches have been taken. The order of one task's
    items depends on the seed, the epoch and their number, and on nothing else.
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
    """A batch in micro-batches of like length, those with the least work, the longest first.

    `lengths` are the items' longest rows and `sizes` their rows, one where it is None. The work of
    a micro-batch is its padded tokens plus `overhead`, what starting one costs, in tokens. None has
    more items than the batch divided by `parts`, which bounds the memory, as MICRO_BATCH_TOKENS
    does.
    """
    if not len(batch):  # one of several processes may have no share of a small batch
        return []
    # The longest first, so that memory runs out at the start of a batch or not at all; stable,
    # because the order decides about dropout and with it about bits.
    order = batch[np.argsort(-lengths[batch], kind="stable")]
    limit = math.ceil(len(batch) / parts)  # items of a part at most
    widths = _rounded(lengths[order])
    rows = np.ones_like(widths) if sizes is None else sizes[order]  # (items,)
    edges = [0, *_cheapest_cuts(widths, rows, overhead), len(order)]
    found: list[Indices] = []
    for start, end in pairwise(edges):
        # In even parts of at most `limit` items, and of the tokens' bound.
        tokens = int(widths[start] * rows[start:end].sum())
        pieces = max(math.ceil((end - start) / limit), math.ceil(tokens / MICRO_BATCH_TOKENS))
        found += np.array_split(order[start:end], min(pieces, end - start))
    return found


def _cheapest_cuts(widths: NDArray[np.int64], rows: NDArray[np.int64], overhead: int) -> list[int]:
    """Where to cut items of falling widths, by dynamic programming over the widths that occur."""
    # Of the items before each edge: their least work, and where its parts begin.
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    # Within items of one width no cut saves padding: only where the width changes may one be.
    for end in (*(np.flatnonzero(np.diff(widths)) + 1).tolist(), len(widths)):
        # All rows of the last part are as wide as its first one. Of equal ones the longest part.
        options = (
            (work + overhead + int(widths[start] * rows[start:end].sum()), [*starts, start])
            for start, (work, starts) in best.items()
        )
        best[end] = min(options, key=itemgetter(0))
    return best[len(widths)][1][1:]  # the first part always begins at 0


def length_batches(lengths: NDArray[np.int64], tokens: int) -> list[Indices]:
    """All rows in batches of like length and at most `tokens` padded tokens, the longest first.

    For prediction, where it does not matter which rows share a batch.
    """
    order = np.argsort(-lengths, kind="stable")
    widths = _rounded(lengths[order])
    batches, start = [], 0
    while start < len(order):
        end = start + max(1, tokens // int(widths[start]))  # the first is the longest
        batches.append(order[start:end])
        start = end
    return batches


def pad(features: Features, rows: Indices, width: int | None = None) -> dict[str, NDArray[Any]]:
    """The inputs of a network for some rows, each (rows, tokens): ids, mask and token types.

    They are as wide as the longest row, rounded up, or have the `width` given. Marked rows have
    their `marks` too.
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
    """The tail (encoder/packing.py), one to `width` tokens, that gives packed rows few sizes.

    It rounds the tokens up to an eighth of the power of two below them, or to less.
    """
    eighth, most = (1 << (number.bit_length() - 1) for number in (tokens // 8 or 1, width))
    unit = int(min(max(ROUNDING, eighth), most))
    return unit - tokens % unit


def _width(lengths: NDArray[np.int64], max_tokens: int) -> int:
    """Rounded up, but not beyond what the encoder has positions for."""
    longest = lengths.max()
    return int(min(_rounded(longest), max(max_tokens, longest)))


def _rounded(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return -(-lengths // ROUNDING) * ROUNDING  # Python rounds down, so this rounds up
