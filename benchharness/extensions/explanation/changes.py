"""Repeat a stored run with single settings of another training run, to measure their effects."""

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
from benchharness.errors import BenchError
from benchharness.extensions.explanation.differences import Difference, Explanation
from benchharness.leaderboard.job import Job, recipe_digest
from benchharness.leaderboard.report.run import command_of
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.statistics import student_t
from benchharness.leaderboard.store.store import open_store
from benchharness.recipes.recipe import SETTINGS

SEEDS = 3
"""Number of seeds with which the unchanged run is repeated, to estimate the noise. A run with a
changed setting has only the seed of the stored run (or the other seed, if that is the change).
"""


@dataclass(frozen=True, kw_only=True)
class Try:
    """Effect of changing one setting of a run, while all other settings stay the same.

    Scores are from 0 to 1.

    Attributes:
        name: The name of the setting.
        change: Mapping from the option that changes the setting to its new value; empty if there is
            no such option.
        moved: The new score minus the run's score; None if no option changes the setting, the
            changed run cannot be planned, or one of the two runs failed.
        share: `moved` divided by the other training run's score minus the run's score; None if one
            of these numbers is unknown, or if the two scores do not differ.
        error: The reason why `moved` is None; empty if it is a number.
        flags: Warnings about the score of the changed run, e.g. that it has collapsed.
    """

    name: str
    change: Mapping[str, str]
    moved: float | None = None
    share: float | None = None
    error: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tries:
    """Effects of changed settings, and the random noise with which they can be compared.

    Attributes:
        metric: The metric of the scores.
        tries: The changed settings and their effects.
        noise: Half the width of the 95 % interval for the difference between the scores of two runs
            that differ only in their seed; None if fewer than two seeds of the run finished.
        seeds: The seeds with which the unchanged run was repeated to estimate the noise.
        failures: The jobs that failed.
    """

    metric: str
    tries: tuple[Try, ...]
    noise: float | None
    seeds: tuple[int, ...]
    failures: tuple[Failure, ...] = field(default=())


def try_changes(
    run: Result, found: Explanation, most: int, options: RunOptions, watch: Watch = unwatched
) -> Tries:
    """Repeat a run once per differing setting, with only this setting changed.

    The unchanged run is repeated too, with SEEDS seeds. All runs are stored, and runs that are
    already in the database are not repeated.

    Args:
        run: The stored run.
        found: The comparison of the run with another training run, which has the changed values.
        most: The number of differences to try. The first ones are the likeliest causes.
        options: Options of the user: the database, --limit, --device, --jobs and
            --trust-remote-code.
        watch: The function that creates the progress display.

    Returns:
        The effect of each change on the score, and the noise.

    Raises:
        BenchError: The run was trained on the user's own data, or with a teacher.
    """
    job = run.job
    if job.definition is not None or job.teacher is not None:
        what = "on data of your own" if job.definition else "with a teacher"
        raise BenchError(f"run {job.key[:12]} was trained {what}, so --try cannot repeat it.")
    usual = _options(job, options)
    metric = found.metric or next(iter(_scores(run)), "")
    seeds = _seeds(job, options.db, fewer_rows=usual.limit != job.limit)
    chosen = found.differences[:most]
    session = Session.of(replace(usual, seed=seeds), watch)
    with session.prepared():
        base = session.plan()
        plans = [_plan(usual, each, job) for each in chosen]
        every = [base, *(each for each in plans if isinstance(each, Plan))]
        jobs = {each.key: each for planned in every for each in planned.jobs}
        with session.run(replace(base, jobs=tuple(jobs.values()))) as driven:
            ended = dict(zip(jobs, driven.store.results(jobs), strict=True))

    def reached(planned: Plan) -> dict[int, float]:
        """Return the scores of a plan's jobs on the task, keyed by seed."""
        runs = ((each.seed, ended[each.key]) for each in planned.jobs if each.task == job.task)
        return {seed: _scores(each)[metric] for seed, each in runs if isinstance(each, Result)}

    def warnings(planned: Plan) -> tuple[str, ...]:
        """Return the warnings about the scores of a plan's jobs on the task."""
        runs = (ended[each.key] for each in planned.jobs if each.task == job.task)
        return next((r.flags.get(job.task, ()) for r in runs if isinstance(r, Result)), ())

    scores, tries = reached(base), list[Try]()
    for each, planned in zip(chosen, plans, strict=True):
        moved, error = None, "the run failed" if isinstance(planned, Plan) else planned
        other = reached(planned) if isinstance(planned, Plan) else {}
        # If the changed setting is the seed, the key in `other` is not `job.seed`.
        if other and job.seed in scores:
            moved, error = next(iter(other.values())) - scores[job.seed], ""
        share = moved / found.gap if moved is not None and found.gap else None
        flags = warnings(planned) if isinstance(planned, Plan) else ()
        tries.append(
            Try(
                name=each.name,
                change=each.change,
                moved=moved,
                share=share,
                error=error,
                flags=flags,
            )
        )
    # The standard deviation of the difference of two runs is sqrt(2) times that of one run.
    count, values = len(scores), scores.values()
    noise = student_t(count - 1, 0.975) * stdev(values) * math.sqrt(2) if count > 1 else None
    failures = tuple(each for each in ended.values() if isinstance(each, Failure))
    return Tries(metric=metric, tries=tuple(tries), noise=noise, seeds=seeds, failures=failures)


