"""XTREME without retrieval: seven tasks that are trained in English and scored in 40 languages."""

from benchharness.extension import Extension

EXTENSION = Extension(name="xtreme", package=__name__, suites=("tasks:SUITES",))
