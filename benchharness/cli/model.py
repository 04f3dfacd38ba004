"""`bench model`: the model of a stored run as a folder that transformers loads."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchharness.cli.chosen import Chosen
from benchharness.cli.options import completed_by, with_options
from benchharness.cli.output import print_json, tell_notes
from benchharness.driver.options import option
from benchharness.driver.taking import find_run, take_run
from benchharness.leaderboard.text import visible
from benchharness.tasks.errors import BenchError

if TYPE_CHECKING:
    from benchharness.trained.take import Taken

Name = Annotated[
    str,
    typer.Argument(
        metavar="KEY|ROW",
        autocompletion=completed_by("stored_systems"),
        help="The beginning of a run's key, or a row of a board: of its seeds the one nearest to "
        "their median.",
    ),
]


@with_options()
def model(
    name: Name,
    *,
    chosen: Chosen,
    to: str | None = option(None, "The folder to write.", metavar="DIR"),
    trust_remote_code: bool = option(False, "Run the Python code that the checkpoint comes with."),
) -> None:
    """Write the model of a run as a folder that transformers loads, without benchharness.

    The run must have kept it (bench run --keep-models). Before the folder is there, transformers
    alone reads dev rows from it, and its answers are compared with the stored ones. What no class
    of transformers can say is written for bench predict alone. Of tasks that were trained together
    each gets a folder in DIR.
    """
    if to is None:
        raise BenchError("give --to DIR, the folder to write.")
    task = chosen.task[0] if len(chosen.task) == 1 else ""
    with chosen.open() as store:
        found = find_run(store, chosen.db, name, chosen.within)
        tell_notes([found.note] if found.note else [])
        taken = list(take_run(found, Path(to), task=task, trust=trust_remote_code))
    if chosen.as_json:
        print_json([each.to_json() for each in taken])
        return
    for each in taken:
        _tell(each)


def _tell(taken: "Taken") -> None:
    """What was written, how it is used, and how it is published."""
    place = str(taken.folder)
    if taken.checked is None:
        typer.echo(visible(f"{taken.published.sentence}: {place} is for bench predict alone."))
        return
    typer.echo(visible(taken.checked.sentence))
    typer.echo(visible(f'{taken.published.auto_class}.from_pretrained("{place}") loads it.'))
    typer.echo(visible(f"hf upload ORG/NAME {shlex.quote(place)}"))
