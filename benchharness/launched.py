"""What torchrun, accelerate or our own launcher tells the processes that it starts for one job."""

import os

__all__ = ["STORE", "count_processes", "forget_others", "own_rank"]

STORE = "BENCH_RANKS_FILE"
"""The variable by which our launcher names the file in which its processes meet."""


def count_processes() -> int:
    """How many processes train together; one where nobody said anything."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def own_rank() -> int:
    """The number of this process among them, from 0."""
    return int(os.environ.get("RANK", "0")) if count_processes() > 1 else 0


def forget_others() -> None:
    """Makes this process work alone, whatever it was told: `bench run` may be started by torchrun.

    Its workers inherit the variables, and would wait for others that never come.
    """
    os.environ.pop("WORLD_SIZE", None)
