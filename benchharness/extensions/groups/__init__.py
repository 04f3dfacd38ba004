"""Compute the scores of groups of rows: by length, category, gold answer, column or condition."""

from benchharness.extension import READ, Command, Extension

EXTENSION = Extension(
    name="groups",
    package=__name__,
    needs=("custom_data",),
    commands={
        "groups": Command(
            "command:groups",
            "Show on which groups of rows a model is worse.",
            'groups roberta --task glue/rte --groups "words(text) > 50"',
            READ,
            after="calibration",
        ),
    },
    guards={"worst-group": "guard:worst_group"},
    sheets={"Groups": "sheet:part"},
)
