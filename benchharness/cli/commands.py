"""All commands of `bench`, including the commands of extensions."""

from collections.abc import Mapping, Sequence
from functools import cache

from benchharness.discovery import extensions
from benchharness.errors import BenchError
from benchharness.extension import COMPARE, GROUPS, MEASURE, READ, Command

CORE: Mapping[str, Command] = {
    "run": Command(
        "run:run",
        "Fine-tune models, score them and show the leaderboard.",
        "run --model roberta --suite glue",
        MEASURE,
    ),
    "leaderboard": Command(
        "leaderboard:leaderboard", "Show the scores as a table.", "leaderboard --suite glue", READ
    ),
    "report": Command(
        "report:report", "Write the leaderboard as an HTML page.", "report --suite glue", READ
    ),
    "show": Command("show:show", "Show runs, models, tasks and suites.", "show 4f2a9c", READ),
    "show suites": Command("show:suites", "List the suites.", "show suites"),
    "show tasks": Command("show:tasks", "List the tasks.", "show tasks"),
    "show models": Command("show:models", "List the known models.", "show models"),
    "show published": Command(
        "show:published", "List the published results.", "show published --suite glue --split test"
    ),
    "show runs": Command("show:runs", "List the stored runs.", "show runs --model roberta"),
    "compare": Command(
        "compare:compare",
        "Compare two systems task by task.",
        "compare bert roberta --suite glue",
        COMPARE,
    ),
    "plan": Command(
        "compare:plan",
        "Estimate how many seeds are needed to detect a difference.",
        "plan bert roberta --task glue/rte",
        COMPARE,
        old="compare plan",
    ),
}
"""Commands of benchharness itself, keyed by name, such as "run" or "db check".

`bench --help` and shell completion use only these descriptions and those of extensions. The module
of a command is imported only when the command is called. The order is the same as in the help,
which has one section per purpose; in each section, the most common commands come first."""


@cache
def commands() -> Mapping[str, Command]:
    """Return all commands in the order of the help, keyed by name, such as "run" or "db check".

    Raises:
        BenchError: A command of an extension has the same name as another command, is a subcommand
            of a command that does not exist, or names no section of the help.
    """
    found = _placed(CORE, __name__.rpartition(".")[0])
    for extension in extensions():
        for name, line in _placed(extension.commands, extension.package).items():
            first = name.partition(" ")[0]
            if name in found:
                raise BenchError(
                    f"the extension {extension.name} defines a command {name!r}, but a command "
                    "with this name exists already: rename it."
                )
            found[name] = line
            if first not in found:
                raise BenchError(
                    f"the extension {extension.name} defines a command {name!r}, but no command "
                    f"is called {first!r}: add one, or use a single word as the name."
                )
            if found[first].group not in GROUPS:
                raise BenchError(
                    f"the command {name!r} of the extension {extension.name} must name a section "
                    f"of `bench --help`: expected {', '.join(GROUPS)}, got {line.group!r}."
                )
    return _in_order(found)


def command(name: str) -> Command | None:
    """Return the command with a name such as "run" or "db check"; None if there is none."""
    return commands().get(name)


def added_options(name: str) -> dict[str, str]:
    """Return the functions that add options to a command, as `package.module:function`.

    They are keyed by a noun phrase for error messages. `name` is the name of the command.
    """
    return {
        f"the option of `bench {name}` in {each.name}": f"{each.package}.{each.options[name]}"
        for each in extensions()
        if name in each.options
    }


def _placed(lines: Mapping[str, Command], package: str) -> dict[str, Command]:
    """Return the commands, with the name of the package prepended to each `place`."""
    return {
        name: line._replace(place=line.place and f"{package}.{line.place}")
        for name, line in lines.items()
    }


def _in_order(lines: Mapping[str, Command]) -> dict[str, Command]:
    """Return the commands in the order of the help, each followed by its subcommands.

    In each section, a command comes right after the command in its field `after`, or last if that
    field is empty.
    """
    names = [name for name in lines if " " not in name]
    firsts = [name for name in names if not lines[name].after]
    waiting = [name for name in names if lines[name].after]
    while waiting:
        # The command in the field `after` may itself be waiting, so this is repeated.
        ready = [name for name in waiting if lines[name].after in firsts]
        for name in ready:
            firsts.insert(firsts.index(lines[name].after) + 1, name)
        waiting = [name for name in waiting if name not in firsts]
        if not ready:  # their fields `after` name commands that do not exist
            firsts += waiting
            break
    firsts.sort(key=lambda name: GROUPS.index(lines[name].group))
    return {
        name: lines[name] for first in firsts for name in lines if name.partition(" ")[0] == first
    }


def old_words() -> dict[str, str]:
    """Return the current names of renamed commands, keyed by their former names.

    Former names still work, but the help and the shell completion do not list them.
    """
    return {line.old: name for name, line in commands().items() if line.old}


ELSEWHERE = {"list": "show", "baseline": "check --write", "task": "run --write-task"}
"""Words that are not commands but that users may try, each with the command to use."""


def named(words: Sequence[str]) -> tuple[str, list[str]]:
    """Split the words after `bench` into the name of the called command and its arguments.

    The name has two words if a subcommand is called, such as "db check". A former name of a command
    is replaced by its current name.
    """
    first, *rest = words
    is_word = bool(rest) and not rest[0].startswith("-")
    if is_word and (now := old_words().get(" ".join(words[:2]))):
        return now, rest[1:]
    for word in inner(first):
        if word in (rest if word.startswith("-") else rest[:1]):
            rest.remove(word)
            return f"{first} {word}", rest
    return first, rest


def inner(name: str) -> dict[str, Command]:
    """Return the subcommands of the command `name`, keyed by their second word.

    The second word may be a flag: `bench check --write` is a subcommand of `bench check`.
    """
    return {
        word: line
        for words, line in commands().items()
        for first, _, word in [words.partition(" ")]
        if word and first == name
    }
