"""The embedded data: small files in the benchmarks' official layouts, one folder per suite.

Generated sentences, from a fixed seed: tests/helpers/mini_data writes them again, byte for byte.
"""

from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """The folder that holds glue/ and the other suites, as `--data DIR` would be given it."""
    return Path(__file__).parent
