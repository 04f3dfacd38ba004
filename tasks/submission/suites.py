"""SuperGLUE's submission: ten files of JSON lines in one zip.

File names and labels are those of nyu-mll/jiant-v1-legacy (jiant/evaluate.py); the numbers of rows
are those of the official test files, ReCoRD's that of Zhang et al. (2018).
"""

from tasks.submission.answer_file import AnswerFile
from tasks.submission.answers import Labels, Text

__all__ = ["SUPERGLUE_FILES"]

NUMBERED = {"0": "false", "1": "true"}
"""In questions of yes and no every source numbers no 0 and yes 1."""

YES_NO = Labels(written={"False": "false", "True": "true"}, synonyms=NUMBERED)
CAPITAL_YES_NO = Labels(
    written={"False": "False", "True": "True"}, synonyms={"0": "False", "1": "True"}
)
TWO = Labels(written={"entailment": "entailment", "not_entailment": "not_entailment"})
THREE = Labels(
    written={name: name for name in ("entailment", "contradiction", "neutral")},
)

SUPERGLUE_FILES = (
    AnswerFile(
        name="BoolQ.jsonl",
        task="superglue/boolq",
        rows=3245,
        answers=YES_NO,
        fill="True",
        format="jsonl",
    ),
    AnswerFile(
        name="CB.jsonl",
        task="superglue/cb",
        rows=250,
        answers=THREE,
        fill="entailment",
        format="jsonl",
    ),
    AnswerFile(
        name="COPA.jsonl",
        task="superglue/copa",
        rows=500,
        answers=Labels(written={"0": 0, "1": 1}, synonyms={"choice1": "0", "choice2": "1"}),
        fill="0",
        format="jsonl",
    ),
    AnswerFile(
        name="MultiRC.jsonl",
        task="superglue/multirc",
        rows=9693,
        answers=Labels(written={"False": 0, "True": 1}),
        fill="False",
        format="multirc",
        paragraphs=166,
        questions=1820,
    ),
    AnswerFile(
        name="ReCoRD.jsonl",
        task="superglue/record",
        rows=10_000,
        answers=Text(),
        fill="0",
        format="jsonl",
    ),
    AnswerFile(
        name="RTE.jsonl",
        task="superglue/rte",
        rows=3000,
        answers=TWO,
        fill="entailment",
        format="jsonl",
    ),
    AnswerFile(
        name="WiC.jsonl",
        task="superglue/wic",
        rows=1400,
        answers=YES_NO,
        fill="False",
        format="jsonl",
    ),
    AnswerFile(
        name="WSC.jsonl",
        task="superglue/wsc",
        rows=146,
        answers=CAPITAL_YES_NO,
        fill="False",
        format="jsonl",
    ),
    AnswerFile(
        name="AX-b.jsonl",
        task="superglue/axb",
        rows=1104,
        answers=TWO,
        fill="entailment",
        format="jsonl",
    ),
    AnswerFile(
        name="AX-g.jsonl",
        task="superglue/axg",
        rows=356,
        answers=TWO,
        fill="entailment",
        format="jsonl",
    ),
)
"""In the order of the tasks."""
