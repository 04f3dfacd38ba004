"""`bench run --write-task`: write the task that is detected in the user's data as a plugin."""

import os
import shlex
from pathlib import Path
from pprint import pformat
from textwrap import indent
from typing import Any

import typer

from benchharness.cli.options import with_options
from benchharness.cli.output import writing
from benchharness.driver.options import OF_OWN_DATA, OPTIONS, RunOptions, option
from benchharness.driver.request import find_own_data
from benchharness.errors import BenchError
from benchharness.extensions.custom_data.find import Found
from benchharness.extensions.custom_data.metrics import EVALUATE
from benchharness.leaderboard.text import visible, whole_file


@with_options(plugins=False, but=OPTIONS.keys() - {"data_file", "hf", *OF_OWN_DATA})
def write_task(
    options: RunOptions,
    *,
    out: str | None = option(None, "File name of the plugin. Default: NAME.py.", metavar="FILE"),
) -> None:
    """Write a plugin with the task that is inferred from your data.

    Edit the file to change the name, the labels, the metrics or the share of rows in dev.
    """
    found = find_own_data(options)
    if not isinstance(found, Found):
        raise BenchError("no data are given: pass --data-file FILE or --hf ORG/NAME.")
    path = Path(out or f"{found.own.title}.py")
    if path.exists():
        raise BenchError(
            f"{path} exists already: pass another file name as --out, or move the file."
        )
    with writing(path), whole_file(path) as draft:
        draft.write(lines_of(found, path.resolve().parent).encode())
    for sentence in found.sentences:
        typer.echo(visible(sentence))
    command = ["bench", "run", "--model", "M", "--plugin", str(path)]
    rows = options.data_file or "hub"
    command += ["--task", f"mine/{found.own.title}", "--data", rows]
    typer.echo(visible(f"wrote {path}; run it with `{shlex.join(command)}`"))


def lines_of(found: Found, folder: Path) -> str:
    """Return the Python source of a plugin with the task that was found.

    Args:
        found: The task that was detected in the user's data.
        folder: The folder of the plugin. Paths of metric scripts in the source are relative to this
            folder.
    """
    plain = found.own.to_json()
    plain["columns"] = {role: tuple(names) for role, names in found.own.columns.items()}
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in plain.items()}
    scripts = values.pop("scripts", {})
    words = {word: _word(word, folder) for word in values.pop("metrics")}
    fields = "".join(f"{name}={pformat(v, width=80)},\n" for name, v in values.items())
    fields += f"metrics=({', '.join(words.values())},),\n"
    if scripts:
        made = "".join(f"{words[w]}: Script({d!r}, {b!r}),\n" for w, (d, b) in scripts.items())
        fields += f"scripts={{\n{indent(made, '    ')}}},\n"
    said = found.sentences[0].replace("\\", "\\\\").replace('"""', '\\"""')
    imports, here = (_IMPORTS, _HERE) if scripts else ("", "")
    return (
        f'"""{said}."""\n\n{imports}'
        "from benchharness.extensions.custom_data.task import OwnData, own_task\n\n"
        f"{here}TASK = own_task(\n    OwnData(\n{indent(fields, ' ' * 8)}    ),\n"
        f"    name={'mine/' + found.own.title!r},\n)\nTASKS = (TASK,)\n"
    )


_IMPORTS = (
    "from pathlib import Path\n\nfrom benchharness.extensions.custom_data.metrics import Script\n"
)
_HERE = "HERE = Path(__file__).resolve().parent\n\n"


def _word(word: str, folder: Path) -> str:
    """Return a value of `--metric` as Python source, with a script's path relative to `folder`."""
    source, comma, options = word.removeprefix(EVALUATE).partition(",")
    if not (word.startswith(EVALUATE) and Path(source).is_absolute()):
        return repr(word)
    way = os.path.relpath(source, folder)
    rest = f" + {comma + options!r}" if comma else ""
    return f"{EVALUATE!r} + str(HERE / {way!r}){rest}"
