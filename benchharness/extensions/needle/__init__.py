"""Needle in a haystack: texts of five lengths show the length of text that an encoder can use."""

from benchharness.extension import Extension

EXTENSION = Extension(name="needle", package=__name__, suites=("tasks",))
