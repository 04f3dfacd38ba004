"""The options that several commands share; a command takes them as objects.

The fields of a dataclass are options: those of `RunOptions`, and of what commands have themselves.
"""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from benchharness.driver.options import DATABASE, OPTIONS, TRUST, Option
from benchharness.plugins import load_plugins
from benchharness.tasks.errors import shown_place

REPORT = "results/leaderboard.html"


def completed_by(name: str) -> Callable[[typer.Context, str], Any]:
    """What a shell proposes: by one of the functions in cli/completion.py, imported when asked."""

    def complete(ctx: typer.Context, incomplete: str) -> Any:
        return import_module("benchharness.cli.completion").complete(name, ctx, incomplete)

    return complete


def one_of(*words: str) -> Callable[[str], list[str]]:
    """What a shell proposes for an option that takes a few words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def in_this_database(db: str) -> list[str]:
    """The words that a command needs to be about the same database; none where it is anyway.

    An URL has no password in them: what is printed goes into logs, and libpq has other ways.
    """
    return [] if db == (os.environ.get("BENCH_DB") or DATABASE) else ["--db", shown_place(db)]


def declared(name: str) -> Any:
    """An option of a run, for the parser."""
    option = OPTIONS[name]
    proposes = option.proposes
    complete = completed_by(proposes) if isinstance(proposes, str) else one_of(*proposes)
    return typer.Option(
        option.flag or f"--{name.replace('_', '-')}",
        metavar=option.metavar,
        help=option.help,
        min=option.least,
        envvar=option.variable,
        autocompletion=complete if proposes else None,
        rich_help_panel=option.head,
    )


Database = Annotated[str, declared("db")]
Suites = Annotated[list[str] | None, declared("suite")]
Tasks = Annotated[list[str] | None, declared("task")]
_OUT = "What comes out"
"""The head under which the help of a command with many options has these."""

Out = Annotated[
    str,
    typer.Option("--out", metavar="FILE", help="The HTML report to write.", rich_help_panel=_OUT),
]
ShowPaths = Annotated[
    bool,
    typer.Option(
        "--show-paths",
        help="Show whole paths of this machine; else a path is its last part and six digits.",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON on stdout instead of text.", rich_help_panel=_OUT),
]
DataFilter = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="hub|DIR|mini",
        help="Only boards of rows from this source.",
        autocompletion=one_of("hub", "mini"),
    ),
]
NoTexts = Annotated[
    bool,
    typer.Option(
        "--no-texts",
        help="Write no words of the data, whose licence may not allow passing them on.",
    ),
]


Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        envvar="BENCH_PLUGINS",
        help="Add a file's models, tasks and metrics; repeatable.",
        rich_help_panel=TRUST,
    ),
]


@dataclass(frozen=True, kw_only=True)
class OfRuns:
    """Which stored runs; all where nothing narrows them."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Only runs of this model.",
            autocompletion=completed_by("stored_models"),
        ),
    ] = None
    suite: Annotated[tuple[str, ...], declared("suite")] = ()
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="NAME",
            help="Only runs of this task.",
            autocompletion=completed_by("tasks"),
        ),
    ] = None
    db: Database = DATABASE


def _parameter(each: "Field[Any]") -> Parameter:
    """A field as the parser takes it: several as a list."""
    kind, option = _parts(each)
    default = Parameter.empty if each.default is MISSING else each.default
    if get_origin(kind) is tuple:
        kind, default = list[get_args(kind)[0]] | None, None  # type: ignore[misc]
    if default is True:  # its flag says otherwise
        default = False
    if option is OPTIONS["model"]:
        default = Parameter.empty
    if isinstance(option, Option):
        option = declared(each.name)
    return Parameter(
        each.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _parts(each: "Field[Any]") -> tuple[Any, Any]:
    """The type of a field, and its option."""
    if get_origin(each.type) is Annotated:
        kind, option = get_args(each.type)
        return kind, option
    return each.type, each.metadata["option"]


def _value(each: "Field[Any]", value: Any) -> Any:
    """What the parser has found, as the field has it."""
    if each.default is True:
        return not value
    return tuple(value or ()) if get_origin(_parts(each)[0]) is tuple else value


def with_options(
    but: Collection[str] = (), *, plugins: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command an option for each field of those of its parameters that are dataclasses.

    The command takes the objects. Fields named in `but` have no option, and keep their defaults.
    The last option is --plugin, where models and tasks are looked up (`plugins`): installed plugins
    and those files are loaded before the command begins.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = signature(command).parameters
        groups = {
            name: [field for field in fields(each.annotation) if field.name not in but]
            for name, each in own.items()
            if is_dataclass(each.annotation)
        }

        @wraps(command)
        def collect(*words: Any, plugin: list[Path] | None = None, **values: Any) -> None:
            if plugins:
                load_plugins(plugin or ())
            for name, chosen in groups.items():
                found = {each.name: _value(each, values.pop(each.name)) for each in chosen}
                values[name] = own[name].annotation(**found)
            command(*words, **values)

        every = [
            each
            for name, one in own.items()
            for each in (map(_parameter, groups[name]) if name in groups else (one,))
        ]
        if plugins:
            option = Parameter("plugin", Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
            every.append(option)
        return _declared(collect, sorted(every, key=lambda each: each.kind))

    return decorate


def _declared(command: Callable[..., None], parameters: Sequence[Parameter]) -> Callable[..., None]:
    """The command with these parameters, which typer reads from two places."""
    command.__dict__["__signature__"] = Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command
