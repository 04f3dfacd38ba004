"""Average the stored predictions of several systems into a new system on the leaderboard."""

from benchharness.extension import COMPARE, Command, Extension

EXTENSION = Extension(
    name="ensemble",
    package=__name__,
    needs=("submission",),
    commands={
        "ensemble": Command(
            "command:ensemble",
            "Average the predictions of several models.",
            "ensemble bert roberta --task glue/rte --name both",
            COMPARE,
            old="compare ensemble",
        ),
    },
)
