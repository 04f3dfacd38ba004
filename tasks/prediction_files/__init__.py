"""Prediction files that anyone made, read for a split whose labels are known."""

from tasks.prediction_files.read import PredictionFile, read_predictions

__all__ = ["PredictionFile", "read_predictions"]
