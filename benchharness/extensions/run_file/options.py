"""The options --config and --write-config of commands that run jobs."""

import shlex
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from benchharness.cli.options import set_parameters
from benchharness.cli.output import tell_notes, writing
from benchharness.driver.options import OUTPUT, WHAT
from benchharness.errors import BenchError
from benchharness.extensions.run_file.file import options_of, read_options, to_toml
from benchharness.leaderboard.text import visible, whole_file

INSTEAD = ("seeds", "seed")
"""Options that exclude each other: one on the command line replaces the other one in the file."""


def _read(context: typer.Context, config: str | None) -> str | None:
    """Read the file of --config, before the parser looks at any other option."""
    if config is not None and not context.resilient_parsing:
        context.default_map, unused = read_options(Path(config), context)
        if unused:
            tell_notes(
                [f"{config}: `{context.command_path}` ignores the keys {', '.join(unused)}."]
            )
    return config


def _toml_files(incomplete: str) -> list[str]:
    return [path.name for path in Path().glob("*.toml") if path.name.startswith(incomplete)]


Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Read options from this TOML file.",
        callback=_read,
        is_eager=True,
        autocompletion=_toml_files,
        rich_help_panel=WHAT,
    ),
]
WriteConfig = Annotated[
    str | None,
    typer.Option(
        "--write-config",
        metavar="FILE",
        help="Write the given options to this file for --config, and run nothing.",
        rich_help_panel=OUTPUT,
    ),
]


def with_file(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --config and --write-config to the function of a command.

    Args:
        command: The function, whose parameters are options of the parser.

    Returns:
        A function with two more options. With --write-config, it does not call `command`.
    """

    @wraps(command)
    def called(
        *words: Any, context: typer.Context, write_config: str | None, **values: Any
    ) -> None:
        values.pop("config")  # its callback has read the file
        given = _given(context, values)
        if write_config is None:
            command(*words, **(values | given))
        else:
            _write(context, given, Path(write_config))

    own = (("config", Config, None), ("write_config", WriteConfig, None))
    added = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    added += [Parameter(n, Parameter.KEYWORD_ONLY, default=d, annotation=a) for n, a, d in own]
    every = [*signature(command).parameters.values(), *added]
    called.__dict__["rare"] = {*getattr(command, "rare", ()), "write_config"}
    return set_parameters(called, every)


def _given(context: typer.Context, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the options that the command line or the file sets.

    The command line wins over the file, and the file over environment variables. NAME=VALUE options
    of both are combined, so that `--set epochs=5` keeps the other settings of the file.
    """
    of_file = context.default_map or {}
    typed = {name for name in values if _is_typed(context, name)}
    found = {name: values[name] for name in typed} | {
        name: value for name, value in of_file.items() if name not in typed
    }
    for param in options_of(context.command).values():
        if param.metavar == "NAME=VALUE" and param.name in typed & of_file.keys():
            names = {_name(word) for word in values[param.name]}
            kept = [word for word in of_file[param.name] if _name(word) not in names]
            found[param.name] = [*kept, *values[param.name]]
    for name in INSTEAD:
        if name in of_file and typed.intersection(INSTEAD) == {*INSTEAD} - {name}:
            found[name] = None
    return found


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _name(word: str) -> str:
    return word.partition("=")[0].strip()


def _write(context: typer.Context, values: dict[str, Any], path: Path) -> None:
    """Write options to a file, and print how to use it.

    Raises:
        BenchError: The file exists or cannot be written.
    """
    if path.exists():
        raise BenchError(
            f"{path} exists already: pass another file name as --write-config, or move the file."
        )
    text, hidden = to_toml(values, context.command, path)
    with writing(path), whole_file(path) as draft:
        draft.write(text.encode())
    if hidden:
        tell_notes([f"{path} lacks the password in {', '.join(hidden)}: pass it in another way."])
    command = shlex.join(["bench", *context.command_path.split()[1:], "--config", str(path)])
    typer.echo(visible(f"wrote {path}; run it with `{command}`"))
