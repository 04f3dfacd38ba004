"""benchharness fine-tunes text encoders on benchmarks and scores them as the official scorers do.

The function `benchharness.run` does the same as the shell command `bench run`.
"""

from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from benchharness.version import package_version

if TYPE_CHECKING:
    from benchharness.api import (
        BoardTable,
        Results,
        board,
        boards,
        compare,
        curve,
        load,
        predictions,
        published,
        run,
        runs,
    )
    from benchharness.callback import BenchCallback
    from benchharness.errors import BenchError

    __version__: str
    """Version of the package. Each result records the version that made it."""

__all__ = (
    "BenchCallback",
    "BenchError",
    "BoardTable",
    "Results",
    "__version__",
    "board",
    "boards",
    "compare",
    "curve",
    "load",
    "predictions",
    "published",
    "run",
    "runs",
)


def __getattr__(name: str) -> Any:
    """Return a function or class of the public interface; its module is imported at its first use.

    The module is not imported earlier, because importing `benchharness.api` takes a second. A name
    that is not in `__all__` is looked up among the functions and classes that extensions add.

    Raises:
        AttributeError: Neither benchharness nor an extension has a public object with this name.
    """
    if name == "__version__":  # in a checkout, git is asked for it
        return package_version()
    if name not in __all__:
        place = "" if name.startswith("_") else _places().get(name)
        if not place:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return resolve_name(place)
    # These modules are imported late, because worker processes and `bench --help` need none of
    # them, and because only BenchCallback needs transformers.
    module = import_module(f"benchharness.{'callback' if name == 'BenchCallback' else 'api'}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_places()})


def _places() -> dict[str, str]:
    found: dict[str, str] = resolve_name("benchharness.discovery:places")("calls")
    return found
