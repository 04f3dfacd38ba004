"""Metrics: (predictions, examples) -> a number, each as its benchmark's official scorer counts."""

from benchharness.tasks.metrics.choices import (
    choice_accuracy,
    of_group,
    option_exact_match,
    option_f1,
)
from benchharness.tasks.metrics.classification import (
    accuracy,
    answer_option_f1,
    binary_f1,
    by_category,
    gender_parity,
    macro_f1,
    matthews,
    pearson,
    prediction_flags,
    question_exact_match,
    question_f1,
    spearman,
)
from benchharness.tasks.metrics.entities import (
    entity_f1,
    entity_precision,
    entity_recall,
    tag_accuracy,
    to_iob1,
    to_iob2,
)
from benchharness.tasks.metrics.squad import (
    SQUAD_V1,
    SQUAD_V2,
    SQUAD_V2_DETAILS,
    official_v1,
    official_v2,
)

__all__ = [
    "SQUAD_V1",
    "SQUAD_V2",
    "SQUAD_V2_DETAILS",
    "accuracy",
    "answer_option_f1",
    "binary_f1",
    "by_category",
    "choice_accuracy",
    "entity_f1",
    "entity_precision",
    "entity_recall",
    "gender_parity",
    "macro_f1",
    "matthews",
    "of_group",
    "official_v1",
    "official_v2",
    "option_exact_match",
    "option_f1",
    "pearson",
    "prediction_flags",
    "question_exact_match",
    "question_f1",
    "spearman",
    "tag_accuracy",
    "to_iob1",
    "to_iob2",
]
