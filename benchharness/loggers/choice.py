"""The loggers by name."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from benchharness.loggers.logger import Logger
from tasks.errors import BenchError, unknown_name

__all__ = ["LOGGERS", "Loggers", "open_loggers"]

Loggers = Mapping[str, Callable[[], Logger]]
"""What makes each logger, by its name."""

LOGGERS: Mapping[str, str] = MappingProxyType(
    {
        "tensorboard": "TensorBoardLogger",
        "wandb": "WandbLogger",
        "mlflow": "MlflowLogger",
        "trackio": "TrackioLogger",
    }
)
"""The class of each, in the module of its name; the package it needs has that name too."""


def open_loggers(names: Sequence[str], folder: Path) -> Loggers:
    """The loggers of these names; those that write files write below `folder`.

    Raises BenchError for an unknown name and for a package that is not installed.
    """
    return {name: _maker(name, folder) for name in names}


def _maker(name: str, folder: Path) -> Callable[[], Logger]:
    if name not in LOGGERS:
        raise unknown_name("logger", name, LOGGERS, f"Known: {', '.join(LOGGERS)}.")
    found = find_spec(name)
    if found is None or found.origin is None:  # a folder of that name, such as W&B leaves
        raise BenchError(
            f"--log {name} needs the package {name}, which is not installed: "
            f"pip install 'benchharness[{name}]'."
        )

    def make() -> Logger:
        module = import_module(f"benchharness.loggers.{name}_logger")
        logger: Logger = getattr(module, LOGGERS[name])(folder)
        return logger

    return make
