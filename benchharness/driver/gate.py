"""The regression gate: fresh runs of what a baseline has, and the verdict on them.

Nothing that is stored is taken for a run: a job's key does not know the code, which is what is on
trial. So the runs go into a database of their own, which is thrown away.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchharness.driver.request import Request
from leaderboard.job import Job
from leaderboard.regression import (
    FAILED_JOB,
    NOT_COMPARED,
    Baseline,
    Sample,
    Unjudged,
    Verdict,
    conditions_of,
    differences,
    judge,
)
from leaderboard.result import Failure
from tasks.errors import BenchError, DataError
from tasks.suites import find_task

if TYPE_CHECKING:
    from benchharness.engines.process import Outcome

__all__ = ["DEFAULT_ALPHA", "DEFAULT_SEEDS", "Gate", "read_baseline", "run_gate"]

DEFAULT_ALPHA = 0.05
DEFAULT_SEEDS = 3
"""More cost time at every check; more seeds of the baseline cost it once (docs/regression.md)."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What is checked, against which baseline, and how.

    `limit` and `data` are None for the baseline's own. `timeout` is in seconds, 0 waits for ever.
    Training that computes something else fails unless `may_change`.
    """

    request: Request
    baseline: Baseline
    limit: int | None = None
    data: str | None = None
    recipe: str | None = None
    alpha: float = DEFAULT_ALPHA
    timeout: float = 1800
    may_change: bool = False


def read_baseline(path: Path) -> Baseline:
    """The baseline of a file; DataError where it is missing or no baseline."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"the baseline {path} cannot be read ({error}): expected a file that `bench baseline` "
            "wrote; make one, or name one with --baseline."
        ) from error
    return Baseline.from_text(text, str(path))


def run_gate(gate: Gate) -> Verdict:
    """Plans, leaves out what cannot be compared, runs the rest and judges it.

    Raises BenchError where the options do not fit the baseline as a whole.
    """
    _check_options(gate)
    wanted, jobs = _plan(gate)
    unfit = list(_unfit(wanted, jobs, gate.baseline))
    fit = [task for task in wanted if task not in {each.task for each in unfit}]
    with TemporaryDirectory(prefix="bench-check-") as folder:
        now, ids, failed = _run(gate, _needed(jobs, fit), fit, str(Path(folder) / "check.sqlite"))
    return judge(
        _title(gate),
        gate.baseline.tasks,
        now,
        ids,
        alpha=gate.alpha,
        unjudged=(*unfit, *failed),
        notes=tuple(_notes(jobs, now, gate.baseline)),
        may_change=gate.may_change,
    )


def _check_options(gate: Gate) -> None:
    baseline = gate.baseline
    if not 0 < gate.alpha < 1:
        raise BenchError(f"--alpha {gate.alpha} is no chance: give one such as 0.05.")
    if gate.limit not in (None, baseline.limit):
        raise BenchError(
            f"the baseline is of runs with {_limit(baseline.limit)}, and this check is "
            f"{_limit(gate.limit)}: check with the same, or write a baseline of such runs."
        )
    if gate.data is None and baseline.data == "files":
        raise BenchError("the baseline is of official files: say with --data where they are.")


def _limit(limit: int | None) -> str:
    return "all rows" if limit is None else f"--limit {limit}"


def _plan(gate: Gate) -> tuple[list[str], list[Job]]:
    """The names of the tasks to compare, and the jobs that score them."""
    from benchharness.driver.plan import plan_jobs
    from benchharness.stored.samples import counted_tasks

    request = gate.request
    wanted = counted_tasks(task.name for task in request.tasks)
    jobs = plan_jobs(
        request.models,
        [find_task(task) for task in wanted],
        data=gate.data or gate.baseline.data,
        seeds=request.seeds,
        recipe=gate.recipe,
        overrides=request.overrides,
        precision=_precision(gate.baseline),
        limit=gate.baseline.limit,
        gpu=request.slots[0].is_gpu,
        start_from=request.start_from,
    )
    if len({(job.task, job.seed) for job in jobs}) < len(jobs):
        raise BenchError("a check is of one recipe: give one value to each --set, and one model.")
    return wanted, jobs


def _trained(task: str) -> str:
    """The task whose runs predict this one: itself, or the one it follows."""
    return find_task(task).trained_on or task


def _precision(baseline: Baseline) -> str:
    return next((s.conditions.precision for s in baseline.tasks.values()), "auto")


