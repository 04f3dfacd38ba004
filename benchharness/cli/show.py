"""The command `bench show`, which prints facts about runs, models, tasks, suites and recipes."""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from benchharness.cli.options import (
    AsJson,
    Database,
    OfRuns,
    Suites,
    argument,
    declared,
    with_options,
)
from benchharness.cli.output import (
    collection_facts,
    in_words,
    is_bounded,
    model_facts,
    outcome_facts,
    print_json,
    print_json_lines,
    print_outline,
    print_table,
    published_facts,
    recipe_facts,
    run_facts,
    suite_facts,
    system_facts,
    task_facts,
)
from benchharness.driver.options import DATABASE, names_in, option
from benchharness.errors import BenchError, ModelError, unknown_name
from benchharness.leaderboard.boards.published import (
    PublishedCell,
    PublishedRow,
    find_system,
    systems,
)
from benchharness.leaderboard.boards.published import published as published_rows
from benchharness.leaderboard.job import START_FROM
from benchharness.leaderboard.result import MARK
from benchharness.leaderboard.text import counted, grouped
from benchharness.models import MODELS, ModelSpec, find_model
from benchharness.progress import MOST_SCORES
from benchharness.recipes.read import file_facts, packaged_names
from benchharness.recipes.recipe import SETTINGS, shown_value
from benchharness.recipes.resolve import (
    compare_recipes,
    resolve_recipe,
    resolve_sweep,
    with_start,
)
from benchharness.tasks.suites import (
    COLLECTIONS,
    SUITES,
    TASKS,
    distinct_title,
    find_suites,
    find_task,
    select_tasks,
    tasks_called,
)
from benchharness.tasks.task import Task

if TYPE_CHECKING:
    from benchharness.leaderboard.result import RunRow

# Modules that read the database are imported only where they are needed, because they import
# SQLAlchemy, which takes three times as long as the rest of a command that only lists tasks.

Names = Annotated[
    list[str],
    argument(
        "NAME...",
        "The first characters of a run's key, or the name of a model, task or suite. For "
        "hyperparameters: recipe MODEL TASK [FILE], recipe MODEL MODEL [TASK], recipe MODEL MODEL "
        "MODEL... TASK, or recipe FILE.",
        "shown",
    ),
]

RUN_KEY = re.compile(r"[0-9a-f]{4,64}")
"""Pattern for the first characters of a run's key. At least four characters are needed, so that a
short name such as "bad" is not taken for a key."""


@with_options()
def show(names: Names, *, db: Database = DATABASE, as_json: AsJson = False) -> None:
    """Show everything about a stored run (such as its scores and cost), a model, task or suite.

    `bench show recipe roberta cola` shows the hyperparameters of a model on a task. `bench show
    recipe roberta electra` shows where the hyperparameters of two models differ. `bench show recipe
    'bert*' roberta electra cola` is a table of several models.
    """
    if names[0] == "recipe":
        _show_recipe(names[1:], as_json=as_json)
        return
    found = [_find(name, db) for name in names]
    _print_facts(found, as_json=as_json)


def _find(name: str, db: str) -> dict[str, Any]:
    """Return facts about the suite, task, run or model with this name.

    These kinds of names are tried in this order.
    """
    wanted = name.lower()
    if wanted in SUITES:
        return {"kind": "suite", **suite_facts(SUITES[wanted])}
    if wanted in COLLECTIONS:
        return {"kind": "collection", **collection_facts(wanted)}
    if _is_task(name):
        return {"kind": "task", **task_facts(_find_task(name, db))}
    if RUN_KEY.fullmatch(wanted):
        outcome, model, more = _stored().stored_run(name, db)
        return {"kind": "run", "kept_model": model and str(model), **more, **outcome_facts(outcome)}
    if _is_own_task(name, db):
        return {"kind": "task", **task_facts(find_task(name))}
    model = _find_model(name, "run, model, task or suite", [*SUITES, *COLLECTIONS, *TASKS])
    return {"kind": "model", **model_facts(model)}


def _find_task(name: str, db: str) -> Task:
    """Return the task with this name.

    If several suites have a task with this name, return the only one that has stored runs.
    """
    try:
        return find_task(name)
    except BenchError:
        if not _stored().is_there(db):
            raise
        with _stored().opened(db) as store:
            return find_task(name, lambda task: store.count(task=task.name) > 0)


