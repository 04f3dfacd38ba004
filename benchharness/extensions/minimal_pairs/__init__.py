"""Minimal pairs of sentences (BLiMP and others), and the pseudo-perplexity of custom text."""

from benchharness.extension import Extension

EXTENSION = Extension(name="minimal_pairs", package=__name__, needs=("cloze",), suites=("tasks",))
