"""`bench show config`: show the options in a file for --config, and the commands that use them."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.app import load_command
from benchharness.cli.options import AsJson, argument, with_options
from benchharness.cli.output import print_json, print_table
from benchharness.extensions.run_file.file import (
    COMMANDS,
    command_words,
    options_of,
    read_keys,
    read_options,
)
from benchharness.leaderboard.text import visible


@with_options(plugins=False)
def show_config(
    file: Annotated[Path, argument("FILE", "TOML file with options, as for --config.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show the options in a file, the commands that use them, and the equivalent command line.

    The keys and the types of values are checked, but models and tasks need not exist.
    """
    keys = read_keys(file)
    known = {name: options_of(load_command(name)) for name in COMMANDS}
    name = max(COMMANDS, key=lambda each: len(keys.keys() & known[each].keys()))
    context = load_command(name).make_context(name, [], resilient_parsing=True)
    values, _ = read_options(file, context)
    words = ["bench", name, *command_words(values, context.command)]
    used = {key: [each for each in COMMANDS if key in known[each]] for key in keys}
    if as_json:
        print_json({"command": name, "options": keys, "used_by": used, "words": words})
        return
    rows = [{"option": key, "value": keys[key], "used by": used[key]} for key in keys]
    print_table(rows, ("option", "value", "used by"), f"{file} sets no option.")
    typer.echo(visible(f"`bench {name} --config {file}` is `{shlex.join(words)}`"))
