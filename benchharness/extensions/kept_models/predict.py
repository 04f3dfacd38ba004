"""Predictions of a trained model, by the road of a run's splits."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from benchharness.extensions.kept_models.load import TrainedModel
from benchharness.extensions.kept_models.rows import reader_of
from benchharness.heads.tokens import counting
from benchharness.progress import Reporter
from benchharness.tasks.answers import answer_type
from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import Example, PairPrediction, Prediction
from benchharness.tasks.own.columns import Table
from benchharness.tasks.task import Task
from benchharness.training.predict import predict as logits_of


class Answers(NamedTuple):
    """A prediction for each example in their order, and how many examples have lost words.

    `counts` are as in Features.
    """

    predictions: tuple[Prediction, ...]
    cut: int
    counts: tuple[int, ...]


def predict(
    model: TrainedModel, examples: Sequence[Example], report: Reporter = lambda _: None
) -> Answers:
    """What a model answers to examples of its task, whose labels are not looked at.

    Rows are encoded as the run's own were, and computed sorted by length and packed where the
    family allows that. Raises DataError for a row that cannot be encoded, DivergedError where
    logits are not finite, and JobError where memory does not suffice for one row.
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
    """What is answered to a part of some rows: a line each in their order.

    `cut` is how many of them have lost words, `counts` are as in Features, and `notes` what was
    guessed about how they are written.
    """

    lines: list[dict[str, Any]]
    cut: int
    counts: tuple[int, ...]
    notes: tuple[str, ...]


def predict_parts(
    model: TrainedModel, parts: Iterable[Table], columns: str = "", *, scores: bool = False
) -> Iterator[Part]:
    """What a model answers to rows of tables, a part at a time.

    `columns` are as in --columns, `scores` as for `answer`. Raises as `reader_of` and `predict`.
    """
    if model.task.kind == "ranking":
        title = model.task.title
        raise BenchError(f"{title} ranks documents for a query, which no single row asks for.")
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
    """A prediction as people read it: plain data, beside the example's id.

    With `scores` each of the task's labels has its probability too.
    """
    found = {"id": example.id, **answer_type(task).facts(prediction, example)}
    if scores and isinstance(prediction, PairPrediction) and prediction.scores:
        labels = getattr(task, "labels", ())
        found["scores"] = dict(zip(labels, prediction.scores, strict=True))
    return found
