"""Score rules: how the scores of a suite's tasks become one number.

Papers use different rules under the same word "GLUE", so a rule has a name, and two rows under
different rules are never ranked together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType

__all__ = [
    "CONLL2003",
    "GLUE_8",
    "GLUE_8_DEV",
    "GLUE_8_DEV_SPEARMAN",
    "GLUE_9",
    "GLUE_9_DEV",
    "RACE",
    "RULES",
    "SNLI",
    "SQUAD",
    "SQUAD_1",
    "SQUAD_2",
    "SUPERGLUE_8",
    "SWAG",
    "ScoreRule",
    "complete_mean",
]

Scores = Mapping[str, Mapping[str, float]]
"""Scores by task name, then by score name ("accuracy", "accuracy_mm")."""


def complete_mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values; None where one of them is missing."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


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
        return complete_mean([scores.get(cell) for cell in self.cells[task]])

    def score(self, scores: Scores) -> float | None:
        """The suite's score; None unless every cell of every task is there."""
        return complete_mean([self.task_score(task, scores.get(task, {})) for task in self.cells])


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

GLUE_8 = replace(
    GLUE_9,
    name="GLUE-8",
    cells={task: cells for task, cells in GLUE_9.cells.items() if task != "glue/wnli"},
    cite="Portes et al., MosaicBERT, NeurIPS 2023: GLUE's rule with WNLI left out",
)

GLUE_8_DEV_SPEARMAN = replace(
    GLUE_8_DEV,
    name="GLUE-dev-8-spearman",
    cells={**GLUE_8_DEV.cells, "glue/stsb": ("spearman",)},
    cite="Clark et al., ELECTRA, ICLR 2020: one metric per task, WNLI left out, STS-B by Spearman",
)

GLUE_9_DEV = replace(
    GLUE_9,
    name="GLUE-dev-9",
    cells={**GLUE_9.cells, "glue/mnli": ("accuracy",)},
    cite="transformers, distillation README: macro score on dev with WNLI, matched MNLI only",
)

SQUAD = ScoreRule(
    name="SQuAD",
    cells={"squad/v1.1": ("f1",), "squad/v2.0": ("f1",)},
    cite="ours: the mean of both versions' F1; papers print the versions apart",
)

SQUAD_1 = ScoreRule(
    name="SQuAD-1.1",
    cells={"squad/v1.1": ("f1",)},
    cite="Rajpurkar et al., SQuAD: 100,000+ Questions, EMNLP 2016",
)

SQUAD_2 = ScoreRule(
    name="SQuAD-2.0",
    cells={"squad/v2.0": ("f1",)},
    cite="Rajpurkar et al., Know What You Don't Know, ACL 2018",
)

RACE = ScoreRule(
    name="RACE",
    cells={"race/all": ("accuracy",)},
    cite="Lai et al., RACE, EMNLP 2017: middle and high pooled",
)

CONLL2003 = ScoreRule(
    name="CoNLL-2003",
    cells={"conll2003/ner": ("f1",)},
    cite="Tjong Kim Sang and De Meulder, CoNLL-2003 shared task, 2003: entity F1",
)

SWAG = ScoreRule(
    name="SWAG",
    cells={"swag/regular": ("accuracy",)},
    cite="Zellers et al., SWAG, EMNLP 2018",
)

SNLI = ScoreRule(
    name="SNLI",
    cells={"snli/snli": ("accuracy",)},
    cite="Bowman et al., A Large Annotated Corpus (SNLI), EMNLP 2015",
)

RULES: Mapping[str, ScoreRule] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            *(GLUE_9, GLUE_8, GLUE_8_DEV, GLUE_8_DEV_SPEARMAN, GLUE_9_DEV),
            *(SUPERGLUE_8, SQUAD, SQUAD_1, SQUAD_2),
            *(RACE, CONLL2003, SWAG, SNLI),
        )
    }
)
"""By name."""
