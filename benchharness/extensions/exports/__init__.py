"""Export scores and predictions in the formats of other tools, or the whole database."""

from benchharness.extension import KEEP, Command, Extension

EXTENSION = Extension(
    name="exports",
    package=__name__,
    commands={
        "export": Command(
            "command:export",
            "Export scores, predictions or the whole database.",
            "export --suite glue --format latex",
            KEEP,
        ),
    },
)
