"""Read and write the files in submission zips for the servers of GLUE and SuperGLUE."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from benchharness.errors import BenchError
from benchharness.extensions.submission.answer_file import (
    AnswerFile,
    Answers,
    Faults,
    Labels,
    Number,
    Reading,
    Text,
)
from benchharness.extensions.submission.json_lines import (
    Option,
    read_json_lines,
    read_multirc,
    write_json_lines,
    write_multirc,
)
from benchharness.extensions.submission.table import (
    Numbered,
    in_order,
    read_single,
    read_table,
    write_lines,
    write_table,
)
from benchharness.tasks.answers.base import AnswerType
from benchharness.tasks.examples import Example, Prediction

# GLUE's submission is a zip without folders that contains eleven tables.
#
# File names, labels and numbers of rows are as in nyu-mll/jiant-v1-legacy (jiant/evaluate.py) and
# flair (flair/datasets/text_text.py). The answers that fill tasks which were not run are as in
# FLAML.


def _same(*names: str) -> Labels:
    """Create labels that are written to files as their names."""
    return Labels(written={name: name for name in names})


def _numbered(*names: str) -> Labels:
    """Create labels that are written to files as their indices in `names`."""
    return Labels(written={name: str(number) for number, name in enumerate(names)})


THREE = _same("entailment", "neutral", "contradiction")
TWO = _same("entailment", "not_entailment")


def _file(name: str, task: str, rows: int, answers: Answers, fill: str, **rest: Any) -> AnswerFile:
    return AnswerFile(name=name, task=task, rows=rows, answers=answers, fill=fill, **rest)


def _table(name: str, task: str, *facts: Any, split: str = "test") -> AnswerFile:
    """Create the description of one of GLUE's files."""
    return _file(f"{name}.tsv", f"glue/{task}", *facts, split=split)


GLUE_FILES = (
    _table("CoLA", "cola", 1063, _numbered("unacceptable", "acceptable"), "unacceptable"),
    _table("SST-2", "sst2", 1821, _numbered("negative", "positive"), "negative"),
    _table("MRPC", "mrpc", 1725, _numbered("not_equivalent", "equivalent"), "not_equivalent"),
    _table("STS-B", "stsb", 1379, Number(low=0.0, high=5.0), 0.0),
    _table("QQP", "qqp", 390_965, _numbered("not_duplicate", "duplicate"), "not_duplicate"),
    _table("MNLI-m", "mnli", 9796, THREE, "neutral"),
    _table("MNLI-mm", "mnli", 9847, THREE, "neutral", split="test_mm"),
    _table("QNLI", "qnli", 5463, TWO, "not_entailment"),
    _table("RTE", "rte", 3000, TWO, "not_entailment"),
    _table("WNLI", "wnli", 146, _numbered("not_entailment", "entailment"), "not_entailment"),
    _table("AX", "ax", 1104, THREE, "entailment"),
)
"""Files of GLUE's submission, in the order of the tasks."""


# SuperGLUE's submission is a zip that contains ten files with JSON lines.
#
# File names and labels are as in nyu-mll/jiant-v1-legacy (jiant/evaluate.py). The numbers of rows
# are from the official test files; for ReCoRD, the number is from Zhang et al. (2018).

# For yes/no questions, all sources encode no as 0 and yes as 1.
YES_NO = Labels(written={"False": "false", "True": "true"}, synonyms={"0": "false", "1": "true"})
CAPITAL_YES_NO = Labels(
    written={"False": "False", "True": "True"}, synonyms={"0": "False", "1": "True"}
)


CHOICES = Labels(written={"0": 0, "1": 1}, synonyms={"choice1": "0", "choice2": "1"})


def _json_lines(name: str, task: str, *facts: Any, **rest: Any) -> AnswerFile:
    """Create the description of one of SuperGLUE's files."""
    return _file(f"{name}.jsonl", f"superglue/{task}", *facts, **{"format": "jsonl", **rest})


