"""A recipe file: TOML with a value and its source in each line.

    [default]                       values for every task
    epochs = { value = 3.0, source = "arXiv:1810.04805, A.3" }

    [head.span]                     what is different for one head type
    stride = { value = 128, source = "..." }

    [glue.mrpc]                     what is different for one task
    epochs = { value = 5.0, source = "..." }
    start_from = { value = "glue/mnli", source = "..." }    what is trained before it

    [frozen]                        what is different where the encoder is frozen (features)
    learning_rate = { value = 1e-3, source = "..." }

    [together]                      what is different for tasks that are trained together
    epochs = { value = 5.0, source = "..." }

    [like]                          whose values hold where this file has none; only in ours
    recipe = { value = "roberta", source = "..." }

    [[unlike]]                      where it differs from a file of its authors; a test reads it
    file = "run_glue.sh"
    tasks = ["glue/mrpc"]
    settings = ["epochs"]
    reason = "..."

    [protocol]                      what is run where the command line does not say it
    limit = { value = 1000, source = "..." }
    seeds = { value = 3, source = "..." }
    tasks = { value = "glue/stsb,glue/sst2", source = "..." }

A user's own file may give a bare value (`epochs = 5`); its source is then the file's name. A list
(`learning_rate = [2e-5, 3e-5]`) is a grid.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, TypeGuard

from benchharness.leaderboard.job import START_FROM, TOGETHER, Setting
from benchharness.recipes.recipe import EACH, check_setting
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import TASKS, find_task

# Grids: a hyperparameter with several values, "2e-5,3e-5,5e-5", stands for a recipe by each.
#
# The text is the same after `--set` and in a file, where it may also be a list of numbers.

_BETWEEN = ","

_LARGEST = 1000
"""Points of a grid, each of which is trained with every seed on every task."""


def expand_grid(settings: Mapping[str, Setting]) -> Iterator[dict[str, Setting]]:
    """Every combination of the settings' values, the last setting changing fastest.

    A value that is one of several says so. Raises BenchError, before any is made,
    where there are more than anybody means.
    """
    choices = [choices_of(setting) for setting in settings.values()]
    if (points := prod(map(len, choices))) > _LARGEST:
        raise BenchError(
            f"the grid has {points:,} points; expected at most {_LARGEST:,}: give fewer values of "
            "fewer settings."
        )
    for combination in product(*choices):
        yield dict(zip(settings, combination, strict=True))


def choices_of(setting: Setting) -> tuple[Setting, ...]:
    """A setting for each of the values between commas."""
    if not isinstance(setting.value, str) or _BETWEEN not in setting.value:
        return (setting,)
    values = [value.strip() for value in setting.value.split(_BETWEEN)]
    return tuple(replace(setting, value=value, one_of=tuple(values)) for value in values)


_LIKE = "like"
_UNLIKE = "unlike"
_PROTOCOL = "protocol"

FROZEN = "frozen"
"""The table of a file for runs whose encoder is frozen."""

_OF_NO_TASK = ("default", _LIKE, _PROTOCOL, FROZEN, TOGETHER)
"""The tables that are not called [suite.task] or [head.type]."""

_PACKAGE = Path(__file__).parent


@cache
def packaged_names() -> Mapping[str, Path]:
    """The recipe files that come with the package, by name ("bert", "fast", ...)."""
    return {path.stem: path for path in sorted(_PACKAGE.glob("*.toml"))}


def read_recipe(path: Path) -> dict[str, dict[str, Setting]]:
    """The hyperparameters of a file by table: "default", "like", "head/span", "glue/mrpc".

    Values are as they stand in the file; names and ranges are checked where layers are merged.
    Raises BenchError where the file is missing, is no TOML, or is laid out otherwise.
    """
    return {
        table: {name: setting for name, setting in settings.items() if name != START_FROM}
        for table, settings in _read(path).items()
    }


HINTS: dict[str, Mapping[str, Setting]] = {}
"""What plugins say of their own tasks, laid over every model's own recipe."""


def add_hints(file: Path, task: str, values: Mapping[str, Any]) -> None:
    """Takes a plugin's values for its task; BenchError where one is unknown or out of range."""
    hints = _settings(file, task, values)
    found = [(name, choice) for name, s in hints.items() for choice in choices_of(s)]
    _raise_all(file, (partial(check_setting, *each) for each in found))
    HINTS[task] = hints


def read_starts(path: Path) -> dict[str, Setting]:
    """What a file has trained before, by table: its lines `start_from`, which are no values."""
    return {
        table: replace(line, value=str(line.value))
        for table, lines in _read(path).items()
        if (line := lines.get(START_FROM)) is not None
    }


def _read(path: Path) -> Mapping[str, Mapping[str, Setting]]:
    return _read_packaged(path) if _PACKAGE in path.parents else _parse(path)


