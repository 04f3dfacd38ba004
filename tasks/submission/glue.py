"""GLUE's submission: eleven tables in one flat zip.

File names, labels and numbers of rows are those of nyu-mll/jiant-v1-legacy (jiant/evaluate.py) and
flair (flair/datasets/text_text.py); the answers of tasks that were not run are FLAML's.
"""

from tasks.submission.answer_file import AnswerFile
from tasks.submission.answers import Labels, Number

__all__ = ["GLUE_FILES"]


def _same(*names: str) -> Labels:
    """Labels that are written by their names."""
    return Labels(written={name: name for name in names})


def _numbered(*names: str) -> Labels:
    """Labels that are written as their places in the task's own order."""
    return Labels(written={name: str(number) for number, name in enumerate(names)})


THREE = _same("entailment", "neutral", "contradiction")
TWO = _same("entailment", "not_entailment")

GLUE_FILES = (
    AnswerFile(
        name="CoLA.tsv",
        task="glue/cola",
        rows=1063,
        answers=_numbered("unacceptable", "acceptable"),
        fill="unacceptable",
    ),
    AnswerFile(
        name="SST-2.tsv",
        task="glue/sst2",
        rows=1821,
        answers=_numbered("negative", "positive"),
        fill="negative",
    ),
    AnswerFile(
        name="MRPC.tsv",
        task="glue/mrpc",
        rows=1725,
        answers=_numbered("not_equivalent", "equivalent"),
        fill="not_equivalent",
    ),
    AnswerFile(
        name="STS-B.tsv", task="glue/stsb", rows=1379, answers=Number(low=0.0, high=5.0), fill=0.0
    ),
    AnswerFile(
        name="QQP.tsv",
        task="glue/qqp",
        rows=390_965,
        answers=_numbered("not_duplicate", "duplicate"),
        fill="not_duplicate",
    ),
    AnswerFile(name="MNLI-m.tsv", task="glue/mnli", rows=9796, answers=THREE, fill="neutral"),
    AnswerFile(
        name="MNLI-mm.tsv",
        task="glue/mnli",
        split="test_mm",
        rows=9847,
        answers=THREE,
        fill="neutral",
    ),
    AnswerFile(name="QNLI.tsv", task="glue/qnli", rows=5463, answers=TWO, fill="not_entailment"),
    AnswerFile(name="RTE.tsv", task="glue/rte", rows=3000, answers=TWO, fill="not_entailment"),
    AnswerFile(
        name="WNLI.tsv",
        task="glue/wnli",
        rows=146,
        answers=_numbered("not_entailment", "entailment"),
        fill="not_entailment",
    ),
    AnswerFile(name="AX.tsv", task="glue/ax", rows=1104, answers=THREE, fill="entailment"),
)
"""In the order of the tasks."""
