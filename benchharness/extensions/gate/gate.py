"""Regression check: fresh runs of a baseline's tasks, and the verdict on them (`bench check`).

Stored runs are never reused: the key of a job does not identify the code, and the code is what a
check tests. The runs are stored in a separate database, which is deleted after the verdict. If a
check is interrupted, its database is kept, and the same check with the same code resumes from it.
"""

import hashlib
import itertools
import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, cast

from filelock import FileLock

from benchharness.driver.drive import Watch, unwatched
from benchharness.driver.options import OF_CHECK, Precision, RunOptions, takes_options
from benchharness.driver.plan import Plan
from benchharness.driver.request import Request
from benchharness.driver.session import Session
from benchharness.errors import BenchError, DataError
from benchharness.extensions.gate.guards import values_of
from benchharness.extensions.gate.judge import (
    FAILED_JOB,
    NOT_COMPARED,
    Unjudged,
    Verdict,
    judge,
)
from benchharness.extensions.gate.sample import (
    Baseline,
    Sample,
    conditions_of,
    differences,
    sample_of,
    shared_seeds,
)
from benchharness.extensions.gate.verdict_text import to_markdown
from benchharness.kept_folders import scratch_folder
from benchharness.leaderboard.boards.cell import build_cell
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.store.store import Store
from benchharness.machine import cache_folder, library_versions, source_digest
from benchharness.plugins import load_plugins
from benchharness.stored.predictions import StoredPredictions
from benchharness.tasks.suite import ScoreRule
from benchharness.tasks.suites import SUITES, distinct_title, find_task

BASELINE = "results/baseline.json"
DEFAULT_ALPHA = 0.05
DEFAULT_SEEDS = 3
"""Default number of seeds of a check. More seeds cost time in every check, while more seeds in the
baseline cost time only once (docs/regression.md).
"""

KEPT_SECONDS = 7 * 24 * 3600.0
"""Seconds for which the database of an interrupted check is kept. After that time, the code has
probably changed, so the database would not be used any more.
"""


def read_baseline(path: Path) -> Baseline:
    """Read a baseline from a file.

    Raises:
        DataError: The file is missing or is not a baseline.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read the baseline {path} ({error}): create it with `bench check --write`, or "
            "pass another file with --baseline."
        ) from error
    return Baseline.from_text(text, str(path))


def failure_of_marked(root: Path, *words: Any, **arguments: Any) -> str:
    """Run the check that the marker of a pytest test describes.

    Args:
        root: Folder to which the paths `baseline` and `data_file` are relative.
        words: Positional arguments of the marker. The check fails if there are any.
        arguments: Keyword arguments of the marker: options of `bench check`.

    Returns:
        The reason why the check fails; empty if it passes.
    """
    try:
        _, *names = signature(_run_marked).parameters
        # Check the arguments before the run: a TypeError in the run itself is a bug and must not
        # be caught.
        signature(_run_marked).bind(root, *words, **arguments)
    except TypeError as error:
        return f"@pytest.mark.bench: {error}. It accepts the keyword arguments {', '.join(names)}."
    try:
        verdict = _run_marked(root, **arguments)
    except BenchError as error:
        return str(error)
    return to_markdown(verdict) if verdict.exit_code else ""


@takes_options(OF_CHECK)
def _run_marked(
    root: Path,
    *,
    model: str,
    baseline: str = BASELINE,
    alpha: float = DEFAULT_ALPHA,
    allow_change: bool = False,
    **options: Any,
) -> Verdict:
    """Run the check with the arguments of a test's marker, and return its verdict."""
    load_plugins()
    if isinstance(place := options.get("data_file"), str):
        options["data_file"] = str(root / Path(place).expanduser())
    known = read_baseline(root / baseline)
    return run_gate(
        RunOptions.of(model=model, **options), known, alpha=alpha, may_change=allow_change
    )


