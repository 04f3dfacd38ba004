"""The only thing an engine starts: a process that turns one job into a Result or a Failure.

A process with BENCH_DIES_WITH in its environment, the number of the one that has started it, dies
with that one: from here on, before it imports what may take long, or hang.
"""

import ctypes
import os
import signal
import sys

DIES_WITH = "BENCH_DIES_WITH"

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when the thread that started it ends."""


def die_with(parent: int) -> None:
    """Makes the kernel kill this process when the thread that started it ends (Linux).

    A parent that ended before this call shows in a new parent's id.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # A parent that ended before the call sends no signal any more.
        if os.getppid() != parent:
            sys.exit(1)


if DIES_WITH in os.environ:
    die_with(int(os.environ.pop(DIES_WITH)))
