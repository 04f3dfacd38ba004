"""The options that several commands share; a command takes them as objects.

The fields of a dataclass are options: those of `RunOptions`, and of what commands have themselves.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import urlsplit

import typer

from benchharness.driver.options import DATABASE, OPTIONS, OUTPUT, RARE, TRUST, WHAT, Option, option
from benchharness.plugins import load_plugins
from benchharness.tasks.errors import shown_place
from benchharness.tasks.foreign_code import begin


def page_beside(db: str, out: str | None = None) -> Path:
    """The report to write: by default next to the database, by its name, so each has its own."""
    if out is not None:
        return Path(out)
    is_url = "://" in db
    folder = Path(DATABASE).parent if is_url else Path(db).expanduser().parent
    return folder / f"{Path(urlsplit(db).path if is_url else db).stem or 'leaderboard'}.html"


def pages_beside(db: str, out: Path | None) -> Path:
    """The folder for pages of predictions: one for each database, as its report."""
    report = page_beside(db)
    return report.parent / "predictions" / report.stem if out is None else out


def completed_by(proposes: str | tuple[str, ...]) -> Callable[[typer.Context, str], Any]:
    """What a shell proposes: words, or by a function of cli/completion.py, imported when asked."""

    def complete(ctx: typer.Context, incomplete: str) -> Any:
        if isinstance(proposes, tuple):
            return [word for word in proposes if word.startswith(incomplete)]
        return import_module("benchharness.cli.completion").complete(proposes, ctx, incomplete)

    return complete


def in_this_database(db: str) -> list[str]:
    """The words that a command needs to be about the same database; none where it is anyway.

    An URL has no password in them: what is printed goes into logs, and libpq has other ways.
    """
    return [] if db == (os.environ.get("BENCH_DB") or DATABASE) else ["--db", shown_place(db)]


def declared(name: str, given: Option | None = None) -> Any:
    """An option for the parser, by default one of a run."""
    one = given or OPTIONS[name]
    flags = one.flag or f"--{name.replace('_', '-')}"
    return typer.Option(
        *flags.split(),
        metavar=one.metavar,
        help=one.help,
        min=one.least,
        envvar=one.variable,
        autocompletion=completed_by(one.proposes) if one.proposes else None,
        rich_help_panel=one.head or None,
    )


def argument(metavar: str, text: str, proposes: str = "") -> Any:
    """A word of a command that is no option, for the parser."""
    proposed = completed_by(proposes) if proposes else None
    return typer.Argument(metavar=metavar, help=text, autocompletion=proposed)


def _shared(name: str, text: str, **facts: Any) -> Any:
    return declared(name, Option(help=text, **facts))


# What commands annotate the options with that several of them have.

Database = Annotated[str, declared("db")]
Suites = Annotated[list[str] | None, declared("suite")]
Out = Annotated[
    str | None,
    _shared(
        "out",
        "The HTML report to write. Default: next to the database, by its name.",
        metavar="FILE",
        head=OUTPUT,
    ),
]
ShowPaths = Annotated[
    bool,
    _shared(
        "show_paths",
        "Show whole paths of this machine; else a path is its last part and six digits.",
        head=OUTPUT,
    ),
]
AsJson = Annotated[bool, _shared("json", "Print JSON on stdout instead of text.", head=OUTPUT)]
DataFilter = Annotated[
    str | None,
    _shared(
        "data",
        "Only boards of rows from this source.",
        metavar="hub|DIR|mini",
        proposes=("hub", "mini"),
        head=WHAT,
    ),
]
TrustCode = Annotated[
    bool,
    _shared(
        "trust_remote_code",
        "Run the code that a checkpoint, or a metric of runs made elsewhere, comes with.",
        head=TRUST,
    ),
]
NoTexts = Annotated[
    bool,
    _shared(
        "no_texts",
        "Write no words of the data, whose licence may not allow passing them on.",
        head=OUTPUT,
    ),
]
Plugins = Annotated[
    list[Path] | None,
    _shared(
        "plugin",
        "Add a file's models, tasks and metrics; repeatable.",
        metavar="FILE",
        variable="BENCH_PLUGINS",
        head=TRUST,
    ),
]


@dataclass(frozen=True, kw_only=True)
class OfRuns:
    """Which stored runs; all where nothing narrows them."""

    model: str | None = option(
        None, "Only runs of this model.", metavar="NAME", proposes="stored_models"
    )
    suite: Annotated[tuple[str, ...], declared("suite")] = ()
    task: str | None = option(None, "Only runs of this task.", metavar="NAME", proposes="tasks")
    db: Database = DATABASE


def _parameter(name: str, kind: Any, default: Any, metadata: Mapping[str, Any]) -> Parameter:
    """A field, or a parameter like one, as the parser takes it: several as a list."""
    own = metadata.get("option")
    if own is None:
        kind, made = get_args(kind)
    else:
        made = declared(name, own)
    if get_origin(kind) is tuple:
        kind, default = list[get_args(kind)[0]] | None, None  # type: ignore[misc]
    if default is True:  # its flag says otherwise
        default = False
    if default is MISSING or own is OPTIONS["model"]:
        default = Parameter.empty
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, made]
    )


def _of_field(each: "Field[Any]") -> Parameter:
    return _parameter(each.name, each.type, each.default, each.metadata)


def _as_told(each: Parameter) -> Parameter:
    """A parameter of a command, which may have an `option` as its default."""
    if not isinstance(found := each.default, Field):
        return each
    return _parameter(each.name, each.annotation, found.default, found.metadata)


def _value(each: "Field[Any]", value: Any) -> Any:
    """What the parser has found, as the field has it."""
    if each.default is True:
        # The field is on by itself, and its flag says the opposite: --no-baselines.
        return not value
    kind = get_args(each.type)[0] if get_origin(each.type) is Annotated else each.type
    return tuple(value or ()) if get_origin(kind) is tuple else value


def with_options(
    but: Collection[str] = (), *, plugins: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command an option for each field of those of its parameters that are dataclasses.

    The command takes the objects. A parameter whose default is an `option` is one too. Fields named
    in `but` have no option, and keep their defaults.
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
            begin(trust=may_trust and bool(values.get("trust_remote_code")))
            if plugins:
                load_plugins(plugin or ())
            for name, chosen in groups.items():
                found = {each.name: _value(each, values.pop(each.name)) for each in chosen}
                values[name] = own[name].annotation(**found)
            command(*words, **values)

        every = [
            found
            for name, each in own.items()
            for found in (map(_of_field, groups[name]) if name in groups else [_as_told(each)])
        ]
        # A run's option of this name is about checkpoints, and not about all that a store names.
        may_trust = any(each.annotation == TrustCode for each in every)
        if plugins:
            last = Parameter("plugin", Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
            every.append(last)
        collect.__dict__["rare"] = RARE.intersection(each.name for each in every)
        # In a signature words stand before options; `sorted` keeps the order within each kind.
        return _declared(collect, sorted(every, key=lambda each: each.kind))

    return decorate


def _declared(command: Callable[..., None], parameters: Sequence[Parameter]) -> Callable[..., None]:
    """The command with these parameters, which typer reads from two places."""
    command.__dict__["__signature__"] = Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command