def run_gate(
    options: RunOptions,
    baseline: Baseline,
    watch: Watch = unwatched,
    *,
    alpha: float = DEFAULT_ALPHA,
    may_change: bool = False,
) -> Verdict:
    """Run a regression check: train a model on the baseline's tasks, and compare the scores.

    Tasks that cannot be compared with the baseline are not run; the verdict lists them.

    Args:
        options: Options of the check. If they do not set the data or the limit, these are taken
            from the baseline. The precision is always that of the baseline.
        baseline: Baseline to compare with.
        watch: Function that creates the progress display.
        alpha: Significance level: the maximum probability that any task is reported as worse
            although nothing has changed.
        may_change: True if the check may pass although training losses have changed, as long as no
            score is worse.

    Raises:
        BenchError: The options do not fit the baseline (e.g. another limit), or they select several
            models or recipes.
        ModelError: A checkpoint cannot be found; raised before anything starts.
    """
    seeds = options.seeds if options.seeds is not None or options.seed else DEFAULT_SEEDS
    asked = replace(options, seeds=seeds, baselines=False)
    session = Session.of(asked, watch, fits=lambda task: task.name in baseline.tasks)
    _check_options(options, session.request, baseline, alpha)
    session = _like_baseline(options, session, baseline)
    with session.prepared():
        planned = session.plan()
        if len({(job.task, job.seed) for job in planned.jobs}) < len(planned.jobs):
            raise BenchError(
                "a check runs one model with one recipe: pass one --model, and only one value per "
                "--set."
            )
        wanted = [task.name for task in session.request.tasks]
        unfit = list(_unfit(wanted, planned.jobs, baseline))
        fit = [task for task in wanted if task not in {each.task for each in unfit}]
        # Run only tasks that are trained. AX, for example, is predicted by models that are trained
        # on MNLI.
        trained = {_trained(task) for task in fit}
        needed = planned.part(job.key for job in planned.jobs if job.task in trained)
        guards = {task: tuple(baseline.tasks[task].guards) for task in fit}
        now, ids, failed = _run(session, needed, guards)
    request, limit = session.request, session.options.limit
    rows = "" if limit is None else f", at most {limit} rows per split"
    return judge(
        f"{request.models[0].name} on {request.data} data{rows}",
        baseline.tasks,
        now,
        ids,
        alpha=alpha,
        seeds=request.seeds,
        unjudged=(*unfit, *failed),
        notes=(*_notes(planned.jobs, now, baseline), *_weaknesses(now, baseline)),
        may_change=may_change,
    )


def _check_options(options: RunOptions, request: Request, baseline: Baseline, alpha: float) -> None:
    """Raise BenchError if the options do not fit the baseline."""
    limit = request.options.limit
    if not 0 < alpha < 1:
        raise BenchError(f"--alpha must be between 0 and 1, but got {alpha}.")
    if options.limit is not None and limit != baseline.limit:
        raise BenchError(
            f"the baseline was made with {_limit(baseline.limit)}, but this check uses "
            f"{_limit(limit)}: use the same limit, or write a new baseline."
        )
    if options.data is options.data_file is options.hf is None and baseline.data == "files":
        raise BenchError(
            "the baseline was made from local files: pass the same --data or --data-file again."
        )


def _limit(limit: int | None) -> str:
    return "all rows" if limit is None else f"--limit {limit}"


def _like_baseline(options: RunOptions, session: Session, baseline: Baseline) -> Session:
    """Return the session with the tasks that are compared, and with options like the baseline's."""
    request = session.request
    wanted = counted_tasks(task.name for task in request.tasks)
    is_said = options.data or options.data_file or options.hf
    precision = next((s.conditions.precision for s in baseline.tasks.values()), "auto")
    alike = replace(
        request.options,
        data=request.data if is_said else baseline.data,
        precision=cast("Precision", precision),
        limit=baseline.limit,
    )
    tasks = tuple(find_task(task) for task in wanted)
    return replace(session, request=replace(request, options=alike, tasks=tasks))


def _trained(task: str) -> str:
    """Return the task whose runs predict this task: itself, or its `trained_on` task."""
    return find_task(task).trained_on or task


