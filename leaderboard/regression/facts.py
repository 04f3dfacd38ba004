"""A verdict as plain data, for `bench check --json`."""

from dataclasses import asdict
from typing import Any

from leaderboard.regression.judge import TaskVerdict, Verdict
from leaderboard.regression.sample import Sample

__all__ = ["facts_of"]


def facts_of(verdict: Verdict) -> dict[str, Any]:
    """Everything that was found; scores in their own unit, mostly 0..1."""
    return {
        "title": verdict.title,
        "verdict": verdict.sentence,
        "exit_code": verdict.exit_code,
        "alpha": verdict.alpha,
        "tasks": {task.task: _task(task) for task in verdict.tasks},
        "unjudged": [asdict(each) for each in verdict.unjudged],
        "notes": list(verdict.notes),
    }


def _task(task: TaskVerdict) -> dict[str, Any]:
    return {
        "is_worse": task.is_worse,
        "change": None if task.change is None else asdict(task.change),
        "baseline": _sample(task.before),
        "now": _sample(task.now),
        "drop": task.drop,
        "p_value": task.p_value,
        "tolerated_drop": task.tolerated,
        "detectable_drop": task.detectable,
        "examples": task.before.examples,
        "flips": [asdict(flip) for flip in task.flips],
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        "mean": sample.mean,
        "spread": sample.spread,
        "scores": dict(zip(sample.seeds, sample.scores, strict=True)),
    }
