"""Metrics of chosen options: accuracy, of all and of one slice, and ReCoRD's EM and F1."""

from collections.abc import Callable

from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction
from benchharness.tasks.metrics.squad import exact_match, token_f1
from benchharness.tasks.task import Metric, mean_metric

ChoiceMetric = Metric[ChoicePrediction, ChoiceExample]


def _gold(example: ChoiceExample) -> tuple[int, ...]:
    if example.gold is None:
        raise BenchError(f"example {example.id} hides its right option, so it cannot be scored.")
    return example.gold


def _is_right(prediction: ChoicePrediction, example: ChoiceExample) -> float:
    return float(prediction.option in _gold(example))


choice_accuracy: ChoiceMetric = mean_metric("accuracy", _is_right)
"""The share of examples whose chosen option is a right one, in 0..1; RACE's is over all pooled."""


def of_group(metric: ChoiceMetric, group: str) -> ChoiceMetric:
    """The metric over the examples of one group alone, e.g. RACE's "accuracy_middle"."""
    return metric.of(group, lambda example: example.group == group)


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

    return mean_metric(name, points)


option_exact_match = _text_metric("em", exact_match)
"""ReCoRD's EM: the answer's text equals a right one after SQuAD's normalisation."""

option_f1 = _text_metric("f1", token_f1)
"""ReCoRD's F1: the words that the answer shares with the most alike right one, in 0..1."""
