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


def answer(prediction: Prediction, example: Example, task: Any, *, scores: bool) -> dict[str, Any]:
    """A prediction as people read it: plain data, beside the example's id.

    A class has its probability as `score`, with `scores` that of each; a text that was found has
    its characters [start, end) of the context, none where "no answer" is preferred.
    """
    found: dict[str, Any] = {"id": example.id}
    match prediction, example:
        case PairPrediction(), _:
            found["label"] = with_lists(prediction.label)
            if prediction.text is not None:
                found["text"] = prediction.text
            if isinstance(prediction.label, str) and prediction.scores:
                found["score"] = max(prediction.scores)
            if scores and prediction.scores:
                found["scores"] = dict(zip(task.labels, prediction.scores, strict=True))
        case SpanPrediction(), _:
            is_there = not prediction.abstains and prediction.start >= 0 and prediction.text
            end = prediction.start + len(prediction.text)
            found["text"] = "" if prediction.abstains else prediction.text
            found |= {"start": prediction.start, "end": end} if is_there else _NOWHERE
            found["no_answer_score"] = prediction.no_answer_score
            for name in ("classes", "facts"):
                if value := getattr(prediction, name):
                    found[name] = list(value)
        case ChoicePrediction(), ChoiceExample():
            is_one = prediction.option >= 0
            text = example.options[prediction.option] if is_one else prediction.text
            found |= {"option": prediction.option, "text": text}
            if prediction.scores:
                found["score"] = max(prediction.scores)
                found["scores"] = list(prediction.scores)
        case TagPrediction(), TagExample():
            found |= {"words": list(example.words), "tags": list(prediction.tags)}
        case ClusterPrediction(), _:
            found["clusters"] = with_lists(prediction.clusters)
    return found


_NOWHERE: Mapping[str, Any] = {"start": None, "end": None}
