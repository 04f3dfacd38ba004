"""Measure the robustness of trained models: scores on challenge sets and on perturbed dev rows."""

from benchharness.extension import MEASURE, Command, Extension

EXTENSION = Extension(
    name="robustness",
    package=__name__,
    needs=("kept_models",),
    commands={
        "robustness": Command(
            "command:robustness",
            "Score kept models on challenge sets and on perturbed dev rows.",
            "robustness roberta --task glue/mnli --sets hans,anli --perturb all",
            MEASURE,
        ),
    },
    facts={"robustness": "shown:facts"},
    sections={"Robustness": "shown:section"},
    sheets={"Robustness": "sheet:part"},
)
