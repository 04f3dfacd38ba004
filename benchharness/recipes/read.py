"""Read recipe files, which are TOML files with a value and its source in each line.

    [default]                       values for every task
    epochs = { value = 3.0, source = "arXiv:1810.04805, A.3" }

    [head.span]                     values that differ for one head type
    stride = { value = 128, source = "..." }

    [glue.mrpc]                     values that differ for one task
    epochs = { value = 5.0, source = "..." }
    start_from = { value = "glue/mnli", source = "..." }    the task that is trained first

    [frozen]                        values that differ for a frozen encoder (features)
    learning_rate = { value = 1e-3, source = "..." }

    [small]                         values that differ for small encoders (hidden size below 512);
    learning_rate = { value = 1e-4, source = "..." }        a rate only if it raises the model's own

    [together]                      values that differ for tasks that are trained together
    epochs = { value = 5.0, source = "..." }

    [like]                          recipe that gives values this file lacks; packaged files only
    recipe = { value = "roberta", source = "..." }

    [[unlike]]                      differences from the authors' own script; a test reads them
    file = "run_glue.sh"
    tasks = ["glue/mrpc"]
    settings = ["epochs"]
    reason = "..."

    [protocol]                      defaults for options that the command line leaves out
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
from importlib import import_module
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, TypeGuard

from benchharness.discovery import extensions
from benchharness.errors import BenchError
from benchharness.leaderboard.job import START_FROM, TOGETHER, Setting
from benchharness.recipes.recipe import EACH, check_setting
from benchharness.tasks.suites import TASKS, find_task

# If a hyperparameter has several values ("2e-5,3e-5,5e-5"), it is a grid with one recipe per value.
# `--set` and recipe files share this notation. A file may also contain a list of numbers.

_BETWEEN = ","

_LARGEST = 1000
"""Maximum number of combinations in a grid. Each combination is trained on every task with every
seed."""


def expand_grid(settings: Mapping[str, Setting]) -> Iterator[dict[str, Setting]]:
    """Yield every combination of the values of hyperparameters.

    In a combination, each setting has a single value. If the hyperparameter has several values, the
    setting lists them all in `Setting.one_of`.

    Args:
        settings: Settings keyed by hyperparameter; a text with commas stands for several values.
            The values of the last setting change fastest.

    Raises:
        BenchError: The grid has more than 1,000 combinations. The error is raised before the first
            combination is yielded.
    """
    choices = [choices_of(setting) for setting in settings.values()]
    if (points := prod(map(len, choices))) > _LARGEST:
        raise BenchError(
            f"the grid has {points:,} combinations of values; expected at most {_LARGEST:,}: use "
            "fewer values or settings."
        )
    for combination in product(*choices):
        yield dict(zip(settings, combination, strict=True))


def choices_of(setting: Setting) -> tuple[Setting, ...]:
    """Split a setting with comma-separated values into one setting per value.

    A setting with a single value is returned unchanged, in a tuple.
    """
    if not isinstance(setting.value, str) or _BETWEEN not in setting.value:
        return (setting,)
    values = [value.strip() for value in setting.value.split(_BETWEEN)]
    return tuple(replace(setting, value=value, one_of=tuple(values)) for value in values)


_LIKE = "like"
_UNLIKE = "unlike"
_PROTOCOL = "protocol"

FROZEN = "frozen"
"""Name of the TOML table in a recipe file that applies to runs with a frozen encoder."""

SMALL = "small"
"""Name of the TOML table in a recipe file that applies to small encoders."""

_OF_NO_TASK = ("default", _LIKE, _PROTOCOL, FROZEN, SMALL, TOGETHER)
"""Names of TOML tables that do not belong to a task or head type ([suite.task], [head.type])."""

_PACKAGE = Path(__file__).parent


@cache
def packaged_names() -> Mapping[str, Path]:
    """Return the paths of the packaged recipe files, keyed by name ("bert", "fast", ...).

    They include the files of extensions. If such a file has the name of a recipe of benchharness,
    its tables are added to that recipe instead.
    """
    paths = (path for folder in (*_added_folders(), _PACKAGE) for path in folder.glob("*.toml"))
    return {
        path.stem: path for path in sorted(paths, key=lambda path: (path.parent == _PACKAGE, path))
    }


def added_names() -> list[str]:
    """Return the names of the recipes that only extensions have, sorted."""
    return sorted(name for name, path in packaged_names().items() if path.parent != _PACKAGE)


def read_recipe(path: Path) -> dict[str, dict[str, Setting]]:
    """Return the settings in a recipe file, except `start_from`.

    Names and values of hyperparameters are not checked. This is done later, when the settings of
    several files have been merged.

    Returns:
        The settings of each TOML table in the file, keyed by table ("default", "glue/mrpc"), then
        by name.

    Raises:
        BenchError: The file is missing, is not TOML, or is not structured like a recipe.
    """
    return {
        table: {name: setting for name, setting in settings.items() if name != START_FROM}
        for table, settings in _read(path).items()
    }


HINTS: dict[str, Mapping[str, Setting]] = {}
"""Settings that plugins define for their tasks, keyed by task, then by hyperparameter.