def _is_task(name: str) -> bool:
    return bool(tasks_called(name))


def _tasks(name: str) -> list[Task]:
    """Return all tasks with this name; for example, GLUE and SuperGLUE both have a task RTE."""
    return tasks_called(name) or [find_task(name)]  # `find_task` raises BenchError here


def _is_own_task(name: str, db: str) -> bool:
    """Return whether the store has runs on a user-defined task with this name."""
    if _stored().is_there(db):
        _stored().opened(db).close()  # opening a store registers the tasks that its runs define
    return _is_task(name)


def _find_model(name: str, kind: str, others: Sequence[str]) -> ModelSpec:
    """Return the model with this name.

    If there is none, the error may suggest one of the names in `others`. `kind` is the noun in the
    error for the kinds of names that were expected.
    """
    try:
        return find_model(name)
    except ModelError:
        raise
    except BenchError:
        known = [*others, *(n for spec in MODELS.values() for n in (spec.name, *spec.aliases))]
        hint = "`bench show suites`, `tasks`, `models` and `runs` list the existing names."
        raise unknown_name(kind, name, known, hint) from None


def _stored() -> ModuleType:
    """Import and return the module that reads a store."""
    return import_module("benchharness.cli.chosen")  # it imports SQLAlchemy, which is slow


# The command `bench show recipe`: hyperparameters of a model on a task, or differences between the
# hyperparameters of two models.


def _show_recipe(names: Sequence[str], *, as_json: bool) -> None:
    file = next((name for name in names if name.endswith(".toml")), None)
    match [name for name in names if name != file]:
        case [] if file is not None:
            _print_facts([{"kind": "recipe", **file_facts(Path(file))}], as_json=as_json)
        case [model] if file is not None:
            trained = [task for task in TASKS.values() if task.has_train]
            _show_differences(model, model, trained, as_json=as_json, file=file)
        case [*several, task] if _is_task(task) and (len(several) > 2 or "*" in "".join(several)):
            _show_table(several, _tasks(task), file, as_json=as_json)
        # A typo such as glue/coal also counts as a task, although it could be a model on the hub.
        case [model, task] if _is_task(task) or task.lower().partition("/")[0] in SUITES:
            owner = _recipe_owner(model)
            facts = [each for found in _tasks(task) for each in _recipe(owner, found, file)]
            _print_facts(facts, as_json=as_json)
        case [first, second] if file is None:
            trained = [task for task in TASKS.values() if task.has_train]
            _show_differences(first, second, trained, as_json=as_json)
        case [first, second, task] if file is None:
            _show_differences(first, second, _tasks(task), as_json=as_json)
        case _:
            raise BenchError(
                "`bench show recipe` needs a model and a task, two models (and perhaps a task), "
                "several models and a task, or a recipe file (alone or with a model), but got "
                f"{counted(len(names), 'name')}. Try `bench show recipe roberta cola`, "
                "`bench show recipe roberta electra` or `bench show recipe roberta cola mine.toml`."
            )


