"""The Stanford Sentiment Treebank: sentences with five grades of sentiment, or with two."""

from benchharness.extension import Extension

EXTENSION = Extension(name="sst", package=__name__, suites=("tasks:SUITES",))
