"""A stored run again, with one value of another training at a time: what does each one change?"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from statistics import stdev

from benchharness.driver.drive import Watch, unwatched
from benchharness.driver.options import OPTIONS, Names, RunOptions
from benchharness.driver.plan import Plan, plan
from benchharness.driver.request import check_request
from benchharness.driver.session import Session
from benchharness.extensions.explanation.differences import Difference, Explanation
from benchharness.leaderboard.job import Job, recipe_digest
from benchharness.leaderboard.report.run import command_of
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.statistics import student_t
from benchharness.leaderboard.store.store import open_store
from benchharness.recipes.recipe import SETTINGS
from benchharness.tasks.errors import BenchError

SEEDS = 3
"""How many the run itself has, to show its noise; a change is tried with the run's own."""


@dataclass(frozen=True, kw_only=True)
class Try:
    """A changed value and how far it moved the score, from 0 to 1.

    None where nothing sets the value, or where the run failed; `error` says which. `share` is the
    part of the gap that the change is, None where there is no gap.
    """

    name: str
    change: Mapping[str, str]
    moved: float | None = None
    share: float | None = None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Tries:
    """What changes came to, and the noise: how far two equal runs lie apart, 19 times in 20.

    None where fewer than two seeds of the run ended. `seeds` are those that it is of, `failures`
    what failed.
    """

    metric: str
    tries: tuple[Try, ...]
    noise: float | None
    seeds: tuple[int, ...]
    failures: tuple[Failure, ...] = field(default=())


def try_changes(
    run: Result, found: Explanation, most: int, options: RunOptions, watch: Watch = unwatched
) -> Tries:
    """Runs again with each of the first `most` differences alone, on as many rows as asked for.

    `options` have the database, and of --limit, --device and --jobs what was said. Everything that
    runs is stored, and nothing that is stored runs again. BenchError for a run of somebody's own
    data, or one that learned from a teacher.
    """
    job = run.job
    if job.definition is not None or job.teacher is not None:
        what = "on data of your own" if job.definition else "with a teacher"
        raise BenchError(f"run {job.key[:12]} was trained {what}, so no change of it can be tried.")
    usual = _options(job, options)
    metric = found.metric or next(iter(_scores(run)), "")
    seeds = _seeds(job, options.db, fewer_rows=usual.limit != job.limit)
    chosen = found.differences[:most]
    session = Session.of(replace(usual, seed=seeds), watch)
    with session.prepared():
        base = session.plan()
        plans = [_plan(usual, each) for each in chosen]
        every = [base, *(each for each in plans if isinstance(each, Plan))]
        jobs = {each.key: each for planned in every for each in planned.jobs}
        with session.run(replace(base, jobs=tuple(jobs.values()))) as driven:
            ended = dict(zip(jobs, driven.store.results(jobs), strict=True))

    def reached(planned: Plan) -> dict[int, float]:
        """The scores of a plan's jobs on the task, by seed."""
        runs = ((each.seed, ended[each.key]) for each in planned.jobs if each.task == job.task)
        return {seed: _scores(each)[metric] for seed, each in runs if isinstance(each, Result)}

    scores, tries = reached(base), list[Try]()
    for each, planned in zip(chosen, plans, strict=True):
        moved, error = None, "it failed" if isinstance(planned, Plan) else planned
        other = reached(planned) if isinstance(planned, Plan) else {}
        if other and job.seed in scores:  # of another seed where that is what was changed
            moved, error = next(iter(other.values())) - scores[job.seed], ""
        share = moved / found.gap if moved is not None and found.gap else None
        tries.append(Try(name=each.name, change=each.change, moved=moved, share=share, error=error))
    # The difference of two runs of one spread has that spread times the root of two.
    count, values = len(scores), scores.values()
    noise = student_t(count - 1, 0.975) * stdev(values) * math.sqrt(2) if count > 1 else None
    failures = tuple(each for each in ended.values() if isinstance(each, Failure))
    return Tries(metric=metric, tries=tuple(tries), noise=noise, seeds=seeds, failures=failures)


def _plan(usual: RunOptions, difference: Difference) -> Plan | str:
    """The run with one value of the other training, or why there is none."""
    if not difference.change:
        return "no setting of a run"
    try:
        return plan(check_request(_changed(usual, difference)))
    except BenchError as error:
        return str(error)


def _scores(run: Result) -> Mapping[str, float]:
    """The scores of the first dev split of the run's own task."""
    found = (e.scores for e in run.evaluations if e.task == run.job.task and e.scores)
    return next(found, {})


def _seeds(job: Job, db: str, *, fewer_rows: bool) -> tuple[int, ...]:
    """The run's seed, and others, first those that have a run like it."""
    with open_store(db) as store:
        rows = [row for row in store.runs(task=job.task) if row.status == "finished"]
    known = (job.weights, job.fingerprints, recipe_digest(job), job.precision)
    alike = [
        row.seed
        for row in rows
        if (row.weights, row.fingerprints, row.recipe_digest, row.precision) == known
    ]
    others = [] if fewer_rows else sorted(alike)
    found = dict.fromkeys((job.seed, *others, job.seed + 1, job.seed + 2))
    return tuple(found)[:SEEDS]


def _options(job: Job, asked: RunOptions) -> RunOptions:
    """The options that make the job again, as its command on the page has them."""
    words = iter(shlex.split(command_of(job))[2:])
    types = {each.name: each.type for each in fields(RunOptions)}
    names = {OPTIONS[name].flag or f"--{name.replace('_', '-')}": name for name in types}
    found: dict[str, object] = {}
    for word in words:
        name = names[word]
        if types[name] is bool:
            found[name] = True
        elif types[name] == Names:
            found[name] = (*found.get(name, ()), next(words))  # type: ignore[misc]
        else:
            found[name] = next(words)
    found |= {"test": False, "seed": (job.seed,), "limit": asked.limit or job.limit}
    # What the checkpoint may do is said now: the run may be somebody else's.
    given = {n: getattr(asked, n) for n in ("db", "device", "jobs", "trust_remote_code")}
    return RunOptions(**{**found, **given, "baselines": False})


def _changed(usual: RunOptions, difference: Difference) -> RunOptions:
    """The options with one value of another training."""
    ((name, value),) = difference.change.items()
    if name == "seed":
        return replace(usual, seed=(int(value),))
    if name == "precision":
        return replace(usual, precision=value)  # type: ignore[arg-type]
    # What says the same in another unit would win over it.
    facts = SETTINGS[name]
    twins = {name, facts.instead_of} | {n for n, f in SETTINGS.items() if f.instead_of == name}
    kept = [each for each in usual.set if each.partition("=")[0] not in twins]
    return replace(usual, set=(*kept, f"{name}={value}"))
