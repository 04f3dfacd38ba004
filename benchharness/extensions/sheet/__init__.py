"""Write the sheet of a system: one page with its results, and with a list of missing results."""

from benchharness.extension import READ, Command, Extension

EXTENSION = Extension(
    name="sheet",
    package=__name__,
    commands={
        "sheet": Command(
            "command:sheet",
            "Write one page with all results of a model.",
            "sheet roberta --task glue/rte --out sheet.html",
            READ,
        ),
    },
)