def _parse(path: Path) -> Mapping[str, Mapping[str, Setting]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(
            f"the recipe {path} cannot be read ({error}); expected a TOML file."
        ) from None
    except (ValueError, RecursionError) as error:  # an integer of 5,000 digits is a ValueError
        raise BenchError(f"the recipe {path} is not valid TOML: {error}.") from None
    return {table: _settings(path, table, lines) for table, lines in _tables(path, document)}


_read_packaged = cache(_parse)
"""Ours do not change, and are asked for by every model, task and layer."""


def file_facts(path: Path) -> dict[str, Any]:
    """What a recipe file says, by table: every value with its source, a list as it stands there.

    Raises BenchError with one line for each table and value that is unknown or out of range.
    """
    tables = _parse(path)
    named = [table for table in tables if table not in _OF_NO_TASK]
    found = [
        (name, choice)
        for table in ("default", FROZEN, TOGETHER, *named)
        for name, setting in tables.get(table, {}).items()
        for choice in choices_of(setting)
        if name != START_FROM and choice.value != EACH
    ]
    names = (*named, *read_protocol(path).tasks)
    checks = [partial(check_setting, *each) for each in found]
    _raise_all(path, [*checks, *(partial(_check_named, name) for name in names)])
    shown = {t: {n: s.to_json() for n, s in settings.items()} for t, settings in tables.items()}
    return {"recipe": path.stem, "file": str(path), "tables": shown}


def check_tables(path: Path) -> None:
    """Raises BenchError with a line for each table of a file that is of no task or head type."""
    named = (table for table in _parse(path) if table not in _OF_NO_TASK)
    _raise_all(path, (partial(_check_named, table) for table in named))


def _check_named(name: str) -> None:
    """Raises BenchError for "glue/colla" and "head/spam"."""
    family, _, head = name.partition("/")
    heads = sorted({task.head for task in TASKS.values()})
    if family != "head":
        find_task(name)  # raises where there is none
    elif head not in heads:
        raise BenchError(f"no head type is called {head!r}; expected one of {', '.join(heads)}.")


def _raise_all(file: Path, checks: Iterable[Callable[[], object]]) -> None:
    """Raises BenchError with a line for each check that does, with the file's name."""
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except BenchError as error:
            problems.append(f"{file.name}: {error}")
    if problems:
        raise BenchError(*problems)


def read_like(path: Path) -> str:
    """The name of the recipe that a file lies over, empty where it names none."""
    like = read_recipe(path).get(_LIKE, {}).get("recipe")
    return str(like.value) if like else ""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What a recipe runs where its user does not say: rows of a split, seeds, tasks' full names.

    None and no tasks where the recipe leaves it open.
    """

    limit: int | None = None
    seeds: int | None = None
    tasks: tuple[str, ...] = ()


def read_protocol(path: Path) -> Protocol:
    """The table [protocol] of a file; BenchError for another line, or a value that is no count."""
    lines = read_recipe(path).get(_PROTOCOL, {})
    if unknown := sorted(lines.keys() - {"limit", "seeds", "tasks"}):
        raise BenchError(
            f"{path.name} has {unknown[0]!r} in [{_PROTOCOL}]; expected limit, seeds or tasks."
        )
    tasks = lines.get("tasks")
    return Protocol(
        limit=_count_of(path, lines, "limit"),
        seeds=_count_of(path, lines, "seeds"),
        tasks=tuple(str(tasks.value).split(_BETWEEN)) if tasks else (),
    )


def _count_of(path: Path, lines: Mapping[str, Setting], name: str) -> int | None:
    if name not in lines:
        return None
    value = lines[name].value
    if not isinstance(value, int) or value < 1:
        raise BenchError(
            f"{path.name}, {_PROTOCOL} {name}: expected a whole number from 1 up, found {value!r}."
        )
    return value


def _tables(path: Path, document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for suite, content in document.items():
        if suite == _UNLIKE:
            continue
        if not isinstance(content, dict):
            raise BenchError(
                f"{path.name} has {suite!r} outside of a table; write it under [default] or "
                "[suite.task]."
            )
        if suite in _OF_NO_TASK:
            yield suite, content
            continue
        for task, lines in content.items():
            # `epochs = { value = 3 }` in [glue] is a table to TOML too, but a value and no task.
            if not isinstance(lines, dict) or "value" in lines:
                raise BenchError(
                    f"{path.name} has {task!r} in [{suite}]; a task's table is [suite.task], for "
                    "every task it is [default]."
                )
            yield f"{suite}/{task}".lower(), lines  # as --task takes them


def _settings(path: Path, table: str, lines: Mapping[str, Any]) -> dict[str, Setting]:
    return {name: _setting(path, f"{table} {name}", line) for name, line in lines.items()}


def _setting(path: Path, where: str, line: object) -> Setting:
    match line:
        # A table with anything else, such as a misspelt "sorce", falls to the next case and is
        # refused below as no value.
        case {"value": value, "source": str(source), **rest} if not rest:
            pass
        case _:
            value, source = line, path.name  # a bare value of a file of the user's
    if isinstance(value, list) and value:
        value = _BETWEEN.join(map(str, value)) if all(map(_is_one, value)) else None  # as typed
    if not _is_one(value):
        raise BenchError(
            f"{path.name}, {where}: expected a number, a list of numbers, or {{ value = ..., "
            f"source = ... }}, found {line!r}."
        )
    return Setting(value=value, source=source)


def _is_one(value: object) -> TypeGuard[str | int | float]:
    return isinstance(value, str | int | float)
