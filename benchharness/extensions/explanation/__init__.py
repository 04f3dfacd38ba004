"""Extension that explains why the scores of a stored run and of another tool's training differ."""

from benchharness.extension import COMPARE, Command, Extension

EXTENSION = Extension(
    name="explanation",
    package=__name__,
    commands={
        "explain": Command(
            "command:explain",
            "Explain why two scores differ.",
            "explain 4f2a9c --from ../run_glue/out",
            COMPARE,
            old="compare explain",
            after="compare",
        ),
    },
    calls={"explain": "python:explain"},
)
