"""Distillation: a student learns from a teacher that was fine-tuned on the same task."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="distillation",
    package=__name__,
    hyperparameters={"teacher": "hyperparameters:StudentOptions"},
    techniques={"teacher": "technique:technique"},
    plans={"teacher": "plan:plan_of"},
    recipes="recipes",
)
