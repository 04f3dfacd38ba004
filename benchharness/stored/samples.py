"""Stored runs as the samples that the regression gate compares."""

from collections.abc import Iterable

from benchharness.leaderboard.boards.cell import build_cell
from benchharness.leaderboard.regression.sample import Sample, sample_of
from benchharness.leaderboard.result import Result, RunRow
from benchharness.leaderboard.store.store import Store
from benchharness.stored.predictions import StoredPredictions
from benchharness.tasks.suites import SUITES, ScoreRule, find_task


class Samples:
    """Makes samples of stored runs.

    `ids` are those of the examples of every split that was read, by "task:split", in its order.
    """

    def __init__(self, store: Store) -> None:
        self._stored = StoredPredictions(store)
        self.ids: dict[str, list[str]] = {}

    def of(self, task: str, runs: Iterable[RunRow]) -> Sample | None:
        """The sample of the finished runs of one task, None where none of them scored it.

        Raises DataError where the rows cannot be read, or are no longer those of the runs.
        """
        cell = build_cell(task, [run for run in runs if run.status == "finished"], _rule(task))
        if cell is None:
            return None
        order = sorted(zip(cell.runs, cell.values, strict=True), key=lambda pair: pair[0].seed)
        results = [self.result(run) for run, _ in order]
        result = results[0]
        dev = find_task(task).dev_splits
        splits = [s for name, s in result.job.predicted_splits if name == task and s in dev]
        names = [f"{task}:{split}" for split in splits]
        found = {name: self._stored.rows(result.job, name).examples for name in names}
        self.ids |= {name: [e.id for e in examples] for name, examples in found.items()}
        collapsed = [run.seed for run, _ in order if run.has_collapsed(task)]
        return sample_of(results, [value for _, value in order], found, collapsed)

    def result(self, run: RunRow) -> Result:
        """A finished run, complete."""
        return self._stored.result(run.key)


def counted_tasks(names: Iterable[str]) -> list[str]:
    """Those tasks that their suite's score counts; diagnostic sets are left out."""
    return [name for name in names if name in _rule(name).cells]


def _rule(task: str) -> ScoreRule:
    return SUITES[find_task(task).suite].rule
