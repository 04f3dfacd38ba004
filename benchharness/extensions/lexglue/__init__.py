"""LexGLUE's three tasks with long documents."""

from benchharness.extension import Extension

EXTENSION = Extension(name="lexglue", package=__name__, suites=("tasks",))
