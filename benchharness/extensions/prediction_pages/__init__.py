"""Pages with every prediction of a system, next to those of the best other system."""

from benchharness.extension import Command, Extension

EXTENSION = Extension(
    name="prediction_pages",
    package=__name__,
    commands={
        "report predictions": Command(
            "command:predictions",
            "Write an HTML page per task with every prediction.",
            "report predictions roberta --task glue/rte",
        ),
    },
    pages={"predictions": "pages:PredictionPages"},
)
