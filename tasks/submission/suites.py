"""The zips that servers take, by suite."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tasks.submission.answer_file import AnswerFile, Labels, Number, Text

# GLUE's submission: eleven tables in one flat zip.
#
# File names, labels and numbers of rows are those of nyu-mll/jiant-v1-legacy (jiant/evaluate.py)
# and flair (flair/datasets/text_text.py); the answers of tasks that were not run are FLAML's.


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


# SuperGLUE's submission: ten files of JSON lines in one zip.
#
# File names and labels are those of nyu-mll/jiant-v1-legacy (jiant/evaluate.py); the numbers of
# rows are those of the official test files, ReCoRD's that of Zhang et al. (2018).

NUMBERED = {"0": "false", "1": "true"}
"""In questions of yes and no every source numbers no 0 and yes 1."""

YES_NO = Labels(written={"False": "false", "True": "true"}, synonyms=NUMBERED)
CAPITAL_YES_NO = Labels(
    written={"False": "False", "True": "True"}, synonyms={"0": "False", "1": "True"}
)
CB_LABELS = Labels(
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
        answers=CB_LABELS,
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


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A zip of answer files. `aliases` are what others call them, as `bare_stem` gives it.

    `flat` says that they must not lie in a folder.
    """

    suite: str
    files: tuple[AnswerFile, ...]
    aliases: Mapping[str, str]
    flat: bool

    def file_for(self, name: str) -> AnswerFile | None:
        """The file that a member of a zip must be, by its name in any case and extension."""
        stems = {bare_stem(file.name): file for file in self.files}
        stem = bare_stem(name)
        return stems.get(self.aliases.get(stem, stem))


def bare_stem(name: str) -> str:
    """A file's name without extension, case and separators: "MNLI-mm.tsv" is "mnlimm"."""
    stem = name.rpartition(".")[0] or name
    letters = "".join(c for c in stem.casefold() if c.isalnum())
    return letters.removeprefix("predictresults")


GLUE = Submission(
    suite="glue",
    files=GLUE_FILES,
    aliases={
        "sst": "sst2",
        "sts": "stsb",
        "mnli": "mnlim",
        "mnlimatched": "mnlim",
        "mnlimismatched": "mnlimm",
        "diagnostic": "ax",
    },
    flat=True,
)

SUPERGLUE = Submission(suite="superglue", files=SUPERGLUE_FILES, aliases={}, flat=False)

SUBMISSIONS: Mapping[str, Submission] = MappingProxyType({s.suite: s for s in (GLUE, SUPERGLUE)})
"""By suite."""
