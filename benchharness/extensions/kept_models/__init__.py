"""Use the models that runs have kept: predict labels for new rows, or export for transformers."""

from benchharness.extension import USE, Command, Extension

EXTENSION = Extension(
    name="kept_models",
    package=__name__,
    needs=("custom_data", "exports", "frozen", "text_to_text"),
    commands={
        "predict": Command(
            "predict_command:predict",
            "Predict labels for new rows with a kept model.",
            "predict 4f2a9c reviews.csv",
            USE,
        ),
        "model": Command(
            "command:model",
            "Export a trained model as a Hugging Face folder.",
            "model roberta --task glue/rte --to rte-model",
            USE,
        ),
    },
    sheets={"Variants": "sheet:part"},
    calls={"model": "python:model", "predict": "python:predict"},
)
