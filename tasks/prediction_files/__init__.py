"""Prediction files that anyone made, read for a split whose labels are known."""

from tasks.prediction_files.prediction_file import PredictionFile
from tasks.prediction_files.read import read_predictions

__all__ = ["PredictionFile", "read_predictions"]
