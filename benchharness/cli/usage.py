"""What is wrong with the words of a command, in ours: the parser's own prose is its library's.

Imported only where something is wrong.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import EnumType
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from benchharness.tasks.errors import BenchError, unknown_name


def usage_error(error: Any, words: Sequence[str]) -> BenchError:
    """The error for what the parser refuses in the words after `bench`."""
    context = error.ctx
    command = context.command_path if context else " ".join(("bench", *words[:1]))
    option, param = getattr(error, "option_name", ""), getattr(error, "param", None)
    help_line = f"`{command} --help` shows what there is."
    if option and type(error).__name__ == "NoSuchOption":
        return unknown_name(f"option of `{command}`", option, _options(context.command), help_line)
    if option:  # of which there is one
        surplus = next((w for w in words if w.startswith(f"{option}=")), "").partition("=")[2]
        fault = f"takes no value, found {surplus!r}" if surplus else "needs a value"
        return BenchError(f"{option} {fault}: {help_line}")
    if type(error).__name__ == "MissingParameter" and param is not None:
        return BenchError(f"`{command}` needs {_needed(param, context.command)}: {help_line}")
    if param is not None:
        return BenchError(_value_fault(param, context.command, words))
    if hasattr(context.command, "commands"):
        path = context.command_path.split()[1:]
        named = next(w for w in words[len(path) :] if not w.startswith("-"))
        return unknown_name(f"command of `{command}`", named, context.command.commands, help_line)
    return BenchError(_surplus(str(error.message), command, help_line))


def _surplus(message: str, command: str, help_line: str) -> str:
    """More words than the command takes; anything else that the parser says, as it says it."""
    found = re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message, re.DOTALL)
    if found is None:
        return f"{message} {help_line}"
    is_unquoted = (
        command in {"bench run", "bench curve"} and Path(found[1].partition(" ")[0]).is_dir()
    )
    quotes = "write a pattern of checkpoints in quotes ('DIR/step-*'); " if is_unquoted else ""
    return f"`{command}` does not take {found[1]!r}: {quotes}{help_line}"


def _options(command: Any) -> Iterator[str]:
    yield "--help"
    for param in command.params:
        yield from (word for word in (*param.opts, *param.secondary_opts) if word.startswith("-"))


def _needed(param: Any, command: Any) -> str:
    """An option with what it takes, or what all arguments are called, one of which is missing."""
    if param.opts[0].startswith("-"):
        return f"{param.opts[0]} {param.metavar}"
    return " ".join(str(p.metavar) for p in command.params if not p.opts[0].startswith("-"))


def _value_fault(param: Any, command: Any, words: Sequence[str]) -> str:
    """Which value an option has, and which it may have."""
    annotation = signature(command.callback).parameters[param.name].annotation
    kind, (told, *_) = _kind(get_args(annotation)[0]), annotation.__metadata__
    values = list(_values(words, param.opts))
    if choices := [str(getattr(c, "value", c)) for c in get_args(kind) or _members(kind)]:
        wrong = next((v for v in values if v not in choices), "")
        advice = str(unknown_name("", wrong, choices)).partition(". ")[2]
        proposal = f" {advice}" if advice.startswith("Did you") else ""
        return f"{param.opts[0]} is {wrong!r}, expected one of: {', '.join(choices)}.{proposal}"
    wrong = next((v for v in values if not _holds(v, kind, told)), values[-1] if values else "")
    return f"{param.opts[0]} is {wrong!r}, expected {_NUMBERS.get(kind, 'another')}{_range(told)}."


def _members(kind: Any) -> Sequence[Any]:
    return list(kind) if isinstance(kind, EnumType) else ()


def _kind(declared: Any) -> Any:
    """Int of `list[int] | None`."""
    while get_origin(declared) in (Union, UnionType, list):
        declared = get_args(declared)[0]
    return declared


_NUMBERS: Mapping[Any, str] = {int: "a whole number", float: "a number"}


def _range(told: Any) -> str:
    low, high = told.min, told.max
    if low is None and high is None:
        return ""
    return f" from {low:g} up" if high is None else f" from {low:g} to {high:g}"


def _values(words: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """What stands after an option, each time that it is given."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in options:
            yield value if equals else "".join(words[place + 1 : place + 2])


def _holds(value: str, kind: Any, told: Any) -> bool:
    try:
        number = kind(value)
    except ValueError:
        return False
    low, high = told.min, told.max
    return (low is None or number >= low) and (high is None or number <= high)
