"""What a shell proposes: names of models, tasks, suites, recipes, settings and stored runs.

An option names one of these functions (`completed_by` in options.py); this module is imported only
where a shell asks. What cannot be looked up, such as the names in a store that is damaged, is not
proposed, and nothing is said.
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
from benchharness.driver.options import DATABASE
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import visible
from benchharness.loggers import LOGGERS
from benchharness.models import MODELS
from benchharness.plugins import load_plugins, plugin_loggers
from benchharness.recipes.read import packaged_names, read_recipe
from benchharness.recipes.recipe import SETTINGS
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import COLLECTIONS, SUITES, TASKS, find_suites, title_of

Proposal = tuple[str, str]
"""A word, and what some shells show beside it."""

MANY_RUNS = 200
"""Keys are proposed unasked in a store of so many; in a larger one their first digit is needed."""


def complete(name: str, ctx: typer.Context, incomplete: str) -> list[Proposal]:
    """What the function of this name proposes for a word that begins like this, each word once."""
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
    """Known models; their other names where no own one begins so."""
    for spec in MODELS.values():
        yield spec.name, spec.title
    if incomplete and not any(name.startswith(incomplete.lower()) for name in MODELS):
        for spec in MODELS.values():
            yield from ((alias, spec.name) for alias in spec.aliases)


def suites(_ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """Suites and collections of suites."""
    yield from ((suite.name, suite.title) for suite in SUITES.values())
    yield from ((name, "several suites") for name in COLLECTIONS)


def tasks(ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """Tasks by their full names, or within the suites that are named by their short ones.

    Where a word has begun, also the short names of which there is one.
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
    """The recipes that apply to every model, and the TOML files of this folder."""
    yield "paper", "as the model's paper has it"
    yield "fast", "less of everything"
    yield "checkpoints", "for many checkpoints of one pretraining run"
    yield "few-shot", "for --shots"
    yield "features", "BERT's table of frozen features"
    yield from _toml_files()


def _toml_files() -> Iterator[Proposal]:
    return ((path.name, "") for path in sorted(Path().glob("*.toml")))


def settings(_ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """Hyperparameters with the sign behind them; of one that is clear also values that papers use.

    With several proposals a shell puts no space behind what they share.
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
    """Initial weights; those of many tasks where the command has them."""
    yield "paper", "what the recipe says"
    yield "pretrained", "the checkpoint's own"
    if any(parameter.name == "multi_task" for parameter in ctx.command.params):
        yield "multi-task", "the tasks of --multi-task"
    yield from _trained()


def multi_task(_ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """What may share an encoder: suites, and tasks that have rows to train on."""
    yield from ((suite.name, suite.title) for suite in SUITES.values())
    yield from _trained()


def _trained() -> Iterator[Proposal]:
    return ((name, title_of(name)) for name, task in TASKS.items() if task.has_train)


def trackers(_ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """Our loggers and those of plugins."""
    yield from ((name, "") for name in (*LOGGERS, *plugin_loggers()))


def stored_models(ctx: typer.Context, _incomplete: str) -> Iterator[Proposal]:
    """The models that have runs in the store."""
    with _store(ctx) as store:
        yield from ((name, "") for name in store.models())


def keys(ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """The beginnings of stored runs' keys."""
    with _store(ctx) as store:
        if incomplete or store.count() <= MANY_RUNS:
            for run in store.runs(key=incomplete.lower() or None):
                yield run.key[:12], f"{run.model} {run.task}, seed {run.seed}, {run.status}"


def stored_systems(ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """Models that have runs, and the runs."""
    yield from stored_models(ctx, incomplete)
    yield from keys(ctx, incomplete)


def shown(ctx: typer.Context, incomplete: str) -> Iterator[Proposal]:
    """What `bench show` takes."""
    before = ctx.params.get("names") or ()
    if "recipe" in before[:1]:
        yield from models(ctx, incomplete)
        yield from ((name, "recipe") for name in packaged_names())
        yield from _toml_files()
        yield from tasks(ctx, incomplete)
        return
    if not before:
        yield "recipe", "the values that a model is trained with"
        yield from ((word, line.help) for word, line in inner("show").items())
    for some in (suites, tasks, models, keys):
        yield from some(ctx, incomplete)


def _store(ctx: typer.Context) -> Store:
    """The store that the command will open, as it is."""
    db = ctx.params.get("db") or os.environ.get("BENCH_DB") or DATABASE
    return open_store(db, create=False, upgrade=False)


PROPOSERS = {
    each.__name__: each
    for each in (models, suites, tasks, recipes, settings, starts, multi_task, trackers)
} | {each.__name__: each for each in (stored_models, keys, stored_systems, shown)}
"""By the names that options use."""
