"""The regression gate: fresh runs of what a baseline has, and the verdict on them.

Nothing that is stored is taken for a run: a job's key does not know the code, which is what is on
trial. So the runs go into a store of their own, which is deleted with the verdict. A check that is
interrupted leaves it, and the same check by the same code resumes from there.
"""

import hashlib
import itertools
import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

from filelock import FileLock

from benchharness.driver.drive import TIMEOUT_SECONDS, Watch, drive, prepared_workers, unwatched
from benchharness.driver.halving import with_starts
from benchharness.driver.plan import Plan, plan
from benchharness.driver.request import Request, check_request, find_own_data, listed
from benchharness.driver.schedule import schedule_missing
from benchharness.kept_folders import scratch_folder
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.regression import (
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
from benchharness.leaderboard.regression.sample import shared_seeds
from benchharness.leaderboard.regression.verdict_text import to_markdown
from benchharness.leaderboard.result import Failure
from benchharness.machine import cache_folder, library_versions, source_digest
from benchharness.plugins import load_plugins
from benchharness.stored.samples import Samples, counted_tasks
from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.suites import distinct_title, find_task

DEFAULT_ALPHA = 0.05
DEFAULT_SEEDS = 3
"""More cost time at every check; more seeds of the baseline cost it once (docs/regression.md)."""

KEPT_SECONDS = 7 * 24 * 3600.0
"""How long the store of an interrupted check stays: its code has changed since, most likely."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What is checked, against which baseline, and how.

    Of the `request`, `data` and `limit` are None for the baseline's own. `timeout` is in seconds,
    None waits for ever. Training that computes something else fails unless `may_change`.
    """

    request: Request
    baseline: Baseline
    limit: int | None = None
    data: str | None = None
    alpha: float = DEFAULT_ALPHA
    timeout: float | None = TIMEOUT_SECONDS
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


def failure_of_marked(root: Path, *words: Any, **arguments: Any) -> str:
    """Why a test with such a marker fails, "" where it does not; arguments as of `bench check`."""
    marked = signature(_run_marked)
    try:
        marked.bind(root, *words, **arguments)
    except TypeError as error:
        _, *names = marked.parameters
        return f"@pytest.mark.bench: {error}. It takes {', '.join(names)}, each by its name."
    try:
        verdict = _run_marked(root, **arguments)
    except BenchError as error:
        return str(error)
    return to_markdown(verdict) if verdict.exit_code else ""


def _run_marked(  # noqa: PLR0913  (the marker's arguments)
    root: Path,
    *,
    model: str,
    suite: str | Sequence[str] = (),
    task: str | Sequence[str] = (),
    limit: int | None = None,
    baseline: str = "results/baseline.json",
    alpha: float = DEFAULT_ALPHA,
    seeds: int = DEFAULT_SEEDS,
    data: str | None = None,
    data_file: str | None = None,
    hf: str | None = None,
    columns: str = "",
    metric: str | Sequence[str] = (),
    encoding: str = "",
    no_header: bool = False,
    recipe: str | None = None,
    settings: str | Sequence[str] = (),
    allow_change: bool = False,
) -> Verdict:
    """The verdict on what a test's marker names.

    Its `baseline` and `data_file` are relative to the root folder.
    """
    load_plugins()
    known = read_baseline(root / baseline)
    place = data_file and str(root / Path(data_file).expanduser())
    beside = {"suite": suite, "task": task, "data": data}
    own = find_own_data(
        place, hf, columns, listed(metric), encoding, no_header=no_header, beside=beside
    )
    if own is not None:
        task, data = own.task.name, own.data
    request = check_request(
        models=[model],
        suites=listed(suite),
        tasks=listed(task),
        seeds=seeds,
        seed=(),
        settings=listed(settings),
        recipe=recipe,
        limit=limit,
        device="auto",
        jobs="auto",
        fits=lambda found: found.name in known.tasks,
    )
    return run_gate(
        Gate(
            request=request,
            baseline=known,
            limit=limit,
            data=data,
            alpha=alpha,
            may_change=allow_change,
        )
    )


def run_gate(gate: Gate, watch: Watch = unwatched) -> Verdict:
    """Plans, leaves out what cannot be compared, runs the rest and judges it.

    Raises BenchError where the options do not fit the baseline as a whole, and ModelError where a
    checkpoint can be had from nowhere, before anything starts.
    """
    _check_options(gate)
    with prepared_workers(gate.request):
        request, planned = _plan(gate)
        wanted = [task.name for task in request.tasks]
        unfit = list(_unfit(wanted, planned.jobs, gate.baseline))
        fit = [task for task in wanted if task not in {each.task for each in unfit}]
        needed = replace(planned, jobs=tuple(_needed(planned.jobs, fit)))
        now, ids, failed = _run(request, needed, fit, gate, watch)
    data = f"{gate.data or gate.baseline.data} data"
    limit = gate.baseline.limit
    rows = "" if limit is None else f", at most {limit} rows a split"
    return judge(
        f"{gate.request.models[0].name} on {data}{rows}",
        gate.baseline.tasks,
        now,
        ids,
        alpha=gate.alpha,
        seeds=request.seeds,
        unjudged=(*unfit, *failed),
        notes=(*_notes(planned.jobs, now, gate.baseline), *_weaknesses(now, gate.baseline)),
        may_change=gate.may_change,
    )


def _check_options(gate: Gate) -> None:
    baseline = gate.baseline
    if not 0 < gate.alpha < 1:
        raise BenchError(f"--alpha must be between 0 and 1, got {gate.alpha}.")
    if gate.limit not in (None, baseline.limit):
        raise BenchError(
            f"the baseline was made with {_limit(baseline.limit)}, and this check has "
            f"{_limit(gate.limit)}: use the same limit, or write a baseline of such runs."
        )
    if gate.data is None and baseline.data == "files":
        raise BenchError(
            "the baseline was made with official files: say where they are with --data."
        )


def _limit(limit: int | None) -> str:
    return "all rows" if limit is None else f"--limit {limit}"


def _plan(gate: Gate) -> tuple[Request, Plan]:
    """What is asked of the tasks to compare, and the jobs that score them."""
    wanted = counted_tasks(task.name for task in gate.request.tasks)
    request = replace(
        gate.request,
        tasks=tuple(find_task(task) for task in wanted),
        data=gate.data or gate.baseline.data,
        precision=next((s.conditions.precision for s in gate.baseline.tasks.values()), "auto"),
        limit=gate.baseline.limit,
    )
    planned = plan(request)
    if len({(job.task, job.seed) for job in planned.jobs}) < len(planned.jobs):
        raise BenchError(
            "a check compares one recipe: give one value to each --set, and one model."
        )
    return request, planned


def _trained(task: str) -> str:
    """The task whose runs predict this one: itself, or the one it follows."""
    return find_task(task).trained_on or task


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
            f"no drop can be seen from the baseline: {sample.unfit}; `bench run --seeds 5` and "
            "write a new `bench baseline`."
        )
    if changes := list(differences(sample.conditions, conditions_of(job))):
        return (
            f"{' and '.join(changes)}; if that is intended, `bench run` it and write a new "
            "`bench baseline`."
        )
    return ""


