"""Error messages about wrong command-line arguments, which replace those of the parser library.

This module is imported only if there is such an error.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchharness.errors import BenchError, unknown_name
from benchharness.recipes.recipe import SETTINGS


def usage_error(error: Any, words: Sequence[str]) -> BenchError:
    """Convert an error of the argument parser to a BenchError.

    Args:
        error: The error of the parser library.
        words: The command-line arguments after `bench`.
    """
    context = error.ctx
    command = context.command_path if context else " ".join(("bench", *words[:1]))
    option, param = getattr(error, "option_name", ""), getattr(error, "param", None)
    help_line = f"See `{command} --help`."
    if option and type(error).__name__ == "NoSuchOption":
        return _no_option(command, option, list(_options(context.command)), help_line)
    if option:  # the option exists, but it lacks a value or has one too many
        surplus = next((w for w in words if w.startswith(f"{option}=")), "").partition("=")[2]
        fault = f"does not accept a value, but got {surplus!r}" if surplus else "needs a value"
        return BenchError(f"{option} {fault}. {help_line}")
    if type(error).__name__ == "MissingParameter" and param is not None:
        # Name the missing option, or all positional arguments if one of them is missing.
        places = [p.metavar for p in context.command.params if not p.opts[0].startswith("-")]
        is_option = param.opts[0].startswith("-")
        needed = f"{param.opts[0]} {param.metavar}" if is_option else " ".join(map(str, places))
        return BenchError(f"`{command}` needs {needed} (see `{command} --help`).")
    if param is not None:
        message = error.message.removeprefix("Value error, ").rstrip(".")
        return BenchError(f"{param.opts[0]}: {message[:1].lower()}{message[1:]}. {help_line}")
    if hasattr(context.command, "commands"):
        path = context.command_path.split()[1:]
        named = next((w for w in words[len(path) :] if not w.startswith("-")), "")
        commands = context.command.commands
        return (
            unknown_name(f"command of `{command}`", named, commands, help_line)
            if named
            else BenchError(f"`{command}` needs a command. {help_line}")
        )
    found = _swallowed(context.command, words) or _surplus(str(error.message), command)
    return BenchError(f"{found} {help_line}")


def _no_option(command: str, option: str, known: Sequence[str], help_line: str) -> BenchError:
    """Return the error for an unknown option.

    If the option is the name of a hyperparameter, the error suggests --set.
    """
    word = option.removeprefix("--").replace("-", "_")
    settings = (name for name, facts in SETTINGS.items() if word in (name, *facts.aliases))
    if "--set" in known and (setting := next(settings, "")):
        return BenchError(f"no option is called {option!r}. Use --set {setting}=VALUE.")
    return unknown_name(f"option of `{command}`", option, known, help_line)


def _swallowed(command: Any, words: Sequence[str]) -> str:
    """Describe an option that was parsed as the value of the option before it; "" if none was."""
    valued = {n for p in command.params for n in p.opts if not getattr(p, "is_flag", False)}
    options = {*_options(command)}
    found = ((one, two) for one, two in pairwise(words) if one in valued)
    return next(
        (f"{one} needs a value, but got {two}." for one, two in found if two in options), ""
    )


def _surplus(message: str, command: str) -> str:
    """Rewrite the parser's message about too many arguments; return other messages unchanged."""
    found = re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message, re.DOTALL)
    if found is None:
        return message
    is_unquoted = (
        command in {"bench run", "bench curve"} and Path(found[1].partition(" ")[0]).is_dir()
    )
    quotes = "Write a pattern of checkpoints in quotes ('DIR/step-*'). " if is_unquoted else ""
    return f"`{command}` does not accept {found[1]!r} as an argument. {quotes}".rstrip()


def _options(command: Any) -> Iterator[str]:
    yield "--help"
    for param in command.params:
        yield from (word for word in (*param.opts, *param.secondary_opts) if word.startswith("-"))
