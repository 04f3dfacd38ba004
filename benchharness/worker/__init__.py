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
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

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
    """A block of imports without a compiler, in which no garbage is looked for: a fifth of them.

    What they have made is left alone afterwards too, so that forks share its memory.
    """
    if "torch" not in sys.modules and COMPILER not in sys.modules:
        _without_compiler()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what was made is never looked at
        gc.enable()


COMPILER = "torch._dynamo"

MARKS = {"allow_in_graph", "assume_constant_result", "disable", "graph_break"}
"""What torch's optimizers and transformers' classes say to it."""


class NoCompiler(ModuleType):
    """`torch._dynamo` until something is compiled: its code takes a second to import.

    What is marked for it is left as it is. Whatever else is asked of it, or imported from it, is
    that of the module itself, which then takes its place.
    """

    def __getattr__(self, name: str) -> Any:
        if name in MARKS:
            return _as_it_is
        if name == "config":
            return _Settings(name)
        if name == "__path__":
            return []  # of a package, whose parts _Parts finds
        if name.startswith("__") or "torch" not in sys.modules:  # as pickle asks of every module
            raise AttributeError(name)
        return getattr(_loaded(COMPILER), name)


class _Settings(ModuleType):
    """Those of the compiler, of which torch's checkpointing reads one."""

    def __getattr__(self, name: str) -> Any:
        is_known = name == "error_on_nested_fx_trace"
        return True if is_known else getattr(_loaded(COMPILER).config, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(_loaded(COMPILER).config, name, value)


class _Parts:
    """Finds modules of the compiler's own, which are imported with all others."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if not name.startswith(f"{COMPILER}."):
            return None
        path = _loaded(COMPILER).__path__
        is_there = name in sys.modules
        return ModuleSpec(name, self) if is_there else PathFinder.find_spec(name, path)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it has been."""


def _without_compiler() -> None:
    # A block that transformers' masks are made in, for one that is compiled.
    part = ModuleType(f"{COMPILER}._trace_wrapped_higher_order_op")
    part.TransformGetItemToIndex = lambda: _loaded(part.__name__).TransformGetItemToIndex()  # type: ignore[attr-defined]
    sys.modules |= {COMPILER: NoCompiler(COMPILER), part.__name__: part}
    sys.meta_path.insert(0, _Parts())


def _loaded(name: str) -> Any:
    """A module of the compiler's own."""
    if isinstance(sys.modules[COMPILER], NoCompiler):
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Parts)]
        for known in [each for each in sys.modules if f"{each}.".startswith(f"{COMPILER}.")]:
            del sys.modules[known]
        vars(sys.modules["torch"]).pop("_dynamo", None)
    return import_module(name)


def _as_it_is(function: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator that does nothing, with options or without."""
    return (lambda decorated: decorated) if function is None else function


if DIES_WITH in os.environ:
    die_with(int(os.environ.pop(DIES_WITH)))
    keep_priority()
