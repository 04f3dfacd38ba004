"""Score prediction files from any program, and write, check or repair submissions for servers."""

from benchharness.extension import MEASURE, USE, Command, Extension

EXTENSION = Extension(
    name="submission",
    package=__name__,
    commands={
        "score": Command(
            "score_command:score",
            "Score prediction files from any program.",
            "score RTE.tsv --task glue/rte",
            MEASURE,
            old="submit score",
            after="watch",
        ),
        "submit": Command(
            "command:submit",
            "Write, check or repair a submission.",
            "submit --model roberta --suite glue",
            USE,
        ),
    },
    calls={"score": "python:score"},
)
