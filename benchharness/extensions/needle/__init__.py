"""Needle in a haystack: texts of five lengths, which show how long a text an encoder can use."""

from benchharness.extension import Extension

EXTENSION = Extension(name="needle", package=__name__, suites=("tasks",))