def _needed(jobs: Sequence[Job], tasks: Sequence[str]) -> list[Job]:
    """The jobs of the tasks, and those that they need."""
    trained = {_trained(task) for task in tasks}
    keys = with_starts({job.key for job in jobs if job.task in trained}, jobs)
    return [job for job in jobs if job.key in keys]


Found = tuple[dict[str, Sample], dict[str, list[str]], list[Unjudged]]
"""The samples of the tasks, the ids of their examples by split, and what failed."""


def _run(request: Request, planned: Plan, tasks: Sequence[str], gate: Gate, watch: Watch) -> Found:
    """What the jobs left; the seed of a run that collapsed is drawn again once."""
    if not planned.jobs:
        return {}, {}, []
    with _store_of(planned) as db:
        found, ids, failed = _driven(gate, planned, tasks, watch, db)
        again = _drawn_again(request, planned, found)
        if again.jobs:
            found, ids, more = _driven(gate, again, tasks, watch, db)
            failed += more
    return found, ids, failed


def _driven(gate: Gate, planned: Plan, tasks: Sequence[str], watch: Watch, db: str) -> Found:
    schedule = schedule_missing(planned, gate.request.slots, db)
    with drive(schedule, gate.request.placement, db, watch, timeout=gate.timeout) as driven:
        samples = Samples(driven.store)
        runs = {task: driven.store.runs(task=_trained(task)) for task in tasks}
        found = {task: samples.of(task, runs[task]) for task in tasks}
        failed = [_failure(each) for each in driven.outcomes if isinstance(each, Failure)]
    return {task: sample for task, sample in found.items() if sample}, samples.ids, failed


