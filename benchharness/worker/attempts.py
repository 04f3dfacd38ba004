"""A job whose memory runs out is tried again in smaller micro-batches."""

import math
from collections.abc import Callable

from benchharness.progress import Progress, Reporter
from benchharness.training.predict import OutOfMemoryError, free_memory, is_out_of_memory
from leaderboard.job import Job
from leaderboard.result import Result
from tasks.errors import JobError

__all__ = ["in_enough_parts"]


def in_enough_parts(attempt: Callable[[int], Result], job: Job, report: Reporter) -> Result:
    """What a job's attempt gives in as few parts to a batch as memory suffices for.

    The first number of parts is the recipe's; it doubles until micro-batches are half as large as
    the one that was too large. Each attempt begins anew from the same seed, so weights, order and
    batches are the same, and the result is that of `--set accumulation` with the last number.
    Dropout is drawn for each micro-batch, so with dropout it is not that of the recipe's number
    to the last bit, but another sample of the same. Raises JobError where one item is too large.
    """
    batch_size = int(job.settings["batch_size"].value)
    parts = int(job.settings["accumulation"].value)
    while True:
        result, too_large = _try(attempt, parts)
        if result is not None:
            return result
        if too_large == 1:
            raise JobError(
                "memory ran out in training, where every example is a micro-batch of its own "
                "already: run fewer --jobs at once, --set max_tokens to less, or lora_rank=8."
            )
        while math.ceil(batch_size / parts) > math.ceil(too_large / 2):
            parts *= 2
        free_memory()
        sentence = f"ran out of memory and starts anew with each batch in {parts} parts"
        report(Progress(phase="loading", note=sentence))


def _try(attempt: Callable[[int], Result], parts: int) -> tuple[Result | None, int]:
    """A result, or the items of the micro-batch that was too large."""
    try:
        return attempt(parts), 0
    except OutOfMemoryError as error:
        return None, error.items
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise JobError(
            f"memory ran out outside of batches, which no smaller batch can mend ({error}): run "
            "fewer --jobs at once, or --set lora_rank=8."
        ) from error
