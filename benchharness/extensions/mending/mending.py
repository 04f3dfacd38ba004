"""Advise on collapsed runs, which have learned nothing: find settings that most likely help.

Three causes are checked, the most frequent one first: the training was too short, the user's
learning rate is too high, or the recipe's learning rate is too low for a small encoder. If none
applies, the advice is a lower rate in a longer training (Mosbach et al., arXiv:2006.04884).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from benchharness.driver.advice import Advice
from benchharness.driver.few_rows import FEW_ROWS, LEAST_STEPS, enough_steps
from benchharness.driver.options import RunOptions
from benchharness.extensions.mending.words import python_call, shell_command
from benchharness.leaderboard.job import SET, Job, value_text
from benchharness.leaderboard.result import Result, RunRow
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import counted
from benchharness.models import ModelSpec, find_model, find_models
from benchharness.recipes import resolve_sweep
from benchharness.tasks.suites import distinct_title

RATE = "learning_rate"

OF_FEW_ROWS = frozenset(
    {
        *("epochs", "steps", "batch_size", "accumulation", RATE, "head_learning_rate"),
        *("schedule", "warmup_ratio", "warmup_steps", "best_checkpoint", "early_stopping"),
        "select_on",
    }
)
"""Settings that a command with the recipe FEW_ROWS leaves out, so that its own values apply."""

MOST_STEPS = 2000
"""Number of training steps above which the advice is not to train for longer."""

FROZEN_RATE = 1e-3
"""Learning rate of a head on a frozen encoder (recipes/features.toml)."""


def advise(options: RunOptions, store: Store, rows: Sequence[RunRow]) -> Iterator[Advice]:
    """Yield a command for the collapsed runs of each model; one command may cover several tasks.

    Runs of a sweep are left out if one of the sweep's settings has learned something.

    Args:
        options: Options of the user's `bench run`.
        store: Open store of results.
        rows: Finished jobs of the user's run.
    """
    found: defaultdict[tuple[str, str, RunOptions], list[str]] = defaultdict(list)
    for task, runs in _by_score(rows):
        lost = [run for run in runs if run.has_collapsed(task)]
        is_sweep = runs[0].is_sweep
        if not lost or (is_sweep and len(lost) < len(runs)):
            continue
        result = store.result(lost[0].key)
        if isinstance(result, Result):
            asked, model = _of_model(options, result.job)
            reason, changed = remedy(asked, result.job, model, result.cost.steps)
            count = f"{len(lost)} of {counted(len(runs), 'run' if is_sweep else 'seed')}"
            found[result.job.model, f"learned nothing ({count}): {reason}", changed].append(task)
    for (name, said, changed), tasks in found.items():
        whole = _of_tasks(changed, tasks)
        titles = ", ".join(dict.fromkeys(distinct_title(task) for task in tasks))
        yield Advice(
            sentence=f"{name} on {titles} {said}. Most likely to help:",
            command=shell_command(whole, tasks),
            call=python_call(whole),
        )


def _by_score(rows: Iterable[RunRow]) -> Iterator[tuple[str, list[RunRow]]]:
    """Yield pairs (task, runs): runs that differ only in the seed, or all runs of a sweep.

    A run that is trained on several tasks is yielded once for each of them.
    """
    found: defaultdict[tuple[str, ...], list[RunRow]] = defaultdict(list)
    for row in rows:
        for task in row.trained_tasks if row.kind == "model" else ():
            found[row.model, task, "" if row.is_sweep else row.recipe_digest].append(row)
    for (_, task, _), runs in found.items():
        yield task, runs


def remedy(options: RunOptions, job: Job, model: ModelSpec, steps: int) -> tuple[str, RunOptions]:
    """Return the probable reason why a job has learned nothing, and options that most likely help.

    Args:
        options: Options with which the job was run.
        job: Job that has learned nothing.
        model: Model of the job.
        steps: Number of training steps of the job.

    Returns:
        The reason as a clause, such as "it was trained for only 20 steps", and the new options.
    """
    enough, setting = enough_steps(), job.settings[RATE]
    rate = float(setting.value)
    again = replace(options, force=False, halving=False)
    is_few_rows = job.recipe == FEW_ROWS and not job.own_recipe
    if is_few_rows:  # the recipe may have been chosen automatically
        again = replace(again, recipe=FEW_ROWS)
    if "features" in job.settings:
        values = {"steps": str(max(enough, 2 * steps))}
        values |= {RATE: value_text(FROZEN_RATE)} if rate < FROZEN_RATE else {}
        return f"its head was trained for {counted(steps, 'step')}", _set(again, values, {"epochs"})
    if steps < LEAST_STEPS and not is_few_rows:
        short = f"it was trained for only {counted(steps, 'step')}"
        return short, _set(replace(again, recipe=FEW_ROWS), {}, OF_FEW_ROWS)
    own = _own_rate(job, model, again.recipe)
    if setting.source == SET and rate > own:
        high = f"its learning rate {value_text(rate)} is above its recipe's {value_text(own)}"
        return high, _set(again, {}, {RATE})
    small = _own_rate(job, model, FEW_ROWS)
    if rate < small and (setting.source != SET or steps <= enough):
        low = f"its learning rate {value_text(rate)} is low for a small encoder"
        return low, _set(again, {RATE: value_text(small)}, {})
    values = {RATE: value_text(rate / 2)}
    values |= {"steps": str(2 * steps)} if steps < MOST_STEPS else {}
    begun = f"{counted(steps, 'step')} at a learning rate of {value_text(rate)}"
    again = _set(again, values, {"epochs"} if "steps" in values else {})
    return f"it did not begin to learn in {begun}", again


def _own_rate(job: Job, model: ModelSpec, recipe: str | None) -> float:
    """Return the (highest) learning rate of a recipe for the model and the task of a job."""
    as_text = {"as_text": "true"} if job.as_text else {}
    points = resolve_sweep(model, job.task, recipe, as_text)
    return max(float(point.settings[RATE].value) for point in points)


def _set(options: RunOptions, values: Mapping[str, str], without: Collection[str]) -> RunOptions:
    """Return the options with `values` for `--set`, and without the settings named in `without`."""
    gone = {*values, *without}
    kept = [each for each in options.set if each.partition("=")[0].strip() not in gone]
    return replace(options, set=(*kept, *(f"{name}={value}" for name, value in values.items())))


def _of_model(options: RunOptions, job: Job) -> tuple[RunOptions, ModelSpec]:
    """Return the options for only the model of a job, as the user wrote it, and the model.

    A model that the user did not name is a teacher.
    """
    other = job.start.model if job.start and job.start.kind == "checkpoint" else ""
    for word in options.model:
        found = find_models(word, options.trust)
        for spec in found:
            if spec.name == other or spec.checkpoint == job.checkpoint:
                words = (word,) if len(found) == 1 else (f"{job.model}={job.checkpoint}",)
                return replace(options, model=words), spec
    alone = replace(options, model=(job.checkpoint,), teacher=None)
    return alone, find_model(job.checkpoint, job.trust)


def _of_tasks(options: RunOptions, tasks: Iterable[str]) -> RunOptions:
    """Return the options for only these tasks, unless the user's own data define the task."""
    if options.data_file is not None or options.hf is not None:
        return replace(options, task=(), data=None)
    if options.multi_task:
        return options
    return replace(options, suite=(), task=tuple(tasks))
