"""Measure the calibration of stored runs: how far their probabilities can be trusted."""

from benchharness.extension import READ, Command, Extension

EXTENSION = Extension(
    name="calibration",
    package=__name__,
    commands={
        "calibration": Command(
            "command:calibration",
            "Show how far the probabilities of a model can be trusted.",
            "calibration roberta --task glue/rte",
            READ,
        ),
    },
    calls={"calibration": "python:calibration"},
    plots={"calibration": "figures:CALIBRATION"},
    hyperparameters={"calibrate": "hyperparameters:CalibrateOptions"},
    techniques={"calibrate": "technique:Calibrate"},
    guards={"calibration": "guard:calibration", "coverage": "guard:coverage"},
    sheets={"Calibration": "sheet:part"},
)
