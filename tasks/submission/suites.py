"""The zips that servers take, by suite."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from benchharness.tasks.submission.answer_file import AnswerFile, Labels, Number, Text

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


def _table(name: str, task: str, rows: int, answers: Labels, fill: str) -> AnswerFile:
    """One of GLUE's files."""
    return AnswerFile(
        name=f"{name}.tsv", task=f"glue/{task}", rows=rows, answers=answers, fill=fill
    )


GLUE_FILES = (
    _table("CoLA", "cola", 1063, _numbered("unacceptable", "acceptable"), "unacceptable"),
    _table("SST-2", "sst2", 1821, _numbered("negative", "positive"), "negative"),
    _table("MRPC", "mrpc", 1725, _numbered("not_equivalent", "equivalent"), "not_equivalent"),
    AnswerFile(
        name="STS-B.tsv", task="glue/stsb", rows=1379, answers=Number(low=0.0, high=5.0), fill=0.0
    ),
    _table("QQP", "qqp", 390_965, _numbered("not_duplicate", "duplicate"), "not_duplicate"),
    _table("MNLI-m", "mnli", 9796, THREE, "neutral"),
    replace(_table("MNLI-mm", "mnli", 9847, THREE, "neutral"), split="test_mm"),
    _table("QNLI", "qnli", 5463, TWO, "not_entailment"),
    _table("RTE", "rte", 3000, TWO, "not_entailment"),
    _table("WNLI", "wnli", 146, _numbered("not_entailment", "entailment"), "not_entailment"),
    _table("AX", "ax", 1104, THREE, "entailment"),
)
"""In the order of the tasks."""


# SuperGLUE's submission: ten files of JSON lines in one zip.
#
# File names and labels are those of nyu-mll/jiant-v1-legacy (jiant/evaluate.py); the numbers of
# rows are those of the official test files, ReCoRD's that of Zhang et al. (2018).

# In questions of yes and no every source numbers no 0 and yes 1.
YES_NO = Labels(written={"False": "false", "True": "true"}, synonyms={"0": "false", "1": "true"})
CAPITAL_YES_NO = Labels(
    written={"False": "False", "True": "True"}, synonyms={"0": "False", "1": "True"}
)


def _json_lines(name: str, task: str, rows: int, answers: Labels | Text, fill: str) -> AnswerFile:
    """One of SuperGLUE's files."""
    return AnswerFile(
        name=f"{name}.jsonl",
        task=f"superglue/{task}",
        rows=rows,
        answers=answers,
        fill=fill,
        format="jsonl",
    )


SUPERGLUE_FILES = (
    _json_lines("BoolQ", "boolq", 3245, YES_NO, "True"),
    _json_lines("CB", "cb", 250, _same("entailment", "contradiction", "neutral"), "entailment"),
    _json_lines(
        "COPA",
        "copa",
        500,
        Labels(written={"0": 0, "1": 1}, synonyms={"choice1": "0", "choice2": "1"}),
        "0",
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
    _json_lines("ReCoRD", "record", 10_000, Text(), "0"),
    _json_lines("RTE", "rte", 3000, TWO, "entailment"),
    _json_lines("WiC", "wic", 1400, YES_NO, "False"),
    _json_lines("WSC", "wsc", 146, CAPITAL_YES_NO, "False"),
    _json_lines("AX-b", "axb", 1104, TWO, "entailment"),
    _json_lines("AX-g", "axg", 356, TWO, "entailment"),
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