def _unfit(wanted: Sequence[str], jobs: Sequence[Job], baseline: Baseline) -> Iterator[Unjudged]:
    """Yield the tasks that cannot be compared, each with a reason and the next step."""
    planned = {job.task: job for job in jobs}
    for task in wanted:
        sample = baseline.tasks.get(task)
        if reason := _reason(sample, planned[_trained(task)]):
            yield Unjudged(task=task, reason=reason, exit_code=NOT_COMPARED)


def _reason(sample: Sample | None, job: Job) -> str:
    """Return the reason why a task cannot be compared with the baseline; empty if it can."""
    if sample is None:
        return (
            "the baseline does not contain this task. Run it with `bench run`, then write a new "
            "baseline with `bench check --write`."
        )
    if len(sample.scores) < 2:
        return (
            f"the baseline cannot detect a drop, because {sample.unfit}. Run more seeds with "
            "`bench run --seeds 5`, then write a new baseline with `bench check --write`."
        )
    if changes := list(differences(sample.conditions, conditions_of(job))):
        return (
            f"{' and '.join(changes)}. If this is intended, run the task with `bench run`, then "
            "write a new baseline with `bench check --write`."
        )
    return ""


Found = tuple[dict[str, Sample], dict[str, list[str]], list[Unjudged]]
"""Results of jobs: samples keyed by task, ids of examples keyed by "task:split", and failures."""


Guards = Mapping[str, Sequence[str]]
"""Guards of each task, keyed by task."""


def _run(session: Session, planned: Plan, tasks: Guards) -> Found:
    """Run the jobs and return their samples. For each collapsed run, one other seed is run too."""
    if not planned.jobs:
        return {}, {}, []
    with _store_of(planned) as db:
        here = replace(session.options, db=db)
        session = replace(session, request=replace(session.request, options=here))
        found, ids, failed = _driven(session, planned, tasks)
        again = _drawn_again(session, planned, found)
        if again.jobs:
            found, ids, more = _driven(session, again, tasks)
            failed += more
    return found, ids, failed


def _driven(session: Session, planned: Plan, tasks: Guards) -> Found:
    with session.run(planned) as driven:
        # This deletes a record about custom metrics that is stored outside of the database.
        driven.store.forget_named_code()
        samples = Samples(driven.store)
        runs = {task: driven.store.runs(task=_trained(task)) for task in tasks}
        found = {task: samples.of(task, runs[task], guards) for task, guards in tasks.items()}
        failed = [_failure(each) for each in driven.outcomes if isinstance(each, Failure)]
    return {task: sample for task, sample in found.items() if sample}, samples.ids, failed


def _drawn_again(session: Session, planned: Plan, found: Mapping[str, Sample]) -> Plan:
    """Plan replacement runs: each task gets as many unused seeds as it has collapsed runs."""
    counts: dict[str, int] = {}
    for task, sample in found.items():
        # Tasks that are predicted by the same runs share their replacement seeds.
        counts[_trained(task)] = max(counts.get(_trained(task), 0), len(sample.collapsed))
    unused = (seed for seed in itertools.count(1) if seed not in session.request.seeds)
    seeds = tuple(itertools.islice(unused, max(counts.values(), default=0)))
    if not seeds:
        return replace(planned, jobs=())
    tasks = tuple(find_task(task) for task, count in counts.items() if count)
    more = replace(session, request=replace(session.request, tasks=tasks, seeds=seeds)).plan()
    wanted = {(task, seed) for task, count in counts.items() for seed in seeds[:count]}
    return more.part(job.key for job in more.jobs if (job.task, job.seed) in wanted)


@contextmanager
def _store_of(planned: Plan) -> Iterator[str]:
    """Context manager that yields the path of a check's database.

    A check with the same jobs and the same code has the same path. The database is deleted unless
    the check is interrupted. If the same check is already running, or the cache is not writable, a
    temporary database is used.
    """
    root = cache_folder("checks")
    # A check is identified by its jobs, the code of benchharness and the versions of libraries.
    parts = [sorted(job.key for job in planned.jobs), source_digest(), library_versions()]
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    lock = FileLock(root / f"{name}.lock")
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except OSError:  # filelock's Timeout is a subclass of OSError
        with scratch_folder() as folder:
            yield str(folder / "check.sqlite")
        return
    try:
        _delete_old(root)
        kept = root / name
        kept.mkdir(exist_ok=True)
        yield str(kept / "check.sqlite")
        # This is not done in `finally`, because an interrupted check resumes from this folder.
        shutil.rmtree(kept, ignore_errors=True)
    finally:
        lock.release()


