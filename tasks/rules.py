"""Score rules: how the scores of a suite's tasks become one number.

Papers use different rules under the same word "GLUE", so a rule has a name, and two rows under
different rules are never ranked together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from tasks.errors import unknown_name

__all__ = ["GLUE_8_DEV", "GLUE_9", "RULES", "SUPERGLUE_8", "ScoreRule", "find_rule"]

Scores = Mapping[str, Mapping[str, float]]
"""Scores by task name, then by score name ("accuracy", "accuracy_mm")."""


@dataclass(frozen=True, kw_only=True)
class ScoreRule:
    """The mean over tasks of the mean over each task's `cells` (score names).

    Values may be fractions or percent, as long as they are all of one unit.
    """

    name: str
    cells: Mapping[str, tuple[str, ...]]
    cite: str

    def task_score(self, task: str, scores: Mapping[str, float]) -> float | None:
        """The task's mean over its cells; None unless every cell is there."""
        cells = self.cells[task]
        if any(cell not in scores for cell in cells):
            return None
        return fmean(scores[cell] for cell in cells)

    def score(self, scores: Scores) -> float | None:
        """The suite's score; None unless every cell of every task is there."""
        values = [self.task_score(task, scores.get(task, {})) for task in self.cells]
        known = [value for value in values if value is not None]
        return fmean(known) if len(known) == len(values) else None


GLUE_9 = ScoreRule(
    name="GLUE-9",
    cells={
        "glue/cola": ("mcc",),
        "glue/sst2": ("accuracy",),
        "glue/mrpc": ("f1", "accuracy"),
        "glue/stsb": ("pearson", "spearman"),
        "glue/qqp": ("f1", "accuracy"),
        "glue/mnli": ("accuracy", "accuracy_mm"),
        "glue/qnli": ("accuracy",),
        "glue/rte": ("accuracy",),
        "glue/wnli": ("accuracy",),
    },
    cite="Wang et al., GLUE, ICLR 2019: tasks weigh the same, their metrics averaged first",
)

GLUE_8_DEV = ScoreRule(
    name="GLUE-dev-8",
    cells={
        "glue/cola": ("mcc",),
        "glue/sst2": ("accuracy",),
        "glue/mrpc": ("accuracy",),
        "glue/stsb": ("pearson",),
        "glue/qqp": ("accuracy",),
        "glue/mnli": ("accuracy",),
        "glue/qnli": ("accuracy",),
        "glue/rte": ("accuracy",),
    },
    cite="Liu et al., RoBERTa, 2019, table 8: one metric per task, WNLI left out",
)

SUPERGLUE_8 = ScoreRule(
    name="SuperGLUE-8",
    cells={
        "superglue/boolq": ("accuracy",),
        "superglue/cb": ("f1", "accuracy"),
        "superglue/copa": ("accuracy",),
        "superglue/multirc": ("f1a", "em"),
        "superglue/record": ("f1", "em"),
        "superglue/rte": ("accuracy",),
        "superglue/wic": ("accuracy",),
        "superglue/wsc": ("accuracy",),
    },
    cite="Wang et al., SuperGLUE, NeurIPS 2019, section 3.3",
)

RULES = {rule.name: rule for rule in (GLUE_9, GLUE_8_DEV, SUPERGLUE_8)}


def find_rule(name: str) -> ScoreRule:
    """The rule of that name; BenchError with a close one otherwise."""
    if name not in RULES:
        raise unknown_name("score rule", name, RULES)
    return RULES[name]
