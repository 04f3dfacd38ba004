"""Predictions of a trained model, by the road of a run's splits."""

from collections.abc import Sequence
from typing import NamedTuple

from benchharness.progress import Reporter
from benchharness.tasks.examples import Example, Prediction
from benchharness.trained.load import TrainedModel
from benchharness.training.predict import predict as logits_of


class Answers(NamedTuple):
    """A prediction for each example in their order, and how many examples have lost words."""

    predictions: tuple[Prediction, ...]
    cut: int


def predict(
    model: TrainedModel, examples: Sequence[Example], report: Reporter = lambda _: None
) -> Answers:
    """What a model answers to examples of its task, whose labels are not looked at.

    Rows are encoded as the run's own were, and computed sorted by length and packed where the
    family allows that. Raises DataError for a row that cannot be encoded, DivergedError where
    logits are not finite, and JobError where memory does not suffice for one row.
    """
    if not examples:
        return Answers((), 0)
    features = model.head.encode(examples, model.tokenizer, model.limits)
    logits = logits_of(model.network, features, model.compute, report)
    cut = 0 if features.truncated is None else int(features.truncated.sum())
    return Answers(model.head.decode(logits, features, examples, model.task), cut)
