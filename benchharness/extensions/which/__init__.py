"""Find the best of several encoders for some tasks within a time budget."""

from benchharness.extension import MEASURE, Command, Extension

EXTENSION = Extension(
    name="which",
    package=__name__,
    needs=("kept_models", "search"),
    commands={
        "which": Command(
            "command:which",
            "Find the best encoder within a time budget.",
            "which --among bert,roberta --task glue/rte --minutes 60",
            MEASURE,
            after="run",
        ),
    },
    calls={"Choice": "python:Choice", "which": "python:which"},
)
