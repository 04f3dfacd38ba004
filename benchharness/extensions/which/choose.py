"""Search for the best encoder on some tasks, over encoders, learning rates and seeds."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchharness.driver.advice import Advice, advice_on
from benchharness.driver.few_rows import few_steps
from benchharness.driver.options import RunOptions, names_in
from benchharness.driver.plan import Plan
from benchharness.driver.request import MULTI_TASK, Request
from benchharness.driver.session import Session
from benchharness.engines.slots import Slot
from benchharness.errors import BenchError, JobError
from benchharness.extensions.search.rounds import Search, trials_of
from benchharness.extensions.which.answers import Answer, find_answers
from benchharness.extensions.which.rounds import encoder_rounds
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store.database import check_writable, is_there
from benchharness.models import BASELINES
from benchharness.tasks.task import Task
from benchharness.worker import DIES_WITH
from benchharness.worker.__main__ import QUIET


def check_tasks(tasks: Sequence[Task]) -> None:
    """Check that encoders can be ranked by their mean score on these tasks.

    Trained and untrained tasks cannot be combined, because an untrained task has one run per
    encoder instead of several seeds.

    Raises:
        BenchError: There are no tasks, some are trained and some are not, or tasks of different
            suites have different heads.
    """
    if not tasks:
        raise BenchError(
            "none of the requested tasks has training data: choose one that has (--task glue/rte)."
        )
    untrained = [task.name for task in tasks if not task.has_train]
    if 0 < len(untrained) < len(tasks):
        raise BenchError(
            f"{untrained[0]} is scored without training, so it has no seeds like the other tasks: "
            "run it in a separate command."
        )
    heads = {task.head: task.name for task in tasks}
    if len(heads) > 1 and len({task.suite for task in tasks}) > 1:
        kinds = " and ".join(f"{name} ({head})" for head, name in heads.items())
        raise BenchError(
            f"{kinds} have different heads, and no suite averages their scores: run a separate "
            "command for each head type."
        )


RATES = "learning_rate=x1,x2,x0.5"
"""Default learning rates that are tried for each encoder: the recipe's rate, twice this rate, and
half of it."""


def options_among(options: RunOptions, among: Sequence[str]) -> RunOptions:
    """Return the options with which the runs of a search are planned.

    Args:
        options: Options of the user. If they set neither a learning rate nor a recipe file, the
            learning rates in `RATES` are tried.
        among: Names of the encoders to choose from.

    Raises:
        BenchError: There are fewer than two encoders, one is a baseline, or training starts from
            a multi-task model, which is possible only with one value per setting.
    """
    names = names_in(among)
    if len(names) < 2:
        raise BenchError("name two or more encoders to choose from (--among bert,roberta).")
    if baselines := [spec.name for spec in BASELINES if spec.name in names]:
        raise BenchError(f"{baselines[0]} is a baseline, not an encoder: remove it from --among.")
    if options.start_from == MULTI_TASK:
        raise BenchError(
            "--start-from multi-task can only be used with `bench run`: a multi-task model has one "
            "value per setting, but `bench which` tries several values. Use a task or a checkpoint."
        )
    says = any(each.partition("=")[0].strip() == "learning_rate" for each in options.set)
    is_own = options.recipe is not None and Path(options.recipe).suffix == ".toml"
    settings = (*options.set, *(() if says or is_own else (RATES,)))
    return replace(options, model=tuple(names), set=settings, baselines=True)


CHEAP_SECONDS = 60.0
"""Maximum estimated duration of a baseline, in seconds, with which it is run after a search."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Result of a search for the best encoder.

    Attributes:
        answers: One ranking per task and, if there are several tasks, a last one by their mean.
        search: The search, with its jobs and their results.
        warnings: Warnings about tasks on which encoders are trained for too few steps.
        advice: Commands that would most likely help after runs that learned nothing.
    """

    answers: list[Answer]
    search: Search
    warnings: tuple[str, ...]
    advice: tuple[Advice, ...]


def choose(
    session: Session,
    minutes: float,
    tell: Callable[[str], None] = lambda _: None,
    warn: Callable[[Sequence[str]], None] = lambda _: None,
) -> Found:
    """Search for the best encoder within a number of minutes.

    Baselines are run after the search, and take none of the minutes. The majority baseline is
    always run, and other baselines if they take at most CHEAP_SECONDS seconds.

    Args:
        session: Session whose request names the encoders and tasks.
        minutes: Time budget; runs that are stored already take no time.
        tell: Function that is called with a description of each round of the search.
        warn: Function that is called with the messages of the plan for the user, before any job
            starts.

    Raises:
        BenchError: The minutes are not positive or too few for one run of each encoder on each
            task, there are fewer than two encoders to compare, or they cannot be ranked on these
            tasks (see `check_tasks`).
    """
    if not 0 < minutes < math.inf:
        raise BenchError(f"--minutes must be a number above 0, but got {minutes:g}.")
    # Leave out tasks such as AX, which is predicted by models that are trained on MNLI.
    trained = tuple(task for task in session.request.tasks if task.trained_on is None)
    check_tasks(trained)
    session = replace(session, request=replace(session.request, tasks=trained))
    if not is_there(session.options.db):
        check_writable(session.options.db)
    with session.prepared():
        planned = session.plan()
        names = {task.name for task in trained}
        jobs = [job for job in planned.jobs if job.kind == "model" and job.task in names]
        if len({job.model for job in jobs}) < 2:
            raise BenchError(
                "there is only one encoder to choose from: name two or more different encoders "
                "(--among bert,roberta)."
            )
        warn(planned.notes)
        search = Search(planned, trials_of(jobs, lambda job: job.model), encoder_rounds)
        search.run(session, minutes, tell)
        keys = _cheap_baselines(session, planned)
        with session.drive(session.schedule(planned.part(keys))) as driven:
            search.outcomes += driven.outcomes
            tasks = tuple(dict.fromkeys(job.task for job in jobs))
            ended = [job.key for job in search.jobs]
            return Found(
                answers=find_answers(driven.store, search.jobs, tasks, keys),
                search=search,
                warnings=tuple(few_steps(session.request, planned.jobs, planned.rows)),
                advice=tuple(advice_on(session.options, driven.store, ended)),
            )


def _cheap_baselines(session: Session, planned: Plan) -> list[str]:
    """Return the keys of the baselines that are run after a search."""
    keys = [job.key for job in planned.jobs if job.kind == "baseline"]
    schedule = session.preview(planned.part(keys))
    return [
        job.key
        for job in schedule.jobs
        if job.checkpoint == BASELINES[0].checkpoint
        # A stored run has no estimate, because it takes no time.
        or schedule.weights.get(job.key, 0.0) <= CHEAP_SECONDS
    ]


# Cost of inference on a device of this machine, measured in a separate process.

MEASURE = (sys.executable, "-P", "-m", "benchharness.extensions.which.inference")


@dataclass(frozen=True, kw_only=True)
class Inference:
    """Cost of inference with an encoder, measured in a separate process.

    Attributes:
        tokens_per_second: Number of tokens, without padding, that the encoder processes per second.
        peak_memory_bytes: Peak memory of the GPU; on a CPU, peak memory of the whole process, which
            includes about half a gigabyte of libraries.
        parameters: Number of parameters.
        threads: Number of CPU threads.
    """

    tokens_per_second: float
    peak_memory_bytes: int
    parameters: int
    threads: int


def measured(request: Request, jobs: Sequence[Job]) -> dict[str, Inference | str]:
    """Measure the cost of inference with each encoder, one after the other.

    The first job of each encoder is measured, so that all encoders predict rows of the same task.

    Args:
        request: Request of the search, which has the devices on which jobs run. Nothing is measured
            if they run on other machines.
        jobs: Jobs of the search.

    Returns:
        The costs, keyed by encoder. If a cost could not be measured, its value is a sentence with
        the reason.
    """
    # A dict keeps the last value of a key, so the reversed jobs give the first job of each model.
    firsts = {job.model: job for job in reversed(jobs)}
    return {name: _cost(request, firsts[name]) for name in dict.fromkeys(job.model for job in jobs)}


def _cost(request: Request, job: Job) -> Inference | str:
    if request.placement.forks is None:
        return "speed was not measured, because jobs run on other machines."
    if job.is_zero_shot:
        return "speed was not measured, because the task is predicted without a trained head."
    try:
        return measure_inference(job, request.slots[0], MEASURE_SECONDS)
    except BenchError as error:
        return str(error)


MEASURE_SECONDS = 600.0
"""Timeout in seconds for measuring one encoder, including the time to load it."""


def measure_inference(job: Job, slot: Slot, timeout: float | None = None) -> Inference:
    """Measure the cost of inference with a job's network on rows of its dev split.

    Args:
        job: Job with the encoder, the task and the precision.
        slot: Device on which the measurement runs.
        timeout: Maximum number of seconds, including the time to load the network; None for no
            limit.

    Raises:
        JobError: The measurement failed or took longer than `timeout` seconds.
    """
    environment = {**os.environ, **QUIET, **slot.environment, DIES_WITH: str(os.getpid())}
    try:
        ended = subprocess.run(  # noqa: S603  (our own module)
            MEASURE,
            input=json.dumps(job.to_json()),
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        found = json.loads(ended.stdout.rstrip().rpartition("\n")[2])  # skip output of libraries
        if "error" in found:
            raise JobError(found["error"])
        return Inference(**found)
    except subprocess.TimeoutExpired as error:
        raise JobError(f"measuring {job.model} took more than {timeout:g} seconds.") from error
    except (ValueError, TypeError) as error:
        last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        raise JobError(f"measuring {job.model} failed: {last}") from error
