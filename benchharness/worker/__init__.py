"""The only thing an engine starts: a process that turns one job into a Result or a Failure.

A process with BENCH_DIES_WITH in its environment, the number of the one that has started it, dies
with that one: from here on, before it imports what may take long, or hang.
"""

import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


AUTOGROUP = Path("/proc/self/autogroup")

TRIES = 20
"""The kernel takes a nice value ten times a second, of all users together."""


def keep_priority() -> None:
    """Makes `nice` count for a process that leads a session of its own (Linux).

    The kernel shares a processor's time out between sessions first (sched(7), autogroup): a nice
    value counts within its session alone, and each session has another one, which begins at 0.
    """
    own = os.nice(0)  # adds nothing, and says what it is
    for _ in range(TRIES if own > 0 else 0):
        try:
            AUTOGROUP.write_text(str(own))
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:  # a kernel without such groups
            return
        else:
            return


@contextmanager
def importing() -> Iterator[None]:
    """A block of imports, which leave no garbage: that none is looked for saves a fifth of them.

    What they have made is left alone afterwards too, so that forks share its memory.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what was made is never looked at
        gc.enable()


if DIES_WITH in os.environ:
    die_with(int(os.environ.pop(DIES_WITH)))
    keep_priority()
