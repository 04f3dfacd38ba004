"""Run stored jobs again with their stored settings, and judge whether the results are the same."""

from benchharness.extension import COMPARE, Command, Extension

EXTENSION = Extension(
    name="reproduce",
    package=__name__,
    needs=("explanation",),
    commands={
        "reproduce": Command(
            "command:reproduce",
            "Run stored jobs again and compare the results.",
            "reproduce --suite glue --sample 5% --minutes 30",
            COMPARE,
            after="explain",
        ),
    },
    facts={"reproduced": "shown:facts"},
    sections={"Reproductions": "shown:section"},
)
