"""What a running job tells its engine: a line of numbers now and then."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "Reporter"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a job is.

    `phase` is "loading", "encoding", "training", "saving" or "predicting", and "waiting" before
    those while a cluster has no room.

    `step` of `steps` optimizer steps (training) or batches (predicting; encoding, where a frozen
    encoder is computed); `loss` is the latest mean training loss, None outside training;
    `examples_per_second` is over the phase so far. A `note` is what a user should know of the job,
    the rest of a sentence that begins with its name ("skips a damaged snapshot").
    """

    phase: str
    step: int = 0
    steps: int = 0
    epoch: float = 0.0
    loss: float | None = None
    examples_per_second: float = 0.0
    note: str = ""


Reporter = Callable[[Progress], None]
