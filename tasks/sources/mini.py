"""The mini door: the small files in the official layouts that are packaged with `tasks`."""

from importlib.resources import files
from pathlib import Path

__all__ = ["mini_folder"]


def mini_folder() -> Path:
    """The folder that holds the embedded suites; the files door reads it."""
    return Path(str(files("tasks") / "mini"))