def _print_facts(found: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print facts about one or several models, tasks, suites or runs.

    They are printed as JSON, or as text with an empty line between two of them.
    """
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
        return
    for number, facts in enumerate(found):
        if number:
            typer.echo()
        # Omit the learning curve, because its forty lines would hide the rest. The report and the
        # output of --json contain it.
        print_outline({name: value for name, value in in_words(facts).items() if name != "curve"})


def _recipe(model: ModelSpec, task: Task, file: str | None) -> Iterator[dict[str, Any]]:
    """Yield the hyperparameters of a model on a task, once per combination of a sweep.

    Values in the recipe `file` take precedence.
    """
    for point in resolve_sweep(model, task.name, file, {}):
        recipe = with_start(point, model, task, recipe=file)
        yield {"kind": "recipe", **recipe_facts(recipe, model.name, task.name)}


def _show_differences(
    first: str, second: str, tasks: Sequence[Task], *, as_json: bool, file: str | None = None
) -> None:
    owners = _recipe_owner(first), _recipe_owner(second)
    found = compare_recipes(*owners, tasks, file)
    if file is not None:
        second = Path(file).name
    if as_json:
        sides = [{"first": each.first, "second": each.second} for each in found]
        said = [{name: of and of.to_json() for name, of in side.items()} for side in sides]
        print_json([asdict(each) | side for each, side in zip(found, said, strict=True)])
        return
    names = [task.name for task in tasks]
    rows = [
        {
            "setting": difference.setting,
            first: shown_value(difference.setting, difference.first),
            second: shown_value(difference.setting, difference.second),
            "tasks": _named(difference.tasks, names),
        }
        for difference in found
    ]
    columns = ("setting", first, second, "tasks")
    shown = columns if len(tasks) > 1 else columns[:3]
    print_table(rows, shown, "the two recipes have the same values.")


def _show_table(
    names: Sequence[str], tasks: Sequence[Task], file: str | None, *, as_json: bool
) -> None:
    """Print a table per task, with a row per model and a column per setting that differs."""
    owners = {spec.name: spec for name in names for spec in _recipe_owners(name)}
    if as_json:
        every = ((owner, task) for task in tasks for owner in owners.values())
        print_json([facts for owner, task in every for facts in _recipe(owner, task, file)])
        return
    for task in tasks:
        points = [resolve_recipe(owner, task.name, file, {}) for owner in owners.values()]
        found = [
            with_start(point, owner, task, recipe=file).settings
            for point, owner in zip(points, owners.values(), strict=True)
        ]
        values = {
            name: [shown_value(name, settings.get(name)) for settings in found]
            for name in (*SETTINGS, START_FROM)
            if any(name in settings for settings in found)
        }
        same = {name: shown[0] for name, shown in values.items() if len({*map(str, shown)}) == 1}
        differ = [name for name in values if name not in same]
        rows = [
            {"model": model, **{name: values[name][number] for name in differ}}
            for number, model in enumerate(owners)
        ]
        print_table(rows, ("model", *differ), "", in_parts=True)
        print_outline({f"{distinct_title(task.name)}, the same for all": [same]})


def _recipe_owners(name: str) -> list[ModelSpec]:
    """Return the known models whose names match a pattern such as 'bert*', or the model itself."""
    known = [spec for spec in MODELS.values() if fnmatch.filter((spec.name, *spec.aliases), name)]
    return known if "*" in name and known else [_recipe_owner(name)]


def _recipe_owner(name: str) -> ModelSpec:
    """Return the model with this name; for a recipe's name, return a model that uses the recipe."""
    short = (task.partition("/")[2] for task in TASKS)
    try:
        return _find_model(name, "model, recipe or task", [*packaged_names(), *TASKS, *short])
    except BenchError:
        if name not in packaged_names():
            raise
        return ModelSpec(name=name, checkpoint=name, recipe=name)


def _named(chosen: Sequence[str], tasks: Sequence[str]) -> str:
    """Name the chosen tasks in as few words as possible, such as "all but CoLA"."""
    others = [task for task in tasks if task not in chosen]
    if not others:
        return "every task"
    if len(others) < len(chosen):
        return f"all but {', '.join(map(distinct_title, others))}"
    return ", ".join(map(distinct_title, chosen))


# The commands `bench show suites`, `tasks`, `models`, `published` and `runs`, which print lists.

NEWEST = 100
"""Number of runs that `bench show runs` lists by default."""


@with_options()
def suites(*, as_json: AsJson = False) -> None:
    """List the suites: one row per suite, with its tasks and its score rule."""
    rows = [suite_facts(suite) for suite in SUITES.values()]
    rows += [collection_facts(name) for name in COLLECTIONS]
    if not as_json:
        rows = list(map(in_words, rows))
    _print(rows, ("name", "title", "rule", "tasks"), as_json=as_json)


@with_options()
def tasks(*, suite: Suites = None, as_json: AsJson = False) -> None:
    """List the tasks: one row per task, with its head, metrics and splits.

    If the output is piped, each task is one line with more columns. `bench show NAME` shows
    everything about a task.
    """
    chosen = [found for name in suite or () for found in find_suites(name)]
    wanted = {task for found in chosen for task in found.tasks} or set(TASKS)
    rows = [task_facts(task) for name, task in TASKS.items() if name in wanted]
    if not as_json:
        some = ({"labels": _some(row["labels"]), "splits": _kinds(row["splits"])} for row in rows)
        rows = [in_words(row | less) for row, less in zip(rows, some, strict=True)]
    columns = ("name", "title", "head", "metrics", "splits", "labels", "trained_on")
    _print(rows, columns[:5] if is_bounded() else columns, as_json=as_json)


MANY_SPLITS = 3
"""Largest number of splits of one kind that a table lists by name. If there are more, the table
shows only their number, as for the 40 test splits of WikiANN."""


def _kinds(splits: Sequence[str]) -> list[str]:
    """Return the names of the splits, with those of many languages abbreviated as "test_* (40)"."""
    counts = Counter(name.partition("_")[0] for name in splits if "_" in name)
    shown = {
        f"{kind}_* ({counts[kind]})" if counts[kind] > MANY_SPLITS and rest else name: None
        for name in splits
        for kind, _, rest in [name.partition("_")]
    }
    return list(shown)


MANY_LABELS = 10
"""Largest number of labels that a table lists by name. A longer list is abbreviated, for example
that of the 173 tags of semantic roles."""


def _some(labels: Sequence[str]) -> list[str]:
    if len(labels) <= MANY_LABELS:
        return list(labels)
    return [*labels[:5], f"... ({len(labels)} in all)"]


@with_options()
def models(*, as_json: AsJson = False) -> None:
    """List the known models, and the published systems: one row per model or system.

    Sizes are in millions of parameters. The row of a published system names the model with which it
    can be run, or explains why it cannot be run. Other checkpoint folders and hub names can be used
    too. If the output is piped, each row is one line with more columns. `bench show NAME` shows
    everything about a model.
    """
    known = [model_facts(spec) for spec in MODELS.values()]
    published = [system_facts(system) for system in systems()]
    if as_json:
        print_json({"models": known, "systems": published})
        return
    columns = ("name", "aliases", "parameters", "backbone", "max_tokens", "checkpoint", "title")
    narrow = ("name", "aliases", "parameters", "max_tokens")
    print_table(known, narrow if is_bounded() else columns, "nothing to list.")
    told = [{**row, "as": row["model"] or row["reason"]} for row in published]
    print_table(told, ("system", "status", "as", "published_rows"), "nothing to list.")


@dataclass(frozen=True, kw_only=True)
class OfPublished:
    """Options that select published results; without any of them, all results are selected."""

    suite: Annotated[tuple[str, ...], declared("suite")] = ()
    task: Annotated[tuple[str, ...], declared("task")] = ()
    model: tuple[str, ...] = option(
        (),
        "Select this known model, or the systems whose names contain this text or match a pattern "
        "such as 'bert*' (repeatable).",
        metavar="NAME,...",
    )
    split: Literal["dev", "test"] | None = option(
        None, "Select only scores on this split.", metavar="dev|test", proposes=("dev", "test")
    )

    @property
    def rows(self) -> Iterator[PublishedRow]:
        """Published results that the options select, with only their scores on selected tasks.

        If `task` is empty, average scores over a whole suite are included too.
        """
        suites = [found for name in self.suite for found in find_suites(name)]
        tasks = {each.name for each in select_tasks(suites, self.task)} if self.task else {*TASKS}
        suites = suites or [SUITES[name] for name in {task.partition("/")[0] for task in tasks}]
        # The name of a published system may contain commas.
        known = [system.name.lower() for system in systems()]
        names = [
            name
            for word in map(str.lower, self.model)
            for name in ([word] if any(word in each for each in known) else names_in([word]))
        ]
        for suite in sorted(suites, key=[*SUITES.values()].index):
            averages = set() if self.task else {suite.name}
            for row in published_rows(suite.name):
                cells = tuple(cell for cell in row.cells if cell.task in tasks | averages)
                system = find_system(row.system, row.table)
                called = (row.system.lower(), system.model if system else "")
                is_named = not names or is_called(called, names)
                if cells and is_named and self.split in (None, row.split):
                    yield replace(row, cells=cells)


@with_options(plugins=False)
def published(*, of: OfPublished, as_json: AsJson = False) -> None:
    """List the published results, in percent: one table per suite and split, one row per system.

    The head of a column names its metrics, in the order of the numbers in a cell. A number with
    another metric is followed by its name; "accuracy or f1" if the source does not specify which.
    `bench explain KEY --from "TABLE: SYSTEM"` compares a run with the system of a row.
    """
    print_published(list(of.rows), as_json=as_json)


def is_called(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether the first name contains one of some texts, or a name matches one as a pattern.

    Args:
        names: Names of a system in lower case, the most common one first.
        patterns: Texts in lower case, or patterns such as "bert*".
    """
    return any(each in names[0] or fnmatch.filter(names, each) for each in patterns)


def print_published(rows: Sequence[PublishedRow], *, as_json: bool) -> None:
    """Print published results as one table per suite and split, or as JSON."""
    if as_json:
        print_json(list(map(published_facts, rows)))
        return
    tables = grouped(((row.suite, row.split), row) for row in rows)
    for (suite, split), found in tables.items():
        typer.echo(f"{SUITES[suite].title} {split}")
        tasks = [t for t in (suite, *SUITES[suite].tasks) if any(row.of(t) for row in found)]
        usual = {task: _usual_scores([row.of(task) for row in found]) for task in tasks}
        heads = {t: "score" if t == suite else distinct_title(t) for t in tasks}
        lines = [
            {
                "system": row.system,
                **{f"{heads[t]} {usual[t]}": _printed(row.of(t), usual[t]) for t in tasks},
                "protocol": row.said_protocol,
                "date": row.date,
                "table": row.table,
                "source": row.source,
            }
            for row in found
        ]
        print_table(lines, list(lines[0]), "", in_parts=True)
    if not rows:
        typer.echo("no published result matches. `bench show models` lists the systems.")


def _scores(cells: Sequence[PublishedCell]) -> str:
    """Return the names of published scores in the order of their numbers, e.g. "f1/accuracy"."""
    names = [" or ".join(cell.scores) for cell in cells]
    return "/".join(names) if len(names) <= MOST_SCORES else f"{names[0]}/... (see --json)"


def _usual_scores(column: Sequence[Sequence[PublishedCell]]) -> str:
    """Return the names of scores that most cells of a column have, for the head of the column."""
    return Counter(_scores(cells) for cells in column if cells).most_common(1)[0][0]


def _printed(cells: Sequence[PublishedCell], usual: str) -> str:
    """Return the numbers of a cell, with the names of its scores unless they are the usual ones."""
    scores = _scores(cells)
    numbers = "/".join(cell.printed for cell in cells)
    return f"{numbers} {scores}" if cells and scores != usual else numbers


@with_options()
def runs(
    *,
    of: OfRuns,
    newest: int | None = option(
        None,
        f"Show the newest N runs; 0 shows all. Default: {NEWEST}, all with --json.",
        metavar="N",
        least=0,
    ),
    as_json: AsJson = False,
) -> None:
    """List the stored runs, oldest first: one row per job, with its newest result or failure.

    Jobs that are running, or that Ctrl-C has stopped, are not stored; `bench run ... --dry-run`
    shows how many jobs of a command are left.
    """
    most = (0 if as_json else NEWEST) if newest is None else newest
    columns = ("key", "model", "task", "data", "seed", "recipe", "status", "scores", "seconds")
    with _stored().opened(of.db) as store:
        names = _stored().names_of_runs(store, of)
        blocks = store.newest_runs(most, **names)
        if as_json:
            print_json_lines(
                facts for rows in blocks for facts in _stored().facts_of_runs(store, rows)
            )
            return
        number = store.count(**names)
        for rows in filter(None, blocks):  # print each block as soon as it is read
            print_table([_short(row) for row in rows], columns, "", in_parts=True)
    if not number:
        typer.echo("no stored run matches.")
    elif most and number > most:
        typer.echo(f"These are the newest {most} of {number:,} runs. --newest 0 shows all.")


def _print(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    else:
        print_table(rows, columns, "nothing to list.")


def _short(row: "RunRow") -> dict[str, Any]:
    """Return the table row of a stored run.

    It has the beginning of the run's key, and the first scores on its task. A multi-task run has
    the first score on each of its tasks.
    """
    scores = row.scores.get(row.task, {})
    if len(row.trained_tasks) > 1:
        own = {distinct_title(task): row.scores.get(task) for task in row.trained_tasks}
        scores = {title: next(iter(found.values())) for title, found in own.items() if found}
    shown = dict(islice(scores.items(), MOST_SCORES))
    more = [f"and {len(scores) - MOST_SCORES} more"] if len(scores) > MOST_SCORES else []
    more += [f"{MARK} {flag}" for flags in row.flags.values() for flag in flags]
    return {
        **in_words(run_facts(row)),
        "key": row.key[:12],
        "task": row.title,
        "recipe": row.shown_recipe,
        "scores": [shown, *more] if scores else row.error,
    }
