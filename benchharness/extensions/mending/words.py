"""Write the options of a run as a shell command or as a Python call."""

import json
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from typing import Any

from benchharness.driver.options import DATABASE, OPTIONS, RunOptions
from benchharness.errors import shown_place
from benchharness.plugins import plugin_files


def _chosen(options: RunOptions) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the options that differ from their defaults."""
    usual = os.environ.get("BENCH_DB") or DATABASE
    for each in fields(options):
        value = getattr(options, each.name)
        default = usual if each.name == "db" else each.default
        if default is MISSING or value != default:
            yield each.name, shown_place(value) if each.name == "db" else value


def shell_command(options: RunOptions, tasks: Iterable[str] = ()) -> str:
    """Return the command `bench run` with some options, quoted for a POSIX shell.

    Passwords in the address of the database are left out.

    Args:
        options: Options of the run. Options with their default value are left out.
        tasks: Full names of tasks, whose plugin files become values of `--plugin`.
    """
    words = ["bench", "run"]
    for name, value in _chosen(options):
        flag = OPTIONS[name].flag or f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag)
            continue
        for one in value if isinstance(value, tuple) else (value,):
            words += [flag, f"{one:g}" if isinstance(one, float) else str(one)]
    words += [word for file in plugin_files(tasks) for word in ("--plugin", file)]
    return shlex.join(words)


def python_call(options: RunOptions) -> str:
    """Return the call `bh.run(...)` with the options that do not have their default value."""
    words = []
    for name, value in _chosen(options):
        shown: Any = value
        if name == "set":
            shown = dict(each.split("=", 1) for each in value)
        elif isinstance(value, tuple):
            shown = [*value] if len(value) > 1 or name == "seed" else value[0]
        text = str(shown) if isinstance(shown, bool) else json.dumps(shown, ensure_ascii=False)
        argument = {"model": "", "seed": "seeds="}.get(name, f"{name}=")
        words.append(f"{argument}{text}")
    return f"bh.run({', '.join(words)})"
