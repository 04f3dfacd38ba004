"""Extension that compares encoders on the suites of a paper and writes LaTeX tables."""

from benchharness.extension import MEASURE, Command, Extension

EXTENSION = Extension(
    name="paper",
    package=__name__,
    needs=("exports", "plots"),
    commands={
        "paper": Command(
            "command:paper",
            "Run the experiments of a paper and write its tables.",
            "paper --model mine=./checkpoint --against bert,roberta --suite glue",
            MEASURE,
        ),
    },
    calls={"paper": "python:paper"},
)
