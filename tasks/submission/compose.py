"""From stored predictions to the bytes of a submission's file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from benchharness.tasks.answers import AnswerType
from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.submission.answer_file import AnswerFile, Faults, Labels, Text
from benchharness.tasks.submission.json_lines import Option, write_json_lines, write_multirc
from benchharness.tasks.submission.table import Numbered, in_order, write_table

WRITERS: Mapping[str, Callable[[Sequence[Any]], bytes]] = {
    "tsv": write_table,
    "jsonl": write_json_lines,
    "multirc": write_multirc,
}


def compose(
    file: AnswerFile,
    kind: AnswerType,
    predictions: Iterable[Prediction],
    examples: Iterable[Example] = (),
) -> bytes:
    """The file that the server wants, with the predictions in the order of their indices.

    `examples` are needed where `needs_examples` says so. Raises BenchError where the predictions
    are not those of the official test set: too few, too many or not of its rows.
    """
    known = {example.id: example for example in examples}
    faults = Faults(file.name)
    found = [_row(file, kind, each, known.get(each.id)) for each in predictions]
    rows = sorted(found, key=attrgetter("place"))
    answers = in_order([Numbered(0, *row) for row in rows], range(file.rows), faults)
    if answers is None or faults.all():
        reasons = "; ".join(fault.sentence for fault in faults.all())
        raise BenchError(
            f"these predictions of {file.task} {file.split} are not those of the official test "
            f"set: {reasons}. Predict it whole with `bench run --test`, without --limit, from the "
            "hub or the official files."
        )
    return write_answers(file, answers)


def write_answers(file: AnswerFile, answers: Sequence[object]) -> bytes:
    """The file's bytes for answers that are in order and as the server wants them."""
    return WRITERS[file.format](answers)


def needs_examples(file: AnswerFile, *, fill: bool = False) -> bool:
    """Whether the file holds what predictions do not: option texts; to `fill` MultiRC, its ids."""
    return isinstance(file.answers, Text) or (fill and file.format == "multirc")


def filled(
    file: AnswerFile, kind: AnswerType, examples: Sequence[Example] = ()
) -> list[Prediction]:
    """The same answer to every row, for a task that was not run."""
    rows = examples or [Example(id=str(index)) for index in range(file.rows)]
    names = list(file.answers.written) if isinstance(file.answers, Labels) else [str(file.fill)]
    return [kind.from_name(row, str(file.fill), names) for row in rows]


class _Row(NamedTuple):
    """A prediction's index in the file and what is written for it."""

    place: int
    answer: object


def _row(file: AnswerFile, kind: AnswerType, prediction: Prediction, example: Any) -> _Row:
    if isinstance(file.answers, Text):
        return _Row(int(prediction.id), kind.spoken(prediction, example))
    # An answer in words that is no label takes the label of a task that was not run.
    is_label = not kind.is_invalid(prediction)
    answer = file.answers.write(kind.written(prediction) or "" if is_label else file.fill)
    if file.format == "multirc":
        paragraph, question, place = (int(number) for number in prediction.id.split("-"))
        return _Row(place, Option(paragraph, question, int(answer)))
    return _Row(int(prediction.id), answer)
