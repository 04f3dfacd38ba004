"""How printed averages come about, so that each can be worked out again from its row's cells."""

from collections.abc import Mapping
from types import MappingProxyType

from leaderboard.boards.published import PublishedRow
from tasks.rules import RULES, complete_mean

__all__ = ["PLAIN_MEANS", "reproduced"]

_TEST_9 = (
    *(("glue/mnli", "accuracy"), ("glue/mnli", "accuracy_mm"), ("glue/qqp", "f1")),
    *(("glue/qnli", "accuracy"), ("glue/sst2", "accuracy"), ("glue/cola", "mcc")),
    *(("glue/stsb", "spearman"), ("glue/mrpc", "f1"), ("glue/rte", "accuracy")),
)
_WITHOUT_QNLI = (
    *(("glue/cola", "mcc"), ("glue/sst2", "accuracy"), ("glue/mrpc", "accuracy")),
    *(("glue/stsb", "spearman"), ("glue/qqp", "accuracy"), ("glue/mnli", "accuracy")),
    *(("glue/rte", "accuracy"), ("glue/wnli", "accuracy")),
)

PLAIN_MEANS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {"GLUE-test-9-cells": _TEST_9, "GLUE-test-8-without-QNLI": _WITHOUT_QNLI}
)
"""Averages of papers that are no ScoreRule: the mean of single cells, by name.

The first is the "Average" of Devlin et al. 2019, table 1, and of TinyBERT: without WNLI, and with
MNLI counted twice. The second is the "Avg.*" of Clark et al. 2020, which leaves out QNLI because
some systems had treated it as ranking."""


def reproduced(row: PublishedRow, name: str) -> float | None:
    """The average of that name over the row's cells; None where the row lacks one of them.

    A number of which the source does not say which score it is stands for each that it may be.
    """
    scores: dict[str, dict[str, float]] = {}
    for cell in row.cells:
        if not cell.is_average:
            scores.setdefault(cell.task, {}).update(dict.fromkeys(cell.scores, cell.value))
    if name in PLAIN_MEANS:
        return complete_mean([scores.get(task, {}).get(cell) for task, cell in PLAIN_MEANS[name]])
    return RULES[name].score(scores)
