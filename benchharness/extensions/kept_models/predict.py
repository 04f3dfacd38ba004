"""Predict new rows with a trained model, in the same way as a run predicts its splits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchharness.errors import BenchError
from benchharness.extensions.custom_data.columns import Table
from benchharness.extensions.kept_models.load import TrainedModel
from benchharness.extensions.kept_models.rows import reader_of
from benchharness.heads.tokens import counting
from benchharness.progress import Reporter
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Example, PairPrediction, Prediction
from benchharness.tasks.task import Task
from benchharness.training.predict import predict as logits_of


class Answers(NamedTuple):
    """Predictions for examples.

    Attributes:
        predictions: One prediction per example, in the order of the examples.
        cut: Number of examples that were truncated.
        counts: Numbers of tokens, of unknown tokens, of words without any token, and of words. The
            last two are 0 if every character has a token.
    """

    predictions: tuple[Prediction, ...]
    cut: int
    counts: tuple[int, ...]


def predict(
    model: TrainedModel, examples: Sequence[Example], report: Reporter = lambda _: None
) -> Answers:
    """Predict examples of a model's task; their labels are ignored.

    Examples are encoded as in the run, and computed in batches of similar length. If the model
    family allows it, batches are packed (without padding).

    Args:
        model: The trained model.
        examples: Examples to predict.
        report: Function that is called with the progress.

    Raises:
        DataError: An example cannot be encoded.
        DivergedError: Logits are not finite.
        JobError: Memory is too small for a single example.
    """
    if not examples:
        return Answers((), 0, (0, 0, 0, 0))
    with counting(model.tokenizer) as count:
        features = model.head.encode(examples, model.tokenizer, model.limits)
    logits = logits_of(model.network, features, model.compute, report)
    cut = 0 if features.truncated is None else int(features.truncated.sum())
    predictions = model.head.decode(logits, features, examples, model.task)
    return Answers(predictions, cut, tuple(count.numbers().tolist()))


class Part(NamedTuple):
    """Predictions for one part of a file. Large files are read and predicted in parts.

    Attributes:
        lines: One prediction per example, as JSON data.
        cut: Number of examples that were truncated.
        counts: Token counts, as in `Answers`; empty if the part has no rows.
        notes: Sentences about guesses that were made about the format of the rows.
        kept: Names of the columns of the file that the lines have too.
        reviews: Number of rows that are left to a person.
    """

    lines: list[dict[str, Any]]
    cut: int
    counts: tuple[int, ...]
    notes: tuple[str, ...]
    kept: tuple[str, ...] = ()
    reviews: int = 0


class Wanted(NamedTuple):
    """Fields that the lines of predictions have besides the prediction.

    Attributes:
        scores: True to add the probability of each label.
        min_confidence: Confidence below which a row is left to a person: lines then have the
            fields "confidence" and "review". None for lines without these fields.
        keep_columns: True to add the columns of the tables.
    """

    scores: bool = False
    min_confidence: float | None = None
    keep_columns: bool = False


def predict_parts(
    model: TrainedModel, parts: Iterable[Table], columns: str, wanted: Wanted
) -> Iterator[Part]:
    """Yield predictions for the rows of several tables, one `Part` per table.

    Args:
        model: The trained model.
        parts: Tables of rows.
        columns: Columns to read, in the format of `--columns`; empty to find them by their names.
        wanted: Fields of the lines.

    Raises:
        BenchError: The task is a retrieval task, `columns` does not fit the task, columns cannot be
            kept (see `with_columns`), or `min_confidence` is out of range or the model gives no
            probabilities.
        DataError: A table lacks columns, or a row is invalid.
    """
    if model.task.kind == "ranking":
        title = model.task.title
        raise BenchError(f"{title} ranks documents for queries: single rows cannot be predicted.")
    least = wanted.min_confidence
    if least is not None and not 0 <= least <= 1:
        raise BenchError(f"--min-confidence must be from 0 to 1, but got {least:g}.")
    read = reader_of(model.task, columns)
    for table in parts:
        if not table.ids:
            yield Part([], 0, (), table.notes)
            continue
        examples = read(table)
        found = predict(model, examples)
        pairs = zip(found.predictions, examples, strict=True)
        lines = [answer(*pair, model.task, scores=wanted.scores) for pair in pairs]
        reviews = 0
        if least is not None:
            decisions = [_decision(p, model.task, least) for p in found.predictions]
            lines = [line | each for line, each in zip(lines, decisions, strict=True)]
            reviews = sum(each["review"] for each in decisions)
        lines = with_columns(lines, table) if wanted.keep_columns else lines
        kept = tuple((table.as_read or table).columns) if wanted.keep_columns else ()
        yield Part(lines, found.cut, found.counts, table.notes, kept, reviews)


def _decision(prediction: Prediction, task: Task, least: float) -> dict[str, Any]:
    """Return the confidence of a prediction, and whether the row is left to a person.

    Raises BenchError if the model gives no probability of its answer.
    """
    confidence = answer_type(task).confidence(prediction)
    if confidence is None:
        raise BenchError(
            f"the model gives no probability of its answers to {task.title}: --min-confidence "
            "needs a model for classes, labels, options, or questions that may have no answer."
        )
    return {"confidence": confidence, "review": confidence < least}


def answer(prediction: Prediction, example: Example, task: Task, *, scores: bool) -> dict[str, Any]:
    """Return a prediction as readable JSON data, with the id of its example.

    Args:
        prediction: Prediction to convert.
        example: Example that was predicted.
        task: Task of the example.
        scores: True to add the probability of each label, if the prediction has probabilities.
    """
    found = {"id": example.id, **answer_type(task).facts(prediction, example)}
    if scores and isinstance(prediction, PairPrediction) and prediction.scores:
        labels = getattr(task, "labels", ())
        found["scores"] = dict(zip(labels, prediction.scores, strict=True))
    return found


def with_columns(lines: Sequence[Mapping[str, Any]], table: Table) -> list[dict[str, Any]]:
    """Return predictions together with the columns of the rows that were predicted.

    The columns of the row come first, with the names and the values that they have in the file.
    They are followed by the parts of the prediction, whose names begin with "predicted_", as in
    "predicted_label". The id is left out.

    Args:
        lines: One prediction per row, as `answer` returns it.
        table: The rows, with `Table.as_read` if their cells were parsed.

    Raises:
        BenchError: Several rows were predicted as one example, or a column of the file has the name
            of a part of the prediction.
    """
    rows = table.as_read or table
    if len(lines) != len(rows.ids):
        raise BenchError(
            f"--keep-columns needs a prediction per row, but {table.name} has {len(rows.ids)} rows "
            f"for {len(lines)} predictions: leave it out."
        )
    found = []
    for number, line in enumerate(lines):
        own = {f"predicted_{name}": value for name, value in line.items() if name != "id"}
        if twice := own.keys() & rows.columns.keys():
            raise BenchError(
                f"{table.name} has a column {min(twice)!r}, which is the name of a part of the "
                "prediction: rename it, or leave --keep-columns out."
            )
        found.append({name: values[number] for name, values in rows.columns.items()} | own)
    return found
