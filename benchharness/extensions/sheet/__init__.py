"""The sheet of a system: one page with everything that is known about it, and what is not."""

from benchharness.extension import READ, Command, Extension

EXTENSION = Extension(
    name="sheet",
    package=__name__,
    commands={
        "sheet": Command(
            "command:sheet",
            "Write one page with all that is known about a model.",
            "sheet roberta --task glue/rte --out sheet.html",
            READ,
        ),
    },
)
