"""Metrics: (predictions, examples) -> a number, each as its benchmark's official scorer counts."""

from tasks.metrics.classification import accuracy, binary_f1, by_category, matthews
from tasks.metrics.correlation import pearson, spearman
from tasks.metrics.flags import prediction_flags

__all__ = [
    "accuracy",
    "binary_f1",
    "by_category",
    "matthews",
    "pearson",
    "prediction_flags",
    "spearman",
]
