"""Output of an official script for predictions, by the metrics that it names."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchharness.tasks.metrics.squad import EVALUATE_V1, EVALUATE_V2, swept_in_order
from benchharness.tasks.task import Script


def printed(
    script: Script, predictions: Sequence[Any], examples: Sequence[Any], own: Mapping[Any, Any] = {}
) -> Mapping[str, float]:
    """Return the output of a script; `own` are scores that only a file can determine."""
    metrics = {*script.lines.values(), *script.counts.values()}
    found = {metric: metric.compute(predictions, examples) for metric in metrics}
    return script.prints({**found, **own})


def official_v1(predictions: Sequence[Any], examples: Sequence[Any]) -> Mapping[str, float]:
    return printed(EVALUATE_V1, predictions, examples)


def official_v2(
    predictions: Sequence[Any], examples: Sequence[Any], sweep_order: Sequence[str] | None = None
) -> Mapping[str, float]:
    own = swept_in_order(predictions, examples, sweep_order)
    return printed(EVALUATE_V2, predictions, examples, own)