SUPERGLUE_FILES = (
    _json_lines("BoolQ", "boolq", 3245, YES_NO, "True"),
    _json_lines("CB", "cb", 250, _same("entailment", "contradiction", "neutral"), "entailment"),
    _json_lines("COPA", "copa", 500, CHOICES, "0"),
    _json_lines(
        *("MultiRC", "multirc", 9693, Labels(written={"False": 0, "True": 1}), "False"),
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
"""Files of SuperGLUE's submission, in the order of the tasks."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Description of the zip file that a benchmark's server accepts.

    Attributes:
        suite: Name of the benchmark.
        files: Files that the zip must contain.
        aliases: Official file names, keyed by other names that people use. All names are normalized
            by `bare_stem`.
        flat: True if the files must not be in a folder.
    """

    suite: str
    files: tuple[AnswerFile, ...]
    aliases: Mapping[str, str]
    flat: bool

    def file_for(self, name: str) -> AnswerFile | None:
        """Return the official file that most likely matches a file name; None if there is none."""
        stems = {bare_stem(file.name): file for file in self.files}
        stem = bare_stem(name)
        return stems.get(self.aliases.get(stem, stem))


def bare_stem(name: str) -> str:
    """Return a file name in lower case, without extension and separators.

    For example, "MNLI-mm.tsv" is normalized to "mnlimm". The prefix "predict_results", which some
    scripts write, is removed too.
    """
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
"""Descriptions of submission zips, keyed by suite."""


# Convert stored predictions to the bytes of a file.


def compose(
    file: AnswerFile,
    kind: AnswerType,
    predictions: Iterable[Prediction],
    examples: Iterable[Example] = (),
) -> bytes:
    """Return the bytes of a submission's file, with the answers in the order of the rows' indices.

    Args:
        file: Description of the file.
        kind: Type of the task's answers.
        predictions: Predictions for all rows of the test set.
        examples: Rows of the test set; needed only if `needs_examples(file)`.

    Raises:
        BenchError: The predictions do not match the rows of the official test set.
    """
    known = {example.id: example for example in examples}
    faults = Faults(file.name)
    rows = [_row(file, kind, each, known.get(each.id)) for each in predictions]
    answers = in_order(sorted(rows, key=attrgetter("place")), range(file.rows), faults)
    if answers is None or faults.all():
        reasons = "; ".join(fault.sentence for fault in faults.all())
        raise BenchError(
            f"the predictions for {file.task} {file.split} do not match the official test set: "
            f"{reasons}. Predict the whole test set with `bench run --test`, without --limit, on "
            "data from the hub or the official files."
        )
    return write_answers(file, answers)


FORMATS: Mapping[str, tuple[Callable[..., Reading], Callable[[Sequence[Any]], bytes]]] = {
    "tsv": (read_table, write_table),
    "lines": (read_single, write_lines),
    "jsonl": (read_json_lines, write_json_lines),
    "multirc": (read_multirc, write_multirc),
}
"""Pairs of functions that read and write the content of a file, keyed by `AnswerFile.format`."""


def read_answer_file(file: AnswerFile, content: bytes, ids: Sequence[int] | None = None) -> Reading:
    """Read the answers in a file, and report all problems in it.

    Args:
        file: Description of the file.
        content: Bytes of the file.
        ids: Expected indices of the rows; by default 0 to `file.rows - 1`.
    """
    return FORMATS[file.format][0](file, content, range(file.rows) if ids is None else ids)


def write_answers(file: AnswerFile, answers: Sequence[object]) -> bytes:
    """Return the bytes of a file with answers.

    Args:
        file: Description of the file.
        answers: Answers in the form that the server expects, in the order of the rows.
    """
    return FORMATS[file.format][1](answers)


def needs_examples(file: AnswerFile, *, fill: bool = False) -> bool:
    """Return whether the examples of the test set are needed to write a file.

    They are needed if the answers are texts of options. A file of MultiRC with constant answers
    needs them too, because it contains ids that are only in the examples.

    Args:
        file: Description of the file.
        fill: True if the file gets constant answers, because the task was not run.
    """
    return isinstance(file.answers, Text) or (fill and file.format == "multirc")


def filled(
    file: AnswerFile, kind: AnswerType, examples: Sequence[Example] = ()
) -> list[Prediction]:
    """Return predictions for a task that was not run; every row gets the same answer.

    Args:
        file: Description of the file, which contains the answer.
        kind: Type of the task's answers.
        examples: Rows of the test set; needed only if `needs_examples(file, fill=True)`.
    """
    rows = examples or [Example(id=str(index)) for index in range(file.rows)]
    names = list(file.answers.written) if isinstance(file.answers, Labels) else [str(file.fill)]
    return [kind.from_name(row, str(file.fill), names) for row in rows]


def _row(file: AnswerFile, kind: AnswerType, prediction: Prediction, example: Any) -> Numbered:
    """Return a prediction in the server's form, with the index of its row."""
    if isinstance(file.answers, Text):
        return Numbered(0, int(prediction.id), kind.spoken(prediction, example))
    # If a predicted text is not a label, the constant answer of tasks without a run is written.
    is_label = not kind.is_invalid(prediction)
    answer = file.answers.write(kind.written(prediction) or "" if is_label else file.fill)
    if file.format == "multirc":
        paragraph, question, place = (int(number) for number in prediction.id.split("-"))
        return Numbered(0, place, Option(paragraph, question, int(answer)))
    return Numbered(0, int(prediction.id), answer)
