"""Search in rounds, such as successive halving: only the better candidates get more seeds."""

from benchharness.extension import Extension

EXTENSION = Extension(name="search", package=__name__, searches={"halving": "rounds:halving"})
