"""The section of one run: what was run, on what, with which values, and what came out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leaderboard.boards.cell import shown
from leaderboard.collapse import curve_flags
from leaderboard.job import Job
from leaderboard.report.command import command_of
from leaderboard.report.plots.curve import Panel, curve_panels
from leaderboard.report.table import run_anchor
from leaderboard.result import Cost, CurvePoint, Evaluation, Failure, Result

__all__ = ["RunSection", "ScoreLine", "build_run"]


@dataclass(frozen=True, kw_only=True)
class ScoreLine:
    """The scores of one predicted split."""

    split: str
    scores: tuple[tuple[str, str], ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunSection:
    """A finished or failed run, ready to be shown; `error` and `log` are a failed one's."""

    key: str
    anchor: str
    job: Job
    status: str
    finished: str
    summary: str
    error: str
    log: str
    scores: tuple[ScoreLine, ...]
    curve: tuple[CurvePoint, ...]
    panels: tuple[Panel, ...]
    curve_flags: tuple[str, ...]
    cost: tuple[tuple[str, str], ...]
    provenance: Mapping[str, Any]
    command: str


def build_run(run: Result | Failure) -> RunSection:
    """The section of a run."""
    if isinstance(run, Failure):
        return _failed(run)
    return RunSection(
        **_common(run),
        status="finished",
        summary=_summary(run),
        error="",
        log="",
        scores=tuple(_score_line(evaluation) for evaluation in run.evaluations),
        curve=run.curve,
        panels=curve_panels(run.curve),
        curve_flags=curve_flags([point.loss for point in run.curve]),
        cost=tuple(_cost(run.cost)),
        provenance=run.provenance,
    )


def _failed(run: Failure) -> RunSection:
    return RunSection(
        **_common(run),
        status=run.kind,
        summary=run.error,
        error=run.error,
        log=run.details,
        scores=(),
        curve=(),
        panels=(),
        curve_flags=(),
        cost=(),
        provenance={},
    )


def _common(run: Result | Failure) -> dict[str, Any]:
    job = run.job
    return {
        "key": job.key,
        "anchor": run_anchor(job.key),
        "job": job,
        "finished": run.finished,
        "command": command_of(job),
    }


def _summary(run: Result) -> str:
    """The scores of the first split that has any, and the time."""
    scored = next((line for e in run.evaluations if (line := _score_line(e)).scores), None)
    scores = [f"{name} {value}" for name, value in scored.scores] if scored else []
    return ", ".join([*scores, _duration(run.cost.seconds)])


def _score_line(evaluation: Evaluation) -> ScoreLine:
    return ScoreLine(
        split=f"{evaluation.task} {evaluation.split}",
        scores=tuple((name, shown(value)) for name, value in evaluation.scores.items()),
        flags=evaluation.flags,
    )


def _cost(cost: Cost) -> Iterator[tuple[str, str]]:
    yield "wall time", _duration(cost.seconds)
    if not cost.steps:  # scored here, not trained
        return
    yield "training", _duration(cost.train_seconds)
    yield "predicting", _duration(cost.predict_seconds)
    yield "steps", f"{cost.steps:,}"
    yield "training speed", f"{cost.train_examples_per_second:,.1f} examples/s"
    yield "training tokens", f"{cost.train_tokens:,} (without padding)"
    yield "parameters", f"{cost.parameters:,}"
    yield "peak memory", f"{cost.peak_memory_bytes / 2**30:.2f} GiB"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
