"""Download models and data so that later runs need no network."""

from benchharness.extension import MEASURE, Command, Extension

EXTENSION = Extension(
    name="fetch",
    package=__name__,
    commands={
        "fetch": Command(
            "command:fetch",
            "Download models and data for offline runs.",
            "fetch --model roberta --suite glue",
            MEASURE,
            old="run fetch",
            after="run",
        ),
    },
)
