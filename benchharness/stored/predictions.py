"""From stored runs to the samples that the regression gate compares; reads the rows for that."""

from collections.abc import Iterable, Sequence

from benchharness.splits import read_split
from leaderboard.boards.cell import build_cell
from leaderboard.regression import Sample, sample_of
from leaderboard.result import Result, RunRow
from leaderboard.store.store import Store
from tasks.examples import Example
from tasks.rules import ScoreRule
from tasks.suites import SUITES, find_task

__all__ = ["Samples", "counted_tasks"]


class Samples:
    """Makes samples of stored runs; the rows of a split are read once.

    `ids` are those of the examples of every split that was read, by "task:split".
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._examples: dict[str, Sequence[Example]] = {}

    @property
    def ids(self) -> dict[str, list[str]]:
        """The examples' ids by split, in its order."""
        return {split: [e.id for e in rows] for split, rows in self._examples.items()}

    def of(self, task: str, runs: Iterable[RunRow]) -> Sample | None:
        """The sample of the finished runs of one task, None where none of them scored it.

        Raises DataError where the rows cannot be read, or are no longer those of the runs.
        """
        cell = build_cell(task, [run for run in runs if run.status == "finished"], _rule(task))
        if cell is None:
            return None
        order = sorted(zip(cell.runs, cell.values, strict=True), key=lambda pair: pair[0].seed)
        results = [self.result(run) for run, _ in order]
        return sample_of(results, [value for _, value in order], self._read(task, results[0]))

    def result(self, run: RunRow) -> Result:
        """A finished run, complete."""
        result = self._store.result(run.key)
        assert isinstance(result, Result), "a finished run is a result"
        return result

    def _read(self, task: str, result: Result) -> dict[str, Sequence[Example]]:
        """The examples of the dev splits of the task, by "task:split"."""
        job = result.job
        dev = set(find_task(task).dev_splits)
        splits = [s for name, s in job.predicted_splits if name == task and s in dev]
        for split in splits:
            if (name := f"{task}:{split}") not in self._examples:
                self._examples[name] = read_split(job, name).examples
        return {f"{task}:{split}": self._examples[f"{task}:{split}"] for split in splits}


def counted_tasks(names: Iterable[str]) -> list[str]:
    """Those tasks that their suite's score counts; diagnostic sets are left out."""
    return [name for name in names if name in _rule(name).cells]


def _rule(task: str) -> ScoreRule:
    return SUITES[find_task(task).suite].rule
