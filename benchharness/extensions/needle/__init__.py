"""Needle in a haystack: how long a text an encoder can use, by a synthetic task at five lengths."""

from benchharness.extension import Extension

EXTENSION = Extension(name="needle", package=__name__, suites=("tasks",))
