"""Choose the best of some encoders for some tasks, within a number of minutes."""

from benchharness.extension import MEASURE, Command, Extension

EXTENSION = Extension(
    name="which",
    package=__name__,
    needs=("kept_models",),
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
