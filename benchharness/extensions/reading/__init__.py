"""Reading in a conversation or over several paragraphs: QuAC, CoQA and HotpotQA."""

from benchharness.extension import Extension

EXTENSION = Extension(name="reading", package=__name__, suites=("tasks:SUITES",))
