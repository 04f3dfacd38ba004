"""Watch a run from another terminal."""

from benchharness.extension import MEASURE, Command, Extension

EXTENSION = Extension(
    name="watch",
    package=__name__,
    commands={
        "watch": Command(
            "command:watch",
            "Watch a run from another terminal.",
            "watch",
            MEASURE,
            old="run watch",
            after="run",
        ),
    },
)
