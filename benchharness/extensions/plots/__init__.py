"""Plots of the report: scores against costs, seed by seed and by category, and learning curves."""

from benchharness.extension import Extension

EXTENSION = Extension(name="plots", package=__name__, additions={"plots": "report:ReportPlots"})