def _delete_old(root: Path) -> None:
    """Delete databases of interrupted checks that are older than KEPT_SECONDS.

    The age is computed from the file's time. If the clock jumps, the worst case is that an
    interrupted check starts over.
    """
    for path in list(root.iterdir()):
        # The name of a database is 32 hexadecimal digits; its lock file ends with ".lock".
        is_ours = re.fullmatch(r"[0-9a-f]{32}(\.lock)?", path.name)
        with suppress(OSError):  # another check may delete it at the same time
            if is_ours and path.lstat().st_mtime + KEPT_SECONDS < time.time():
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _failure(failure: Failure) -> Unjudged:
    return Unjudged(
        task=failure.job.task,
        reason=f"seed {failure.job.seed} failed: {failure.error}",
        # A checkpoint that cannot be loaded counts as missing, not as a failed job.
        exit_code=NOT_COMPARED if failure.exit_code == NOT_COMPARED else FAILED_JOB,
    )


def _weaknesses(tasks: Iterable[str], baseline: Baseline) -> Iterator[str]:
    """Yield a sentence for each baseline sample that can only detect large drops."""
    for task in tasks:
        if weakness := baseline.tasks[task].weakness:
            yield f"The baseline of {distinct_title(task)} is weak: {weakness}."


def _notes(jobs: Sequence[Job], now: Mapping[str, Sample], baseline: Baseline) -> Iterator[str]:
    """Yield sentences about differences from the baseline that still allow a comparison."""
    weights = {sample.conditions.weights for sample in baseline.tasks.values()}
    if now and {job.weights for job in jobs} - weights:
        yield (
            f"The checkpoint differs from the baseline's ({baseline.model}), so a drop may be due "
            "to its weights."
        )
        return
    # If the first losses were not compared, yield the reason.
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
                f"Only the scores of {', '.join(alone)} were compared, because the baseline has no "
                "training losses of these seeds."
            )
    elif "" in old | new:
        yield (
            "Only scores were compared, because the baseline has no training losses: write it "
            "again."
        )
    else:
        yield (
            "Only scores were compared, not training losses: the baseline was made with "
            f"{' and '.join(sorted(old))}, and the new runs with {' and '.join(sorted(new))}."
        )


# Stored runs as samples for the comparison.


class Samples:
    """Reader that summarizes stored runs as samples: scores per seed, and outcomes per example.

    Attributes:
        ids: Ids of the examples in each split that was read, in order, keyed by "task:split".
    """

    def __init__(self, store: Store) -> None:
        self._stored = StoredPredictions(store)
        self.ids: dict[str, list[str]] = {}

    def of(self, task: str, runs: Iterable[RunRow], guards: Sequence[str] = ()) -> Sample | None:
        """Return the sample of a task's finished runs, or None if no run has a score for the task.

        Args:
            task: Name of the task.
            runs: Stored runs that differ only in their seeds. Unfinished ones are skipped.
            guards: Guards to compute, as in `--guard`.

        Raises:
            BenchError: A guard cannot be computed for the task.
            DataError: The rows cannot be read, or have changed since the runs.
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
        values = values_of(guards, results, found)
        return sample_of(results, [value for _, value in order], found, collapsed, values)

    def result(self, run: RunRow) -> Result:
        """Return the full result of a finished run."""
        return self._stored.result(run.key)


def counted_tasks(names: Iterable[str]) -> list[str]:
    """Return the tasks that count toward their suite's score, without diagnostic sets."""
    return [name for name in names if name in _rule(name).cells]


def _rule(task: str) -> ScoreRule:
    return SUITES[find_task(task).suite].rule
