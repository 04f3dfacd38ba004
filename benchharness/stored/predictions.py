"""What stored runs have predicted, and the examples that they predicted it for, read again."""

from collections.abc import Iterable, Sequence

from benchharness.splits import read_split
from leaderboard.boards.cell import build_cell
from leaderboard.job import Job
from leaderboard.regression import Sample, sample_of
from leaderboard.result import Evaluation, Result, RunRow
from leaderboard.store.store import Store
from tasks.errors import BenchError
from tasks.examples import Example
from tasks.suites import SUITES, ScoreRule, find_task
from tasks.task import Task, is_hidden

__all__ = [
    "Samples",
    "UnreadableError",
    "counted_tasks",
    "evaluation_of",
    "examples_of",
    "result_of",
    "splits_of",
]


class UnreadableError(Exception):
    """The examples cannot be had; says why."""


def splits_of(task: Task, kind: str) -> tuple[str, ...]:
    """The dev splits or the test splits; of a diagnostic set the only one."""
    found = (task.dev_splits or task.test_splits) if kind == "dev" else task.test_splits
    if not found:
        raise BenchError(f"{task.name} has no {kind} split: leave it out with --task.")
    return found


def result_of(store: Store, key: str) -> Result:
    """The finished run of a board's cell, complete."""
    result = store.result(key)
    assert isinstance(result, Result), "a cell of a board holds finished runs"
    return result


def evaluation_of(result: Result, task: Task, split: str) -> Evaluation:
    """What the run has predicted of a split; BenchError where that is nothing."""
    for evaluation in result.evaluations:
        if (evaluation.task, evaluation.split) == (task.name, split):
            return evaluation
    raise BenchError(
        f"run {result.job.key[:12]} of {result.job.model} has not predicted {task.name} {split}: "
        "leave the task out with --task, or run it again."
    )


def examples_of(task: Task, split: str, jobs: Iterable[Job]) -> tuple[Example, ...]:
    """The rows that these jobs predicted, through the first door that still has them.

    Raises UnreadableError where none has, or where their labels are hidden.
    """
    reasons = []
    for job in {job.data: job for job in jobs}.values():
        try:
            examples = read_split(job, f"{task.name}:{split}").examples
        except BenchError as error:
            reasons.append(str(error))
            continue
        if not any(map(is_hidden, examples)):
            return examples
        reasons.append(f"{task.name} {split} hides its labels there.")
    raise UnreadableError("its examples could not be read: " + " ".join(reasons))


# From stored runs to the samples that the regression gate compares; reads the rows for that.


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
