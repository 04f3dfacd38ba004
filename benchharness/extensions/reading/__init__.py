"""Question answering in a conversation or on several paragraphs: QuAC, CoQA and HotpotQA."""

from benchharness.extension import Extension

EXTENSION = Extension(name="reading", package=__name__, suites=("tasks",))
