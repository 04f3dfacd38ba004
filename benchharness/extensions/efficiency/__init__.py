"""Efficiency: speed and memory of an encoder, measured on this machine next to a reference."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="efficiency",
    package=__name__,
    suites=("tasks",),
    answers={"timed": "answers:Timings"},
    hyperparameters={"timed": "hyperparameters:TimedOptions"},
    runners={"timed": "timing:time_encoder"},
    recipes="recipes",
)
