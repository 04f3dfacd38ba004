"""Efficiency tasks: documents on which encoders are timed.

The documents are random tokens with the lengths in ModernBERT's table (AnswerDotAI/ModernBERT
8c57a0f, efficiency/multiprocess_bench.py), or the texts of another task.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np

from benchharness.extensions.efficiency.task import TimedExample, TimedPrediction, TimedTask
from benchharness.tasks.examples import PairExample
from benchharness.tasks.glue import GLUE_TASKS
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.sources.source import Row, Source, Split, number, text
from benchharness.tasks.suite import ScoreRule, suite_of
from benchharness.tasks.task import Metric

DOCUMENTS = 8192
"""Number of documents that are generated for each task with random tokens. By default fewer are
timed (see `TimedTask.usual_limit`). `--limit` sets how many are timed."""

MINI = 8
"""Number of documents in the mini data (small data for trying a task out). It is also the number by
which the lengths of these documents are divided."""

_SEED, _SHORTEST = 42, 16

TimedMetric = Metric[TimedPrediction, TimedExample]
Phase = Literal["train", "predict"]


def _documents(mean: int, spread: int, longest: int, _: str, place: Path | None) -> list[Row]:
    """Return documents whose lengths are sampled from a normal distribution and then clipped.

    The script of ModernBERT's paper clips them in the same way.
    """
    scale = MINI if place == mini_folder() else 1
    draw = Random(_SEED)  # noqa: S311  (not used for security)
    drawn = (round(draw.gauss(mean, spread) / scale) for _ in range(DOCUMENTS))
    lengths = [min(max(n, _SHORTEST), longest // scale) for n in drawn]
    kept = lengths[:MINI] if scale > 1 else lengths
    return [{"id": f"document {i}", "tokens": n} for i, n in enumerate(kept, start=1)]


def _document(row: Row) -> TimedExample:
    return TimedExample(id=text(row, "id"), tokens=number(row, "tokens"))


def _own(convert: Callable[[Row], PairExample], row: Row) -> TimedExample:
    found = convert(row)
    return TimedExample(id=found.id, text_a=found.text_a, text_b=found.text_b)


# Efficiency metrics. They use CPU time if it was measured, because wall time also depends on other
# processes.


def _speed(phase: Phase) -> TimedMetric:
    def compute(predictions: Sequence[TimedPrediction], _: object) -> float:
        clock, processor, reference = map(sum, zip(*_times(predictions, phase), strict=True))
        return reference / (processor or clock)

    return _metric(f"{phase}_speed", compute)


def _times(predictions: Sequence[TimedPrediction], phase: Phase) -> list[tuple[float, ...]]:
    return [p.train if phase == "train" else p.predict for p in predictions]


def _rate(phase: Phase, place: int, unit: str) -> TimedMetric:
    def compute(predictions: Sequence[TimedPrediction], _: object) -> float | None:
        seconds = sum(times[place] for times in _times(predictions, phase))
        return sum(p.tokens for p in predictions) / seconds if seconds else None

    return _metric(f"{phase}_tokens_per_{unit}", compute)


def _latency(name: str, share: float) -> TimedMetric:
    def compute(predictions: Sequence[TimedPrediction], _: object) -> float:
        return 1000 * float(np.quantile([p.alone[0] for p in predictions], share))

    return _metric(name, compute)


def _peak(phase: Phase, place: int) -> TimedMetric:
    def compute(predictions: Sequence[TimedPrediction], _: object) -> float:
        return max(p.peaks[place] for p in predictions) / 1e6

    return _metric(f"{phase}_peak_mb", compute)


def _energy(phase: Phase, place: int) -> TimedMetric:
    def compute(predictions: Sequence[TimedPrediction], _: object) -> float | None:
        joules = sum(p.joules[place] for p in predictions)
        return 1000 * joules / len(predictions) or None

    return _metric(f"{phase}_joules_per_1000", compute)


def _largest(predictions: Sequence[TimedPrediction], _: object) -> float | None:
    return float(predictions[0].largest) or None


def _metric(name: str, compute: Any) -> TimedMetric:
    # `is_slow` prevents bootstrap intervals: resampling documents does not show how much repeated
    # measurements vary.
    return Metric(name=name, compute=compute, bounds=(0.0, inf), is_slow=True)


SPEEDS = ("predict_speed", "train_speed")
"""Names of the metrics that count for the score: the encoder's throughput in prediction and in
training, divided by the throughput of the reference model."""

_METRICS = (_speed("predict"), _speed("train"))
_DETAILS = (
    *(_rate("predict", 0, "second"), _rate("train", 0, "second")),
    *(_rate("predict", 1, "cpu_second"), _rate("train", 1, "cpu_second")),
    *(_latency("p50_ms", 0.5), _latency("p95_ms", 0.95)),
    *(_peak("predict", 0), _peak("train", 1)),
    *(_energy("predict", 0), _energy("train", 1)),
    _metric("largest_batch", _largest),
)


def _drawn(name: str, title: str, mean: int, spread: int, longest: int) -> TimedTask:
    return TimedTask(
        name=f"efficiency/{name}",
        title=title,
        source=Source(
            hub="",
            config=name,
            revision="main",
            splits={"dev": Split(hub="", files=())},
            reader=partial(_documents, mean, spread, longest),
        ),
        convert=_document,
        metrics=_METRICS,
        details=_DETAILS,
        longest=longest,
        cite="Warner et al., ModernBERT, 2024, section 4",
    )


_MNLI = next(task for task in GLUE_TASKS if task.name == "glue/mnli")

TASKS = (
    _drawn("fixed-512", "512 tokens", 512, 0, 512),
    _drawn("drawn-256", "N(256, 64) tokens", 256, 64, 512),
    _drawn("fixed-8192", "8192 tokens", 8192, 0, 8192),
    TimedTask(
        name="efficiency/mnli-lengths",
        title="MNLI's lengths",
        source=replace(_MNLI.source, splits={"dev": _MNLI.source.splits["dev"]}),
        convert=partial(_own, _MNLI.convert),
        metrics=_METRICS,
        details=_DETAILS,
        cite=_MNLI.cite,
    ),
)

SUITES = (
    suite_of(
        TASKS,
        "Efficiency",
        ScoreRule(
            name="Efficiency",
            cells=dict.fromkeys(("efficiency/fixed-512", "efficiency/drawn-256"), SPEEDS),
            cite="benchharness: tokens per second in percent of the reference's, the mean of both "
            "lengths",
        ),
    ),
)
