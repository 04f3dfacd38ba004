"""Shell completion of names of models, tasks, suites, recipes, hyperparameters and stored runs.

The declaration of an option names one of these functions (see `completed_by` in options.py), and
this module is imported only when the shell asks for a completion. Errors, such as a damaged
database, are ignored.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from itertools import chain
from pathlib import Path

import typer

from benchharness.cli.commands import inner
from benchharness.discovery import places
from benchharness.driver.options import DATABASE
from benchharness.errors import BenchError
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import visible
from benchharness.models import MODELS
from benchharness.plugins import load_plugins, plugin_loggers
from benchharness.recipes.read import packaged_names, read_recipe
from benchharness.recipes.recipe import SETTINGS
from benchharness.tasks.suites import COLLECTIONS, SUITES, TASKS, find_suites, title_of

Proposal = tuple[str, str]
"""Type of pairs of a proposed word and its description, which some shells show next to the word."""

MANY_RUNS = 200
"""Largest number of stored runs for which all keys are proposed. In a larger database, keys are
proposed only after the user has typed at least one character."""


def complete(name: str, ctx: typer.Context, incomplete: str) -> list[Proposal]:
    """Return the words that the shell may propose, without duplicates.

    Args:
        name: The key of a function in PROPOSERS, which yields possible words.
        ctx: The parser's context, with the options that come before the word.
        incomplete: The beginning of the word, which the user has typed. All proposals begin with
            this text, ignoring upper and lower case.

    Returns:
        Pairs of a word and its description.
    """
    found: dict[str, str] = {}
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        with suppress(BenchError):
            load_plugins(ctx.params.get("plugin") or None)
        with suppress(BenchError, OSError):
            found.update(
                (word, told)
                for word, told in PROPOSERS[name](ctx, incomplete)
                if word.lower().startswith(incomplete.lower()) and visible(word) == word
            )
    return list(found.items())


def models(_ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """Yield the known models; if none begins with `incomplete`, also yield their aliases."""
    for spec in MODELS.values():
        yield spec.name, spec.title
    if incomplete and not any(name.startswith(incomplete.lower()) for name in MODELS):
        for spec in MODELS.values():
            yield from ((alias, spec.name) for alias in spec.aliases)


def suites(_ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """Yield the names of suites, and names that stand for several suites."""
    yield from ((suite.name, suite.title) for suite in SUITES.values())
    yield from ((name, "several suites") for name in COLLECTIONS)


def tasks(ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """Yield the names of tasks.

    If the command line names suites, these are the short names of the suites' tasks. Otherwise they
    are the full names of all tasks and, if `incomplete` is not empty, unambiguous short names.
    """
    chosen = ctx.params.get("suite") or ()
    names = [chosen] if isinstance(chosen, str) else list(chosen)
    inside = [task for name in names for suite in find_suites(name) for task in suite.tasks]
    short = Counter(task.partition("/")[2] for task in inside or TASKS)
    for task in inside or TASKS:
        name = task.partition("/")[2]
        if not inside:
            yield task, title_of(task)
        if inside or (incomplete and short[name] == 1):
            yield name, title_of(task)


def recipes(_ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """Yield the packaged recipes that suit every model, and TOML files in the current folder."""
    yield "paper", "the recipe of the model's paper"
    yield "fast", "one epoch on shortened texts"
    yield "checkpoints", "for many checkpoints of one pretraining run"
    yield "few-rows", "more steps, for small data sets"
    yield "few-shot", "for few-shot training (--shots)"
    yield "features", "frozen encoder"
    yield from _toml_files()


def _toml_files() -> Iterator[Proposal]:
    return ((path.name, "") for path in sorted(Path().glob("*.toml")))


def settings(_ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """Yield the hyperparameters whose names begin with `incomplete`, in the form "NAME=".

    If there is only one, its common values follow in the form "NAME=VALUE". The shell then does not
    append a space after "NAME=", because there are several proposals.
    """
    begun = incomplete.partition("=")[0].lower()
    names = [name for name in SETTINGS if name.startswith(begun)]
    yield from ((f"{name}=", "") for name in names)
    if len(names) == 1:
        (name,) = names
        tables = chain.from_iterable(read_recipe(p).values() for p in packaged_names().values())
        used = {str(value.value) for table in tables if (value := table.get(name)) is not None}
        for word in SETTINGS[name].rule.words or sorted(used):
            yield f"{name}={word}", ""


def starts(ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """Yield values of --start-from, including "multi-task" if the command has --multi-task."""
    yield "paper", "as the recipe specifies"
    yield "pretrained", "the pretrained weights"
    if any(parameter.name == "multi_task" for parameter in ctx.command.params):
        yield "multi-task", "the model of --multi-task"
    yield from _trained()


def multi_task(_ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """Yield values of --multi-task: suites, and tasks that have training examples."""
    yield from ((suite.name, suite.title) for suite in SUITES.values())
    yield from _trained()


def _trained() -> Iterator[Proposal]:
    return ((name, title_of(name)) for name, task in TASKS.items() if task.has_train)


def trackers(_ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """Yield the names of all loggers, including those of plugins."""
    yield from ((name, "") for name in (*places("loggers"), *plugin_loggers()))


def stored_models(ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """Yield the names of the models that have runs in the database that the command would use."""
    with _store(ctx) as store:
        yield from ((name, "") for name in store.models())


def keys(ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """Yield a proposal for each stored run whose key begins with `incomplete`.

    A proposal consists of the first 12 characters of the key, and a description of the run. If
    `incomplete` is empty and there are more than MANY_RUNS runs, nothing is yielded.
    """
    with _store(ctx) as store:
        if incomplete or store.count() <= MANY_RUNS:
            for run in store.runs(key=incomplete.lower() or None):
                yield run.key[:12], f"{run.model} {run.task}, seed {run.seed}, {run.status}"


def stored_systems(ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """Yield the names of the models that have stored runs, and the keys of the runs."""
    yield from stored_models(ctx, incomplete)
    yield from keys(ctx, incomplete)


def shown(ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """Yield words that `bench show` accepts as its next argument, after those already typed."""
    before = ctx.params.get("names") or ()
    if "recipe" in before[:1]:
        yield from models(ctx, incomplete)
        yield from ((name, "recipe") for name in packaged_names())
        yield from _toml_files()
        yield from tasks(ctx, incomplete)
        return
    if not before:
        yield "recipe", "the hyperparameters of a model on a task"
        yield from ((word, line.help) for word, line in inner("show").items())
    for some in (suites, tasks, models, keys):
        yield from some(ctx, incomplete)


def _store(ctx: typer.Context) -> Store:
    """Open the store that the command would use, without upgrading its schema."""
    db = ctx.params.get("db") or os.environ.get("BENCH_DB") or DATABASE
    return open_store(db, create=False, upgrade=False)


PROPOSERS = {
    each.__name__: each
    for each in (models, suites, tasks, recipes, settings, starts, multi_task, trackers)
} | {each.__name__: each for each in (stored_models, keys, stored_systems, shown)}
"""Functions that yield the words which the shell may propose, keyed by name.

The declaration of an option or argument contains one of these names. Each function gets the
parser's context and the beginning of the word, which the user has typed."""
