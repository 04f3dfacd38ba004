"""Declaration of command-line options as dataclass fields, and options that commands share.

A command has parameters whose types are dataclasses, such as `RunOptions`; the decorator
`with_options` makes each of their fields an option of the command.
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

from benchharness.driver.options import (
    DATABASE,
    OPTIONS,
    OUTPUT,
    RARE,
    TRUST,
    WHAT,
    Option,
    names_in,
    option,
)
from benchharness.errors import shown_place
from benchharness.plugins import load_plugins
from benchharness.tasks.foreign_code import begin


def page_beside(db: str, out: str | None = None) -> Path:
    """Return the path of the HTML report.

    Args:
        db: The database: a path or a SQLAlchemy URL.
        out: The path that the user has given. If it is None, the report has the same name as the
            database, with the suffix .html. It is next to the database or, if the database is given
            as a URL, in the folder of the default database.
    """
    if out is not None:
        return Path(out)
    is_url = "://" in db
    folder = Path(DATABASE).parent if is_url else Path(db).expanduser().parent
    return folder / f"{Path(urlsplit(db).path if is_url else db).stem or 'leaderboard'}.html"


def pages_beside(db: str, out: Path | None) -> Path:
    """Return the folder for HTML pages of predictions.

    Args:
        db: The database: a path or a SQLAlchemy URL.
        out: The folder that the user has given. If it is None, the folder is predictions/NAME next
            to the HTML report, where NAME is the name of the database.
    """
    report = page_beside(db)
    return report.parent / "predictions" / report.stem if out is None else out


def completed_by(proposes: str | tuple[str, ...]) -> Callable[[typer.Context, str], Any]:
    """Return a function that completes the value of an option or argument in the shell.

    Args:
        proposes: All possible values, or the key of a function in cli/completion.py that yields
            them. That module is imported only when the shell asks for a completion.
    """

    def complete(ctx: typer.Context, incomplete: str) -> Any:
        if isinstance(proposes, tuple):
            return [word for word in proposes if word.startswith(incomplete)]
        return import_module("benchharness.cli.completion").complete(proposes, ctx, incomplete)

    return complete


def in_this_database(db: str) -> list[str]:
    """Return the words `--db DB` for a command that is suggested to the user.

    Passwords in a URL are removed, because the command is printed and may be logged. The user can
    give the password to libpq, the client library of PostgreSQL, in another way, such as a password
    file. Returns [] for the default database, which BENCH_DB names if this variable is set.
    """
    return [] if db == (os.environ.get("BENCH_DB") or DATABASE) else ["--db", shown_place(db)]


def declared(name: str, given: Option | None = None) -> Any:
    """Convert the declaration of an option to a typer.Option.

    Args:
        name: The name of the option in Python, with underscores.
        given: The declaration. If it is None, the option is declared like the option of `bench run`
            with this name.
    """
    one = given or OPTIONS[name]
    flags = one.flag or f"--{name.replace('_', '-')}"
    return typer.Option(
        *flags.split(),
        metavar=one.metavar,
        help=one.help,
        min=one.least,
        envvar=one.variable,
        callback=_split if one.separated else None,
        autocompletion=completed_by(one.proposes) if one.proposes else None,
        rich_help_panel=one.head or None,
    )


def _split(words: list[str] | None) -> list[str] | None:
    """Split the values of an option at commas; a value without a name, such as "", is kept."""
    return words and [name for word in words for name in names_in([word]) or [word]]


def argument(metavar: str, text: str, proposes: str = "") -> Any:
    """Return the declaration of a positional argument as a typer.Argument.

    Args:
        metavar: The placeholder for the argument in the help.
        text: The help text.
        proposes: The key of the function in cli/completion.py that yields possible values; empty
            for none.
    """
    proposed = completed_by(proposes) if proposes else None
    return typer.Argument(metavar=metavar, help=text, autocompletion=proposed)


def _shared(name: str, text: str, **facts: Any) -> Any:
    return declared(name, Option(help=text, **facts))


# Type annotations of options that several commands have.

Database = Annotated[str, declared("db")]
Suites = Annotated[list[str] | None, declared("suite")]
Out = Annotated[
    str | None,
    _shared(
        "out",
        "HTML file to write. By default, it is next to the database and has the same name.",
        metavar="FILE",
        head=OUTPUT,
    ),
]
ShowPaths = Annotated[
    bool,
    _shared(
        "show_paths",
        "Show full local paths instead of their last component and six digits of a hash.",
        head=OUTPUT,
    ),
]
AsJson = Annotated[bool, _shared("json", "Print JSON on stdout instead of text.", head=OUTPUT)]
DataFilter = Annotated[
    str | None,
    _shared(
        "data",
        "Use only results on data from this source.",
        metavar="hub|DIR|mini",
        proposes=("hub", "mini"),
        head=WHAT,
    ),
]
TrustCode = Annotated[
    bool,
    _shared(
        "trust_remote_code",
        "Run third-party Python code of a checkpoint, or of a metric that stored runs use. Read "
        "this code first.",
        head=TRUST,
    ),
]
NoTexts = Annotated[
    bool,
    _shared(
        "no_texts",
        "Leave out the texts of the examples. The licence of the data may forbid sharing them.",
        head=OUTPUT,
    ),
]
Plugins = Annotated[
    list[Path] | None,
    _shared(
        "plugin",
        "Load the models, tasks and metrics in this plugin file (repeatable).",
        metavar="FILE",
        variable="BENCH_PLUGINS",
        head=TRUST,
    ),
]


@dataclass(frozen=True, kw_only=True)
class OfRuns:
    """Options that select stored runs; without any of them, all runs are selected."""

    model: str | None = option(
        None, "Select only runs of this model.", metavar="NAME", proposes="stored_models"
    )
    suite: Annotated[tuple[str, ...], declared("suite")] = ()
    task: str | None = option(
        None, "Select only runs on this task.", metavar="NAME", proposes="tasks"
    )
    db: Database = DATABASE


def _parameter(name: str, kind: Any, default: Any, metadata: Mapping[str, Any]) -> Parameter:
    """Return the function parameter from which typer makes an option.

    A tuple type is replaced by a list type, which typer needs for repeatable options.
    """
    own = metadata.get("option")
    if own is None:
        kind, made = get_args(kind)
    else:
        made = declared(name, own)
    if get_origin(kind) is tuple:
        kind, default = list[get_args(kind)[0]] | None, None  # type: ignore[misc]
    if default is True:  # the command line has a flag for the opposite, such as --no-baselines
        default = False
    if default is MISSING or own is OPTIONS["model"]:
        default = Parameter.empty
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, made]
    )


def _of_field(each: "Field[Any]") -> Parameter:
    return _parameter(each.name, each.type, each.default, each.metadata)


def _as_told(each: Parameter) -> Parameter:
    """Convert a command's parameter for typer if its default is an `option`, else return it."""
    if not isinstance(found := each.default, Field):
        return each
    return _parameter(each.name, each.annotation, found.default, found.metadata)


