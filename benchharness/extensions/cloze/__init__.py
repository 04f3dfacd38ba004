"""Zero-shot scoring: a language model compares the candidate answers of a task."""

from benchharness.extension import Extension

EXTENSION = Extension(name="cloze", package=__name__, zero_shot="zero_shot")
