"""Predict new rows with a trained model, in the same way as a run predicts its splits."""

from collections.abc import Iterable, Iterator, Sequence
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
    """Predictions for examples, in order, and the number of examples that were truncated.

    `counts` are token counts as in Features.
    """

    predictions: tuple[Prediction, ...]
    cut: int
    counts: tuple[int, ...]


def predict(
    model: TrainedModel, examples: Sequence[Example], report: Reporter = lambda _: None
) -> Answers:
    """Predict examples of a model's task, ignoring their labels.

    Rows are encoded as in the run, sorted by length, and packed if the model family allows it.
    Raises DataError for a row that cannot be encoded, DivergedError if logits are not finite, and
    JobError if memory does not suffice for one row.
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
    """Predictions for a table, which is one of several parts of a file; `lines` has a dict per row.

    `cut` is the number of truncated examples, `counts` are token counts as in Features, and `notes`
    describe guesses about the format of the rows.
    """

    lines: list[dict[str, Any]]
    cut: int
    counts: tuple[int, ...]
    notes: tuple[str, ...]


def predict_parts(
    model: TrainedModel, parts: Iterable[Table], columns: str = "", *, scores: bool = False
) -> Iterator[Part]:
    """Yield predictions for the rows of several tables, one Part per table.

    `columns` has the format of `--columns`, and `scores` is as in `answer`. Raises BenchError for a
    ranking task, and the errors of `reader_of` and `predict`.
    """
    if model.task.kind == "ranking":
        title = model.task.title
        raise BenchError(f"{title} ranks documents for queries: single rows cannot be predicted.")
    read = reader_of(model.task, columns)
    for table in parts:
        if not table.ids:
            yield Part([], 0, (), table.notes)
            continue
        examples = read(table)
        found = predict(model, examples)
        pairs = zip(found.predictions, examples, strict=True)
        lines = [answer(*pair, model.task, scores=scores) for pair in pairs]
        yield Part(lines, found.cut, found.counts, table.notes)


def answer(prediction: Prediction, example: Example, task: Task, *, scores: bool) -> dict[str, Any]:
    """Return a prediction as readable plain data, with the example's id.

    If `scores` is True, the data also contain the probability of each label of the task.
    """
    found = {"id": example.id, **answer_type(task).facts(prediction, example)}
    if scores and isinstance(prediction, PairPrediction) and prediction.scores:
        labels = getattr(task, "labels", ())
        found["scores"] = dict(zip(labels, prediction.scores, strict=True))
    return found
