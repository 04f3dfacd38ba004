"""What every head type offers to the worker: the road from examples to predictions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.encoder import Encoder
from benchharness.training.batching import Features


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long a row may be: at most `max_tokens` with the special tokens.

    Only where a context is cut into windows: they begin every `stride` tokens, and at most
    `max_question_tokens` of the question stand in each.
    """

    max_tokens: int
    stride: int = 128
    max_question_tokens: int = 64


@dataclass(frozen=True, kw_only=True)
class Head:
    """The functions of one head type; `task` and the examples are of its own classes.

    `encode(examples, tokenizer, limits)` makes the features, `targets(features, examples, task)`
    what is learned from them, one for each item, `network(encoder, task)` the module from padded
    rows to logits, and `decode(logits, features, examples, task)` one prediction per example. A
    module with `reads_targets` is given its rows' targets in training, as `targets`.
    `loss(logits, targets)` gives one loss per item: its logits are a row's, or where an item has
    several rows with one logit each, those side by side, and -inf in the place of a missing row.
    Logits return to the head that made the features, which alone can read its windows and offsets.
    """

    encode: Callable[[Sequence[Any], Any, Limits], Features]
    targets: Callable[[Any, Sequence[Any], Any], NDArray[Any]]
    network: Callable[[Encoder, Any], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    decode: Callable[[NDArray[np.float32], Any, Sequence[Any], Any], tuple[Any, ...]]


# Long texts in overlapping windows, and in which of them each token is best understood.


def cut_windows(tokens: int, room: int, stride: int) -> list[slice]:
    """Windows of at most `room` tokens that begin every `stride` tokens until the text is covered.

    As in google-research/bert's run_squad.py, where transformers' run_qa.py calls the overlap the
    stride. A stride beyond the room leaves no gaps: windows then follow one another. An empty text
    has one empty window.
    """
    step = min(stride, room)
    beyond = max(0, tokens - room)  # what the first window leaves out
    starts = range(0, beyond + step, step)  # the last one begins at `beyond` or after it
    return [slice(start, min(start + room, tokens)) for start in starts]


def best_windows(windows: list[slice]) -> NDArray[np.int64]:
    """The window of every token in which it has the most context, the first of several.

    The context is the smaller of the numbers of tokens on either side, and a hundredth of the
    window's length more (run_squad.py, `_check_is_max_context`).
    """
    places = np.arange(windows[-1].stop)  # (tokens,)
    context = [  # (windows, tokens), -1 outside of a window
        np.where(
            (places >= window.start) & (places < window.stop),
            np.minimum(places - window.start, window.stop - 1 - places)
            + 0.01 * (window.stop - window.start),
            -1.0,
        )
        for window in windows
    ]
    best: NDArray[np.int64] = np.argmax(context, axis=0)  # (tokens,), the first of equal ones
    return best
