"""Read and write the options of a command as TOML.

    model = ["roberta", "./checkpoint"]
    suite = "glue"
    seeds = 3

    [set]
    learning_rate = [2e-5, 3e-5]

A key is an option of the command line without its dashes and with underscores (`data_file`). The
command line's parser defines the options, their types and their ranges. The parser's objects are
annotated as Any, because some versions of typer contain their own copy of click.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchharness.cli.app import UsageError, load_command
from benchharness.cli.commands import command
from benchharness.cli.usage import fault_of, setting_called
from benchharness.errors import BenchError, unknown_name, without_passwords
from benchharness.extensions.run_file import EXTENSION

COMMANDS = tuple(name for name in EXTENSION.options if command(name))
"""Names of the commands with the option --config, without those of deleted extensions."""

RUN = COMMANDS[0]
"""Command whose files all other commands accept too; they ignore options that they do not have."""

OWN = ("config", "write_config")
"""Parameters of the options --config and --write-config, which a file cannot set."""


def options_of(parsed: Any) -> dict[str, Any]:
    """Return the parser's options that a file for a command may set, by their keys in the file."""
    return {
        flag.removeprefix("--").replace("-", "_"): param
        for param in parsed.params
        if param.name not in OWN
        for flag in param.opts[:1]
        if flag.startswith("--")
    }


