"""Boards for the tests of plots: made-up runs with sizes, tokens, times and machines."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.report.plots.cost import RunFacts, facts_of
from benchharness.leaderboard.result import Result
from tests.helpers.boards import SCORES, TASKS, make_job, one_board, row_of
from tests.helpers.results import make_cost, make_evaluation, make_result

MACHINE = {"device": "cpu", "cpu": "a CPU", "threads": 2}


def plotted(
    model: str = "minilm",
    task: str = "glue/rte",
    seed: int = 0,
    score: float = 0.6,
    *,
    parameters: int = 22_000_000,
    tokens: int = 1000,
    seconds: float = 60.0,
    machine: dict[str, Any] | None = None,
    scores: dict[str, float] | None = None,
    **job_fields: Any,
) -> Result:
    """A finished run whose every score is `score`, where `scores` do not say otherwise."""
    job = make_job(model=model, task=task, seed=seed, **job_fields)
    return make_result(
        job,
        evaluations=tuple(
            make_evaluation(job, name, split, scores=scores or _scores(name, split, score))
            for name, split in job.predicted_splits
        ),
        cost=make_cost(parameters=parameters, train_tokens=tokens, train_seconds=seconds),
        provenance={"machine": MACHINE if machine is None else machine},
    )


def suite_of(model: str, score: float, seeds: Sequence[int] = (0,), **fields: Any) -> list[Result]:
    """A run of every GLUE task."""
    return [plotted(model, task, seed, score, **fields) for task in TASKS for seed in seeds]


def _scores(task: str, split: str, score: float) -> dict[str, float]:
    ending = "_mm" if split == "dev_mm" else ""
    return {name + ending: score for name in SCORES[task]}


def board_of(runs: Iterable[Result]) -> Board:
    """The only board of these runs."""
    return one_board(map(row_of, runs))


def facts_by_key(runs: Iterable[Result]) -> dict[str, RunFacts]:
    """The facts that a report reads of the runs."""
    return {run.job.key: found for run in runs if (found := facts_of(run)) is not None}
