"""Worker: the process that an engine starts to turn one job into a Result or a Failure.

If the environment variable BENCH_DIES_WITH contains the id of the process that started the worker,
the worker is killed when that process ends. This is set up here, before imports that may take long
or hang.
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
"""Option of prctl(2) that sets the signal that this process gets when the thread that started it
ends."""


def die_with(parent: int) -> None:
    """Make the kernel kill this process when the thread that started it ends (Linux).

    `parent` is the id of the process that started this one. If that process has ended already, this
    process exits at once. On other systems, this function does nothing.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # A parent that ended before the call does not trigger the signal.
        if os.getppid() != parent:
            sys.exit(1)


AUTOGROUP = Path("/proc/self/autogroup")

TRIES = 20
"""Maximum number of attempts to write the nice value of a session. The kernel accepts ten attempts
per second from all users together, and refuses the others."""


def keep_priority() -> None:
    """Make this process's nice value effective although the process leads its own session (Linux).

    The kernel first divides processor time between sessions (see autogroups in sched(7)), and then
    between the processes of a session. The nice value of a process counts only within its session.
    The session has another nice value, which begins at 0. This function sets the session's value to
    that of the process, if the latter is positive.
    """
    own = os.nice(0)  # adding 0 returns the current nice value
    for _ in range(TRIES if own > 0 else 0):
        try:
            AUTOGROUP.write_text(str(own))
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:  # this kernel does not support autogroups
            return
        else:
            return


@contextmanager
def importing() -> Iterator[None]:
    """Context manager that makes imports in its block a fifth faster.

    Garbage collection is disabled in the block, and torch's compiler is replaced with a placeholder
    (NoCompiler), unless torch has been imported already. The imported objects stay excluded from
    garbage collection afterwards, so that forks of this process share the memory of these objects.
    """
    if "torch" not in sys.modules and COMPILER not in sys.modules:
        _without_compiler()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # garbage collection will skip the imported objects
        gc.enable()


COMPILER = "torch._dynamo"

MARKS = {"allow_in_graph", "assume_constant_result", "disable", "graph_break"}
"""Names of the compiler's decorators that torch's optimizers and transformers' classes use."""


class NoCompiler(ModuleType):
    """Placeholder for torch's compiler, `torch._dynamo`, whose import takes a second.

    The placeholder has decorators (see MARKS) that leave functions unchanged, and a config that has
    one value. Access to any other attribute or submodule imports the real module, which then
    replaces the placeholder.
    """

    def __getattr__(self, name: str) -> Any:
        if name in MARKS:
            return _as_it_is
        if name == "config":
            return _Settings(name)
        if name == "__path__":
            return []  # mark as a package; _Parts finds its submodules
        # pickle asks every module for some attributes, which must not import torch.
        if name.startswith("__") or "torch" not in sys.modules:
            raise AttributeError(name)
        return getattr(_loaded(COMPILER), name)


class _Settings(ModuleType):
    """Placeholder for the compiler's config; torch's checkpointing reads one value of it."""

    def __getattr__(self, name: str) -> Any:
        is_known = name == "error_on_nested_fx_trace"
        return True if is_known else getattr(_loaded(COMPILER).config, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(_loaded(COMPILER).config, name, value)


class _Parts:
    """Import finder for submodules of the compiler; it loads the real compiler first."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if not name.startswith(f"{COMPILER}."):
            return None
        path = _loaded(COMPILER).__path__
        is_there = name in sys.modules
        return ModuleSpec(name, self) if is_there else PathFinder.find_spec(name, path)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has been executed already."""


def _without_compiler() -> None:
    # transformers creates attention masks in torch's context manager TransformGetItemToIndex, which
    # only compiled models need.
    part = ModuleType(f"{COMPILER}._trace_wrapped_higher_order_op")
    part.TransformGetItemToIndex = lambda: _loaded(part.__name__).TransformGetItemToIndex()  # type: ignore[attr-defined]
    sys.modules |= {COMPILER: NoCompiler(COMPILER), part.__name__: part}
    sys.meta_path.insert(0, _Parts())


def _loaded(name: str) -> Any:
    """Import the real compiler, unless it is imported already, and return one of its modules."""
    if isinstance(sys.modules[COMPILER], NoCompiler):
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Parts)]
        for known in [each for each in sys.modules if f"{each}.".startswith(f"{COMPILER}.")]:
            del sys.modules[known]
        vars(sys.modules["torch"]).pop("_dynamo", None)
    return import_module(name)


def _as_it_is(function: Any = None, *_: Any, **__: Any) -> Any:
    """Return the decorated function unchanged, for decorators with or without options."""
    return (lambda decorated: decorated) if function is None else function


if DIES_WITH in os.environ:
    die_with(int(os.environ.pop(DIES_WITH)))
    keep_priority()
