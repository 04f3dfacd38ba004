"""Needle in a haystack: the length of text that an encoder can use, by a task at five lengths."""

from benchharness.extension import Extension

EXTENSION = Extension(name="needle", package=__name__, suites=("tasks",))