def _drawn_again(request: Request, planned: Plan, found: Mapping[str, Sample]) -> Plan:
    """Jobs of the first seeds that are not asked for, as many of a task as its runs collapsed."""
    counts: dict[str, int] = {}
    for task, sample in found.items():
        counts[_trained(task)] = max(counts.get(_trained(task), 0), len(sample.collapsed))
    unused = (seed for seed in itertools.count(1) if seed not in request.seeds)
    seeds = tuple(itertools.islice(unused, max(counts.values(), default=0)))
    if not seeds:
        return replace(planned, jobs=())
    tasks = tuple(find_task(task) for task, count in counts.items() if count)
    more = plan(replace(request, tasks=tasks, seeds=seeds))
    wanted = {(task, seed) for task, count in counts.items() for seed in seeds[:count]}
    keys = {job.key for job in more.jobs if (job.task, job.seed) in wanted}
    needed = with_starts(keys, more.jobs)
    return replace(more, jobs=tuple(job for job in more.jobs if job.key in needed))


@contextmanager
def _store_of(planned: Plan) -> Iterator[str]:
    """The store of these jobs by this code, which outlives an interruption alone.

    Where the same check runs already, or the cache cannot be written, this one has a store that
    nobody else can find.
    """
    root = cache_folder("checks")
    # What a check is told apart by: its jobs, our code and the libraries.
    parts = [sorted(job.key for job in planned.jobs), source_digest(), library_versions()]
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    lock = FileLock(root / f"{name}.lock")
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except OSError:  # filelock's Timeout is one
        with scratch_folder() as folder:
            yield str(folder / "check.sqlite")
        return
    try:
        _delete_old(root)
        kept = root / name
        kept.mkdir(exist_ok=True)
        yield str(kept / "check.sqlite")
        shutil.rmtree(kept, ignore_errors=True)
    finally:
        lock.release()


def _delete_old(root: Path) -> None:
    """By the clock of the files: if it jumps, a check that was interrupted starts over at worst."""
    for path in list(root.iterdir()):
        is_ours = re.fullmatch(r"[0-9a-f]{32}(\.lock)?", path.name)
        with suppress(OSError):  # another check may delete it at the same time
            if is_ours and path.lstat().st_mtime + KEPT_SECONDS < time.time():
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _failure(failure: Failure) -> Unjudged:
    return Unjudged(
        task=failure.job.task,
        reason=f"seed {failure.job.seed} failed: {failure.error}",
        # A checkpoint that cannot be loaded is missing, and no job has failed.
        exit_code=NOT_COMPARED if failure.exit_code == NOT_COMPARED else FAILED_JOB,
    )


def _weaknesses(tasks: Iterable[str], baseline: Baseline) -> Iterator[str]:
    """Which samples of the baseline see little, each with the reason."""
    for task in tasks:
        if weakness := baseline.tasks[task].weakness:
            yield f"The baseline of {distinct_title(task)} is weak: {weakness}."


def _notes(jobs: Sequence[Job], now: Mapping[str, Sample], baseline: Baseline) -> Iterator[str]:
    """What differs from the baseline and is no reason not to compare."""
    weights = {sample.conditions.weights for sample in baseline.tasks.values()}
    if now and {job.weights for job in jobs} - weights:
        yield (
            f"The checkpoint is not the baseline's ({baseline.model}): a drop may come from its "
            "weights."
        )
        return
    # Why the first losses say nothing, where they do not.
    old = {baseline.tasks[task].maker for task in now}
    new = {sample.maker for sample in now.values()}
    if old == new:
        alone = [
            distinct_title(task)
            for task, sample in now.items()
            if any(begun.steps for begun in sample.beginnings)
            and not shared_seeds(baseline.tasks[task].first_losses, sample.first_losses)
        ]
        if alone:
            yield (
                f"Only scores were compared of {', '.join(alone)}: the baseline has no first "
                "losses of these seeds."
            )
    elif "" in old | new:
        yield "Only scores were compared: the baseline has no first losses; write it again."
    else:
        yield (
            f"Only scores were compared: the baseline was made with {' and '.join(sorted(old))}, "
            f"and these runs with {' and '.join(sorted(new))}."
        )
