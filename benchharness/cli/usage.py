"""Error messages about wrong command-line arguments, which replace those of the parser library.

This module is imported only if there is such an error.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Any

from benchharness.errors import BenchError, unknown_name
from benchharness.recipes.recipe import SETTINGS
from benchharness.tasks.suites import COLLECTIONS, SUITES


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
        known = list(_options(context.command))
        return _elsewhere(option, words, known) or unknown_name(
            f"option of `{command}`", option, known, help_line
        )
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
        return BenchError(f"{param.opts[0]}: {fault_of(error)}. {help_line}")
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


def fault_of(error: Any) -> str:
    """Return the parser's message about a wrong value, without capital letter and period."""
    message = str(error.message).removeprefix("Value error, ").rstrip(".")
    return message[:1].lower() + message[1:]


OTHER_TOOLS = {
    "tasks": "--task {}",
    "task_name": "--task {}",
    "model_name_or_path": "--model {}",
    "output_path": "--db {}/leaderboard.sqlite",
    "output_dir": "--db {}/leaderboard.sqlite",
}
"""Options of `bench`, keyed by options of lm-eval and of transformers' scripts that mean the same.

Both tools also have options for hyperparameters, whose names are in `Facts.aliases`."""


def setting_called(word: str) -> str:
    """Return the hyperparameter with this name or alias; "" if there is none."""
    names = (name for name, facts in SETTINGS.items() if word in (name, *facts.aliases))
    return next(names, "")


def _elsewhere(option: str, words: Sequence[str], known: Sequence[str]) -> BenchError | None:
    """Return the error for an option of another tool, with the option of `bench` that replaces it.

    Args:
        option: The unknown option.
        words: The command-line arguments after `bench`, from which the value is taken.
        known: The options of the command.

    Returns:
        The error; None if the command has no such option.
    """
    word = option.removeprefix("--").replace("-", "_")
    given, value = _value_of(option, words)
    setting = setting_called(word)
    flag, _, form = OTHER_TOOLS.get(word, f"--set {setting}={{}}" if setting else "").partition(" ")
    if flag == "--task" and value.lower() in (*SUITES, *COLLECTIONS):
        flag = "--suite"
    if flag not in known:
        return None
    rule = SETTINGS[setting].rule if setting else None
    if rule and value and any(rule.read(each) is None for each in value.split(",")):
        return BenchError(
            f"use `{flag} {form.format('VALUE')}` instead of `{given}`: VALUE must be "
            f"{rule.expected}, but {value!r} is not."
        )
    ours = f"{flag} {quote(form.format(value or 'VALUE'))}"
    return BenchError(f"use `{ours}` instead of `{given}`.")


def _value_of(option: str, words: Sequence[str]) -> tuple[str, str]:
    """Return an option as it was typed, with its value, and the value; "" without a value."""
    for word, after in pairwise((*words, "")):
        if word.startswith(f"{option}="):
            return word, word.partition("=")[2]
        if word == option and after and not after.startswith("--"):
            return f"{word} {quote(after)}", after
    return option, ""


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