They override the values of a model's own recipe.
"""


def add_hints(file: Path, task: str, values: Mapping[str, Any]) -> None:
    """Register the hyperparameters that a plugin defines for its task.

    Args:
        file: File of the plugin, which is the source of the values.
        task: Full name of the task.
        values: Values keyed by hyperparameter.

    Raises:
        BenchError: Hyperparameters are unknown or have invalid values.
    """
    hints = _settings(file, task, values)
    found = [(name, choice) for name, s in hints.items() for choice in choices_of(s)]
    _raise_all(file, (partial(check_setting, *each) for each in found))
    HINTS[task] = hints


def read_starts(path: Path) -> dict[str, Setting]:
    """Return the `start_from` settings of a recipe file, keyed by TOML table ("glue/rte").

    `start_from` is not a hyperparameter: it names the task on which the encoder is trained first.
    """
    return {
        table: replace(line, value=str(line.value))
        for table, lines in _read(path).items()
        if (line := lines.get(START_FROM)) is not None
    }


def _read(path: Path) -> Mapping[str, Mapping[str, Setting]]:
    return _read_packaged(path) if _PACKAGE in path.parents else _parse(path)


@cache
def _read_packaged(path: Path) -> Mapping[str, Mapping[str, Setting]]:
    """Parse a packaged file, and add the tables that extensions have for this recipe.

    Packaged files never change and are read for every model and task, so the result is cached.
    """
    tables = dict(_parse(path))
    for folder in _added_folders():
        if (added := folder / path.name).is_file():
            tables |= _parse(added)
    return tables


@cache
def _added_folders() -> tuple[Path, ...]:
    """Return the folders of extensions with tables for packaged recipes."""
    return tuple(
        Path(root) / each.recipes
        for each in extensions()
        if each.recipes
        for root in import_module(each.package).__path__
    )


def _parse(path: Path) -> Mapping[str, Mapping[str, Setting]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(
            f"the recipe {path} cannot be read ({error}); expected a TOML file."
        ) from None
    except (ValueError, RecursionError) as error:  # a huge integer is a ValueError too
        raise BenchError(f"the recipe {path} is not valid TOML: {error}.") from None
    return {table: _settings(path, table, lines) for table, lines in _tables(path, document)}


def file_facts(path: Path) -> dict[str, Any]:
    """Check a recipe file, and return its contents as JSON data.

    Returns:
        A dict: "recipe" is the name of the file without its extension, "file" is its path, and
        "tables" has the settings of each TOML table. Grids are not expanded.

    Raises:
        BenchError: Tables or values are unknown or out of range. The message has one line for each.
    """
    tables = _parse(path)
    named = [table for table in tables if table not in _OF_NO_TASK]
    found = [
        (name, choice)
        for table in ("default", FROZEN, SMALL, TOGETHER, *named)
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
    """Check that all TOML tables of a recipe file name known tasks or head types.

    Raises:
        BenchError: A table names an unknown task or head type. The message has one line for each
            such table.
    """
    named = (table for table in _parse(path) if table not in _OF_NO_TASK)
    _raise_all(path, (partial(_check_named, table) for table in named))


def _check_named(name: str) -> None:
    """Raise BenchError for an unknown task or head type, such as "glue/colla" or "head/spam"."""
    family, _, head = name.partition("/")
    heads = sorted({task.head for task in TASKS.values()})
    if family != "head":
        find_task(name)  # raises BenchError for an unknown task
    elif head not in heads:
        raise BenchError(f"unknown head type {head!r}; expected one of {', '.join(heads)}.")


def _raise_all(file: Path, checks: Iterable[Callable[[], object]]) -> None:
    """Run all checks, and raise one BenchError with a line per failure that names the file."""
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except BenchError as error:
            problems.append(f"{file.name}: {error}")
    if problems:
        raise BenchError(*problems)


def read_like(path: Path) -> str:
    """Return the name of the packaged recipe on which a recipe file is based; empty if none."""
    like = read_recipe(path).get(_LIKE, {}).get("recipe")
    return str(like.value) if like else ""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Defaults that a recipe sets for options which the user leaves out.

    Attributes:
        limit: Maximum number of rows per split; None if the recipe does not set it.
        seeds: Number of seeds; None if the recipe does not set it.
        tasks: Full names of the tasks to run; empty if the recipe does not set them.
    """

    limit: int | None = None
    seeds: int | None = None
    tasks: tuple[str, ...] = ()


def read_protocol(path: Path) -> Protocol:
    """Read the TOML table [protocol] of a recipe file.

    Raises:
        BenchError: The table has an unknown key or an invalid value.
    """
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
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BenchError(
            f"{path.name}, [{_PROTOCOL}] {name}: expected a whole number from 1 up, but got "
            f"{value!r}."
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
            # `epochs = { value = 3 }` in [glue] is a TOML table too, but not the table of a task.
            if not isinstance(lines, dict) or "value" in lines:
                raise BenchError(
                    f"{path.name} has {task!r} directly in [{suite}]; write it under [suite.task] "
                    "for one task, or under [default] for all tasks."
                )
            yield f"{suite}/{task}".lower(), lines  # ignore the case, as --task does


def _settings(path: Path, table: str, lines: Mapping[str, Any]) -> dict[str, Setting]:
    return {name: _setting(path, f"{table} {name}", line) for name, line in lines.items()}


def _setting(path: Path, where: str, line: object) -> Setting:
    match line:
        # A table with any other key, such as a misspelt "sorce", does not match here. It is
        # rejected below, because it is not a value.
        case {"value": value, "source": str(source), **rest} if not rest:
            pass
        case _:
            value, source = line, path.name  # a value without a source, in a user's file
    if isinstance(value, list) and value:
        value = _BETWEEN.join(map(str, value)) if all(map(_is_one, value)) else None  # as in --set
    if not _is_one(value):
        raise BenchError(
            f"{path.name}, {where}: expected a number, a list of numbers, or {{ value = ..., "
            f"source = ... }}, but got {line!r}."
        )
    return Setting(value=value, source=source)


def _is_one(value: object) -> TypeGuard[str | int | float]:
    return isinstance(value, str | int | float)
