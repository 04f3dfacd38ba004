"""Curves of scores over the checkpoints of a pretraining run, or over the layers of an encoder."""

from benchharness.extension import COMPARE, Command, Extension

EXTENSION = Extension(
    name="curves",
    package=__name__,
    commands={
        "curve": Command(
            "command:curve",
            "Test where scores rise or fall over pretraining checkpoints.",
            "curve small --task glue/mnli",
            COMPARE,
            old="compare curve",
            after="plan",
        ),
    },
    plots={"stages": "figures:STAGES", "layers": "figures:LAYERS"},
)
