"""The Stanford Sentiment Treebank: classification of sentences into five or two sentiments."""

from benchharness.extension import Extension

EXTENSION = Extension(name="sst", package=__name__, suites=("tasks",))
