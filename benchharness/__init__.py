"""benchharness: how good is an encoder? `benchharness.run` answers, as the command `bench` does."""

from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

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
        score,
    )
    from benchharness.callback import BenchCallback
    from benchharness.tasks.errors import BenchError

__version__ = "0.1.0"
"""The version of the package, which each result records."""

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
    "score",
)


def __getattr__(name: str) -> Any:
    """Give a name of `__all__` from `benchharness.api`, which takes a second to import.

    Any other name is that of an extension's function.
    """
    if name not in __all__:
        place = "" if name.startswith("_") else _places().get(name)
        if not place:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return resolve_name(place)
    # Workers and `bench --help` do without either, and only a training needs transformers.
    module = import_module(f"benchharness.{'callback' if name == 'BenchCallback' else 'api'}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_places()})


def _places() -> dict[str, str]:
    found: dict[str, str] = resolve_name("benchharness.discovery:places")("calls")
    return found