def _value(each: "Field[Any]", value: Any) -> Any:
    """Convert the value that typer has parsed to the value of a dataclass field."""
    if each.default is True:
        # The field is True by default, and its flag means the opposite: --no-baselines.
        return not value
    kind = get_args(each.type)[0] if get_origin(each.type) is Annotated else each.type
    return tuple(value or ()) if get_origin(kind) is tuple else value


def with_options(
    but: Collection[str] = (), *, plugins: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that turns the fields of a command's dataclass parameters into options.

    When the command is called, it gets the dataclass objects. Other parameters whose default is an
    `option` also become options. Before the command runs, installed plugins and the files given
    with --plugin are loaded.

    Args:
        but: Names of fields that do not become options and keep their default values.
        plugins: Whether to add the option --plugin and to load plugins. Commands that look up
            models or tasks need this.
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
        # Only the option TrustCode permits code of metrics that stored runs use. The option of
        # `bench run` has the same name, but permits only code of checkpoints.
        may_trust = any(each.annotation == TrustCode for each in every)
        if plugins:
            last = Parameter("plugin", Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
            every.append(last)
        collect.__dict__["rare"] = RARE.intersection(each.name for each in every)
        # In a signature, positional parameters must come before keyword parameters. `sorted` keeps
        # the order of parameters of the same kind.
        return set_parameters(collect, sorted(every, key=lambda each: each.kind))

    return decorate


def set_parameters(
    command: Callable[..., None], parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """Set the parameters of a command, in its signature and annotations, which typer reads."""
    command.__dict__["__signature__"] = Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command