def read_keys(path: Path) -> dict[str, Any]:
    """Read the keys and values of a TOML file without checking them.

    Raises:
        BenchError: The file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BenchError(
            f"{path} cannot be read: {error.strerror or error}. `bench run --model MODEL --task "
            f"TASK --write-config {path}` writes such a file."
        ) from error
    except UnicodeDecodeError as error:
        raise BenchError(f"{path} is not UTF-8 text: save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:  # a huge integer is a ValueError too
        raise BenchError(f"{path} is not valid TOML: {error}.") from error


def read_options(path: Path, context: Any) -> tuple[dict[str, Any], list[str]]:
    """Read the options of a command from a file.

    Args:
        path: Path of the TOML file.
        context: The parser's context of the command.

    Returns:
        The converted values, by the name of the function's parameter; and the keys of the file that
        are options of `bench run`, but not of this command.

    Raises:
        BenchError: The file cannot be read, or a key or a value is wrong.
    """
    known = options_of(context.command)
    values, unused = dict[str, Any](), list[str]()
    for key, value in read_keys(path).items():
        if (param := known.get(key)) is not None:
            values[param.name] = _checked(f"{path}: {key}", param, value, context)
        elif context.command.name != RUN and key in options_of(load_command(RUN)):
            unused.append(key)
        else:
            raise _unknown(path, key, context.command.name, known)
    return values, unused


def _unknown(path: Path, key: str, name: str, known: Mapping[str, Any]) -> BenchError:
    """Return the error for a key that is not an option of the command `name`."""
    others = [other for other in COMMANDS if key in options_of(load_command(other))]
    if others:
        return BenchError(
            f"{path}: {key} is an option of `bench {others[0]}`, not of `bench {name}`. Use "
            f"`bench {others[0]} --config {path}`, or remove the key."
        )
    if "set" in known and (setting := setting_called(key)):
        return BenchError(
            f"{path}: {key} is not an option of `bench {name}`, but a hyperparameter: write "
            f"{setting} in the table [set]."
        )
    hint = f"`bench {name} --help-all` lists the options; a key has underscores and no dashes."
    return BenchError(f"{path}: {unknown_name(f'option of `bench {name}`', key, known, hint)}")


def _checked(place: str, param: Any, value: object, context: Any) -> Any:
    """Return a value of a file, validated and converted as if it came from the command line.

    Raises:
        BenchError: The value is wrong. The message begins with `place`, the file and the key.
    """
    words = _words(param, value)
    if words is None:
        raise BenchError(f"{place} is {_shown(value)}, expected {_expected(param)}.")
    if words == []:
        return words
    try:
        return param.process_value(context, words)
    except UsageError as error:
        raise BenchError(f"{place}: {fault_of(error)}.") from error


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _expected(param: Any) -> str:
    if param.is_flag:
        return "true or false"
    forms = ["text", "a number"]
    forms += ["a list of them"] if param.multiple or "," in (param.metavar or "") else []
    forms += ["a table of names and values"] if "=" in (param.metavar or "") else []
    return f"{', '.join(forms[:-1])} or {forms[-1]}"


def _words(param: Any, value: object) -> bool | str | list[str] | None:
    """Convert a TOML value to the argument or arguments that the command line would have.

    Several values are a list of words if the option is repeatable, and else one word with commas
    (`--shots 8,32`). A table is for options with values such as NAME=VALUE.

    Returns:
        The arguments, or True or False for a flag; None if the value has a wrong type.
    """
    forms = param.metavar or ""
    if param.is_flag:
        return value if isinstance(value, bool) else None
    if isinstance(value, dict) and "=" in forms:
        # `--set lr=1,2` has commas between values, `--columns a=b+c,d=e` between pairs.
        between = "," if param.multiple else "+"
        found = [_pair(name, inner, between) for name, inner in value.items()]
    elif isinstance(value, list) and (param.multiple or "," in forms):
        found = list(map(_text, value))
    else:
        found = [_text(value)]
    words = [word for word in found if word is not None]
    if len(words) < len(found):
        return None
    return words if param.multiple else ",".join(words)


def _pair(name: str, value: object, between: str) -> str | None:
    values = value if isinstance(value, list) else [value]
    texts = [str(v).lower() if isinstance(v, bool) else _text(v) for v in values]
    return None if None in texts else f"{name}={between.join(map(str, texts))}"


def _text(value: object) -> str | None:
    """Return a text or a number as an argument, with "~/" expanded; None for other types."""
    if isinstance(value, str):
        return str(Path(value).expanduser()) if value.startswith("~/") else value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else None


# Writing.

_BARE = re.compile(r"[\w-]+", re.ASCII)
_PAIR = re.compile(r"([^=]+)=(.*)", re.DOTALL)


def to_toml(values: Mapping[str, Any], parsed: Any, path: Path) -> tuple[str, list[str]]:
    """Write options as TOML; passwords in URLs are left out.

    Args:
        values: The converted values of options, by the name of the function's parameter.
        parsed: The parsed command.
        path: Path of the file, whose name a comment in the file mentions.

    Returns:
        The text of the file, and the keys whose values had passwords.

    Raises:
        BenchError: A value is not UTF-8 text.
    """
    lines, tables, hidden = list[str](), list[str](), list[str]()
    for key, param in options_of(parsed).items():
        value = _plain(values.get(param.name))
        if not value:
            continue
        public = [without_passwords(each) if isinstance(each, str) else each for each in value]
        hidden += [key] if public != value else []
        table = _table(public) if param.metavar == "NAME=VALUE" else None
        if table is not None:
            tables += ["", f"[{key}]", *table]
        elif param.multiple and len(public) > 1:
            lines.append(f"{key} = [{', '.join(map(_toml, public))}]")
        else:
            lines.append(f"{key} = {_toml(public[0])}")
    name = parsed.name
    head = f"# Options of `bench {name}`. `bench {name} --config {path.name}` runs it."
    return "\n".join((" ".join(head.split()), *lines, *tables, "")), hidden


def _plain(value: object) -> Any:
    """Return a list of numbers, texts and flags for the value of an option."""
    values = value if isinstance(value, list | tuple) else [value]
    kept = [str(each) if isinstance(each, Path) else each for each in values]
    return [each for each in kept if each is not None and each is not False]


def _table(words: list[str]) -> list[str] | None:
    """Return NAME=VALUE arguments as lines of a table; None if a name is missing or repeated."""
    pairs = [found.groups() for found in map(_PAIR.fullmatch, words) if found]
    names = {name.strip() for name, _ in pairs}
    if len(names) < len(words):
        return None
    return [f"{_name(name.strip())} = {_values(value)}" for name, value in pairs]


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml(name)


def _values(text: str) -> str:
    """Return the value of a NAME=VALUE argument as TOML, such that `_pair` restores the text."""
    found = [_number(word) or _toml(word) for word in text.split(",")]
    return f"[{', '.join(found)}]" if len(found) > 1 else found[0]


def _number(word: str) -> str:
    """Return the word if it is a TOML number or boolean that is written in the usual way, or ""."""
    if word in ("true", "false"):
        return word
    try:
        value = tomllib.loads(f"value = {word}")["value"] if len(word) < 20 else None
    except ValueError:
        return ""
    is_number = isinstance(value, int | float) and str(value) == word
    return word if is_number else ""


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BenchError(
            f"{value!r} is not UTF-8 text, so it cannot be written to the file. Rename it."
        ) from error
    # JSON strings are valid in TOML, except that TOML requires an escape for the character U+007F.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def command_words(values: Mapping[str, Any], parsed: Any) -> Iterator[str]:
    """Yield the arguments of the command line that set these options; see `to_toml`."""
    for param in options_of(parsed).values():
        for value in _plain(values.get(param.name)):
            yield param.opts[0]
            if value is not True:
                yield str(value)
