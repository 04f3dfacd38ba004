"""Regenerate docs/cli.md from the help texts of all commands: `make cli-page`.

Each command has a section: its help and an example, its notes, and its options. The notes, between
the two comments NOTES looks for, are written by hand and kept. An option that an earlier section
describes with the same text is only named. An option that turns its command into another one, such
as `show runs --diff`, has a section of its own.
"""

import re
from pathlib import Path
from typing import Any

from benchharness.cli.app import load_command
from benchharness.cli.commands import commands as all_commands
from benchharness.cli.commands import inner

PAGE = Path(__file__).parents[1] / "cli.md"
NOTES = re.compile(r"(?s)<!-- notes -->\n.*?<!-- options -->\n")


def commands() -> dict[str, Any]:
    """Return every command by its full name, such as "show runs"."""
    return {name: load_command(name) for name, line in all_commands().items() if line.place}


def option(param: Any) -> tuple[str, str]:
    """Return the name of an option or argument, and its line on the page."""
    typed = " ".join((*param.opts, param.metavar or "")).strip()
    if param.param_type_name == "argument":
        typed = param.metavar
    line = f"* `{typed}`: {param.help}"
    if param.required and param.param_type_name == "option":
        line += " Required."
    defaults = [f"the environment variable {param.envvar}"] if param.envvar else []
    plain = param.default not in (None, False, (), "") and not callable(param.default)
    if plain and not param.required:
        defaults.append(f"`{param.default}`")
    if defaults:
        line += f" Default: {', or else '.join(defaults)}."
    return typed.split()[0], line


def section(words: str, command: Any, notes: str, seen: dict[str, str]) -> str:
    """Return the section of one command.

    Args:
        words: Full name of the command.
        command: Its Click command.
        notes: Notes of this command in the present page.
        seen: Line by option in the sections so far; updated with the options of this command.
    """
    options = dict(option(each) for each in command.params if "--help" not in each.opts)
    new = {name: line for name, line in options.items() if seen.get(name) != line}
    seen.update(item for item in new.items() if item[0].startswith("-"))
    flags = {word: line.help for word, line in inner(words).items() if word.startswith("-")}
    lines = [*new.values(), *(f"* `{word}`: {text} See below." for word, text in flags.items())]
    if above := [f"`{name}`" for name in options if name not in new]:
        lines.append(f"* As above: {', '.join(above)}.")
    head = "###" if " --" in words else "##"
    example = f"    bench {all_commands()[words].example}\n"
    texts = [f"{head} `bench {words}`\n", f"{command.help}\n", f"{notes}\n" * bool(notes)]
    if example.strip() not in notes:
        texts.insert(2, example)
    return "\n".join((*texts, *lines, ""))


def page(old: str) -> str:
    """Return the new page, with the introduction and the notes of the old one."""
    first, *rest = re.split(r"(?m)^###? (?=`bench )", old)
    notes = {}
    for part in rest:
        kept = NOTES.search(part)
        notes[part.partition("\n")[0]] = kept[0] if kept else ""
    seen: dict[str, str] = {}
    parts = [
        section(words, command, notes.get(f"`bench {words}`", ""), seen)
        for words, command in commands().items()
    ]
    return "\n".join((first.rstrip() + "\n", *(re.sub(r"\n{3,}", "\n\n", part) for part in parts)))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
