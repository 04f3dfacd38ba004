"""Metrics of chosen options: accuracy, of all and of one slice, and ReCoRD's EM and F1."""

from collections.abc import Callable, Sequence
from statistics import fmean

from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction
from benchharness.tasks.metrics.squad import exact_match, token_f1
from benchharness.tasks.task import Metric

ChoiceMetric = Metric[ChoicePrediction, ChoiceExample]


def _gold(example: ChoiceExample) -> tuple[int, ...]:
    if example.gold is None:
        raise BenchError(f"example {example.id} hides its right option, so it cannot be scored.")
    return example.gold


def _accuracy(predictions: Sequence[ChoicePrediction], examples: Sequence[ChoiceExample]) -> float:
    return fmean(p.option in _gold(e) for p, e in zip(predictions, examples, strict=True))


choice_accuracy: ChoiceMetric = Metric(name="accuracy", compute=_accuracy)
"""The share of examples whose chosen option is a right one, in 0..1; RACE's is over all pooled."""


def of_group(metric: ChoiceMetric, group: str) -> ChoiceMetric:
    """The metric over the examples of one group alone, e.g. RACE's "accuracy_middle".

    None where no example is of the group.
    """

    def compute(
        predictions: Sequence[ChoicePrediction], examples: Sequence[ChoiceExample]
    ) -> float | None:
        pairs = zip(predictions, examples, strict=True)
        chosen = [(p, e) for p, e in pairs if e.group == group]
        if not chosen:
            return None
        return metric.compute([p for p, _ in chosen], [e for _, e in chosen])

    return Metric(name=f"{metric.name}_{group}", compute=compute)


def _text_metric(name: str, measure: Callable[[str, str], float]) -> ChoiceMetric:
    """The mean of the answer's text against the most alike text of a right option.

    The text is that of the chosen option, or the file's own words; a missing answer counts 0.
    """

    def points(prediction: ChoicePrediction, example: ChoiceExample) -> float:
        golds, text = _gold(example), prediction.text
        if prediction.option >= 0:
            text = example.options[prediction.option]
        if text is None:
            return 0.0
        return max((measure(text, example.options[place]) for place in golds), default=0.0)

    def compute(
        predictions: Sequence[ChoicePrediction], examples: Sequence[ChoiceExample]
    ) -> float:
        return fmean(points(p, e) for p, e in zip(predictions, examples, strict=True))

    return Metric(name=name, compute=compute)


option_exact_match = _text_metric("em", exact_match)
"""ReCoRD's EM: the answer's text equals a right one after SQuAD's normalisation."""

option_f1 = _text_metric("f1", token_f1)
"""ReCoRD's F1: the words that the answer shares with the most alike right one, in 0..1."""
