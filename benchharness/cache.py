"""Where what can be computed again is kept between runs. All of it may be deleted."""

import os
from pathlib import Path

from platformdirs import user_cache_path

__all__ = ["cache_folder"]


def cache_folder(name: str) -> Path:
    """The folder of that name in $BENCH_CACHE, or in the user's cache."""
    home = os.environ.get("BENCH_CACHE")
    return (Path(home).expanduser() if home else user_cache_path("benchharness")) / name
