"""Which stored runs a submission is made of: of each task's, the best on its dev split."""

from collections.abc import Iterable, Mapping, Sequence

from leaderboard.result import RunRow
from tasks.errors import BenchError
from tasks.suites import Suite, find_task

__all__ = ["Split", "choose_runs", "leader_of"]

Split = tuple[str, str]
"""A task's name and one of its splits."""


def leader_of(task: str) -> str:
    """The task whose run predicts this one: itself, or for AX that of MNLI."""
    return find_task(task).trained_on or task


def choose_runs(
    rows: Iterable[RunRow], wanted: Sequence[Split], suite: Suite, seed: int | None = None
) -> Mapping[str, RunRow]:
    """For each task with runs that predicted the wanted splits, the run to submit, by task.

    Left out are mini data and limited rows, which no server knows. Of one model name only the
    checkpoint that was run last counts: a submission is one model's. Among its runs the score on
    dev decides, as papers do that report "the best of n"; BenchError where there is no run at all.
    """
    able = [row for row in rows if _is_able(row, wanted) and seed in (None, row.seed)]
    if not able:
        raise BenchError(
            "no stored run has predicted what is to be submitted: run `bench run --test` on the "
            "official data (not mini, no --limit) first."
        )
    weights = max(able, key=lambda row: row.finished).weights
    chosen: dict[str, RunRow] = {}
    for row in (row for row in able if row.weights == weights):
        best = chosen.get(row.task)
        if best is None or _standing(row, wanted, suite) > _standing(best, wanted, suite):
            chosen[row.task] = row
    return chosen


def _is_able(row: RunRow, wanted: Sequence[Split]) -> bool:
    is_official = row.limit is None and row.data != "mini"
    return row.status == "finished" and is_official and _covered(row, wanted) > 0


def _covered(row: RunRow, wanted: Sequence[Split]) -> int:
    """How many of the wanted splits the run has predicted."""
    return sum(f"{task}:{split}" in row.fingerprints for task, split in wanted)


def _standing(row: RunRow, wanted: Sequence[Split], suite: Suite) -> tuple[int, float, str]:
    """The more splits, then the better on dev, then the newer."""
    scores = row.scores.get(row.task, {})
    ruled = suite.rule.task_score(row.task, scores) if row.task in suite.rule.cells else None
    return _covered(row, wanted), -1.0 if ruled is None else ruled, row.finished
