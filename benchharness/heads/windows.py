"""Long texts in overlapping windows, and in which of them each token is best understood."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_windows", "cut_windows"]


def cut_windows(tokens: int, room: int, stride: int) -> list[slice]:
    """Windows of at most `room` tokens that begin every `stride` tokens until the text is covered.

    As in google-research/bert's run_squad.py, where transformers' run_qa.py calls the overlap the
    stride. A stride beyond the room leaves no gaps: windows then follow one another. An empty text
    has one empty window.
    """
    step = min(stride, room)
    beyond = max(0, tokens - room)
    starts = range(0, beyond + step, step)
    return [slice(start, min(start + room, tokens)) for start in starts]


def best_windows(windows: list[slice]) -> NDArray[np.int64]:
    """The window of every token in which it has the most context, the first of several.

    The context is the smaller of the numbers of tokens on either side, and a hundredth of the
    window's length more (run_squad.py, `_check_is_max_context`).
    """
    places = np.arange(windows[-1].stop)
    context = [
        np.where(
            (places >= window.start) & (places < window.stop),
            np.minimum(places - window.start, window.stop - 1 - places)
            + 0.01 * (window.stop - window.start),
            -1.0,
        )
        for window in windows
    ]
    best: NDArray[np.int64] = np.argmax(context, axis=0)
    return best
