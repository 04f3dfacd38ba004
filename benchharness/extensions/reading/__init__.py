"""Question answering in a conversation or on several paragraphs: QuAC, CoQA and HotpotQA."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="reading",
    package=__name__,
    suites=("tasks",),
    prediction_files=dict.fromkeys(("quac", "coqa", "hotpotqa"), "files:LAYOUT"),
    submissions={"quac": "files:QUAC", "coqa": "files:COQA", "hotpotqa": "files:HOTPOTQA"},
)