def _unfit(wanted: Sequence[str], jobs: Sequence[Job], baseline: Baseline) -> Iterator[Unjudged]:
    """The tasks that cannot be compared, each with the reason and the next step."""
    planned = {job.task: job for job in jobs}
    for task in wanted:
        sample = baseline.tasks.get(task)
        if reason := _reason(sample, planned[_trained(task)]):
            yield Unjudged(task=task, reason=reason, exit_code=NOT_COMPARED)


def _reason(sample: Sample | None, job: Job) -> str:
    """Why a task cannot be compared; empty where it can."""
    if sample is None:
        return "the baseline does not have it; `bench run` it and write a new `bench baseline`."
    if len(sample.scores) < 2:
        return (
            "the baseline has one seed, which shows no spread; `bench run --seeds 5` and write a "
            "new `bench baseline`."
        )
    if changes := list(differences(sample.conditions, conditions_of(job))):
        return (
            f"{' and '.join(changes)}; where that is meant, `bench run` it and write a new "
            "`bench baseline`."
        )
    return ""


def _needed(jobs: Sequence[Job], tasks: Sequence[str]) -> list[Job]:
    """The jobs of the tasks, and those that they start from."""
    by_key = {job.key: job for job in jobs}
    trained = {_trained(task) for task in tasks}
    keys: set[str] = set()
    for job in jobs:
        link: Job | None = job if job.task in trained else None
        while link is not None:
            keys.add(link.key)
            link = by_key.get(link.start_from or "")
    return [job for job in jobs if job.key in keys]


def _run(
    gate: Gate, jobs: list[Job], tasks: Sequence[str], db: str
) -> tuple[dict[str, Sample], dict[str, list[str]], list[Unjudged]]:
    """The samples of the tasks, the ids of their examples by split, and what failed."""
    from benchharness.stored.samples import Samples
    from leaderboard.store.store import open_store

    if not jobs:
        return {}, {}, []
    with open_store(db) as store:
        failed = [_failure(each) for each in _drive(gate, jobs, db) if isinstance(each, Failure)]
        samples = Samples(store)
        found = {task: samples.of(task, store.runs(task=_trained(task))) for task in tasks}
        return {task: s for task, s in found.items() if s}, samples.ids, failed


def _drive(gate: Gate, jobs: list[Job], db: str) -> "list[Outcome]":
    """Runs the jobs as `bench run` does, under the same display."""
    from rich.console import Console

    from benchharness.cli.display import Display
    from benchharness.driver.drive import drive
    from benchharness.driver.handover import Handover
    from benchharness.driver.schedule import look_into
    from leaderboard.store.store import open_store

    slots = gate.request.slots
    handover = Handover.of(jobs, db, keep=False)
    outlook = look_into(db, handover, slots, force=False)
    engine = gate.request.place.engine(
        timeout=gate.timeout or None, checkpoints=handover.folder, keep=outlook.starts
    )
    with (
        open_store(db) as store,
        Display(len(outlook.todo), outlook.weights, Console(stderr=True)) as display,
    ):
        return drive(outlook.todo, engine, store, display, handover, force=False)


def _failure(failure: Failure) -> Unjudged:
    return Unjudged(
        task=failure.job.task,
        reason=f"seed {failure.job.seed} failed: {failure.error}",
        # A checkpoint that cannot be loaded is missing, and no job has failed.
        exit_code=NOT_COMPARED if failure.exit_code == NOT_COMPARED else FAILED_JOB,
    )


def _title(gate: Gate) -> str:
    data = f"{gate.data or gate.baseline.data} data"
    limit = gate.baseline.limit
    rows = "" if limit is None else f", at most {limit} rows a split"
    return f"{gate.request.models[0].name} on {data}{rows}"


def _notes(jobs: Sequence[Job], now: Mapping[str, Sample], baseline: Baseline) -> Iterator[str]:
    """What differs from the baseline and is no reason not to compare."""
    weights = {sample.conditions.weights for sample in baseline.tasks.values()}
    if now and {job.weights for job in jobs} - weights:
        yield (
            f"The checkpoint is not the one of the baseline ({baseline.model}): a drop may be its "
            "own."
        )
        return
    yield from _notes_on_losses(now, baseline)


def _notes_on_losses(now: Mapping[str, Sample], baseline: Baseline) -> Iterator[str]:
    """Why the first losses say nothing, where they do not."""
    old = {baseline.tasks[task].maker for task in now}
    new = {sample.maker for sample in now.values()}
    if old == new:
        return
    if "" in old | new:
        yield "Only scores were compared: the baseline has no first losses; write it again."
    else:
        yield (
            f"Only scores were compared: the baseline was made with {' and '.join(sorted(old))}, "
            f"and these runs with {' and '.join(sorted(new))}."
        )