def _plan(usual: RunOptions, difference: Difference, job: Job) -> Plan | str:
    """Plan a repetition of the run `job` with one value of the other training run.

    If this is impossible, return the reason as a string.
    """
    if not difference.change:
        return "no option changes it"
    if "limit" in difference.change and usual.limit != job.limit:
        return "--limit keeps fewer rows in all runs of --try"
    try:
        planned = plan(check_request(_changed(usual, difference)))
    except BenchError as error:
        return str(error)
    misfit = _misfit(planned, difference, job) if "limit" in difference.change else ""
    return misfit or planned


def _misfit(planned: Plan, difference: Difference, job: Job) -> str:
    """Return the reason why leaving out --limit would not reproduce the other number of rows.

    The reason is empty if the run without --limit has about as many training rows as the other
    training (whose number may be an estimate from the number of steps), and the same dev rows as
    with --limit.
    """
    train = f"{job.task}:train"
    whole = next(each.fingerprints for each in planned.jobs if each.task == job.task)
    # A test split of the run is not predicted by the planned jobs.
    rest = (name for name in job.fingerprints if name != train and name in whole)
    if any(whole[name] != job.fingerprints[name] for name in rest):
        return "without --limit, the dev rows change too"
    rows = planned.used_rows[whole[train]]
    if not math.isclose(rows, difference.theirs, rel_tol=0.05):
        return f"without --limit, there are {rows:,} rows"
    return ""


def _scores(run: Result) -> Mapping[str, float]:
    """Return the scores on the first dev split of the run's own task, keyed by name."""
    found = (e.scores for e in run.evaluations if e.task == run.job.task and e.scores)
    return next(found, {})


def _seeds(job: Job, db: str, *, fewer_rows: bool) -> tuple[int, ...]:
    """Return SEEDS seeds: the run's seed, and preferably seeds with which its job is stored.

    If `fewer_rows` is True, stored runs cannot be reused, so their seeds are not preferred.
    """
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
    """Return the options that repeat a job, as in the command on its report page."""
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
    # Only the options of the user decide whether third-party code is trusted, because the run may
    # come from someone else.
    given = {n: getattr(asked, n) for n in ("db", "device", "jobs", "trust_remote_code")}
    return RunOptions(**{**found, **given, "baselines": False})


def _changed(usual: RunOptions, difference: Difference) -> RunOptions:
    """Return the options of the run, with one value replaced by the other training run's value."""
    ((name, value),) = difference.change.items()
    if name == "seed":
        return replace(usual, seed=(int(value),))
    if name == "limit":
        return replace(usual, limit=None)
    if name == "precision":
        return replace(usual, precision=value)  # type: ignore[arg-type]
    # Remove settings for the same quantity in another unit (`epochs` for `steps`), which would
    # override the value.
    facts = SETTINGS[name]
    twins = {name, facts.instead_of} | {n for n, f in SETTINGS.items() if f.instead_of == name}
    kept = [each for each in usual.set if each.partition("=")[0] not in twins]
    return replace(usual, set=(*kept, f"{name}={value}"))
