"""Ordered levels, such as one to five stars: a head, an answer type, a suite and a technique."""

from benchharness.extension import COMPARE, Command, Extension

EXTENSION = Extension(
    name="ordinal",
    package=__name__,
    suites=("tasks",),
    heads={"ordinal": "head:head"},
    answers={"ordinal": "answers:Levels"},
    hyperparameters={
        "ordinal": "hyperparameters:OrdinalOptions",
        "fresh_layers": "hyperparameters:FreshOptions",
    },
    techniques={"fresh_layers": "technique:FreshLayers"},
    learners={"ordinal": "baseline:learn_level_words"},
    recipes="recipes",
    sections={"Levels": "section:levels_section"},
    commands={
        "levels": Command(
            "command:levels",
            "Show how far the predicted levels are from the gold ones.",
            "levels 0f47",
            COMPARE,
        )
    },
)
