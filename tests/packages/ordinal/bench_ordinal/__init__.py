"""Ordered levels, such as one to five stars: a head, an answer type, and a suite with one task."""

from benchharness.extension import COMPARE, Command, Extension

EXTENSION = Extension(
    name="ordinal",
    package=__name__,
    suites=("tasks",),
    heads={"ordinal": "head:head"},
    answers={"ordinal": "answers:Levels"},
    hyperparameters={"ordinal": "hyperparameters:OrdinalOptions"},
    learners={"ordinal": "baseline:learn_level_words"},
    recipes="recipes",
    commands={
        "levels": Command(
            "command:levels",
            "Show how far the predicted levels are from the gold ones.",
            "levels 0f47",
            COMPARE,
        )
    },
)
