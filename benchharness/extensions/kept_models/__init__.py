"""Use the models that runs have kept: predict labels for new rows, or export for transformers."""

from benchharness.extension import USE, Command, Extension

EXTENSION = Extension(
    name="kept_models",
    package=__name__,
    needs=("custom_data",),
    commands={
        "predict": Command(
            "predict_command:predict",
            "Answer rows by a model that a run kept.",
            "predict 4f2a9c reviews.csv",
            USE,
        ),
        "model": Command(
            "command:model",
            "Write a run's model for transformers.",
            "model roberta --task glue/rte --to rte-model",
            USE,
        ),
    },
    calls={"model": "python:model", "predict": "python:predict"},
)
