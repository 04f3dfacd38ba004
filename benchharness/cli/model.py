"""`bench model`: the model of a stored run as a folder that transformers loads."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchharness.cli.chosen import Chosen
from benchharness.cli.options import completed_by, with_options
from benchharness.cli.output import print_json, tell_notes
from benchharness.cli.variants import Variants, check_variants, finish, tell_checks
from benchharness.driver.display import displayed
from benchharness.driver.options import RunOptions, option
from benchharness.driver.retrain import retrain as train_again
from benchharness.driver.schedule import Schedule
from benchharness.driver.taking import find_run, take_run
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import visible
from benchharness.progress import Watcher
from benchharness.tasks.errors import BenchError

if TYPE_CHECKING:
    from benchharness.trained.measure import Check
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
def model(  # noqa: PLR0913  (its options)
    name: Name,
    *,
    chosen: Chosen,
    to: str | None = option(None, "The folder to write.", metavar="DIR"),
    retrain: bool = option(
        False,
        "Train the run again where its model was not kept, keep it, and compare its answers with "
        "the stored ones.",
    ),
    retrain_anyway: bool = option(False, "The same where versions or the processor differ."),
    variants: Variants,
    trust_remote_code: bool = option(False, "Run the Python code that the checkpoint comes with."),
) -> None:
    """Write the model of a run as a folder that transformers loads, without benchharness.

    The run must have kept it (bench run --keep-models), or is trained again (--retrain). Before the
    folder is there, transformers alone reads dev rows from it, and its answers are compared with
    the stored ones. What no class of transformers can say is written for bench predict alone. Of
    tasks that were trained together each gets a folder in DIR. --check compares the files of such a
    folder with its model, and exits with 3 where one is worse.
    """
    if variants.check:
        check_variants(name, variants, as_json=chosen.as_json)
        return
    if variants.variant or variants.rows or variants.strict:
        raise BenchError("--variant, --rows and --strict go with --check.")
    if retrain or retrain_anyway:
        with chosen.open() as store:
            key = find_run(store, chosen.db, name, chosen.within).result.job.key
        _retrain(key, chosen.db, anyway=retrain_anyway, as_json=chosen.as_json)
        if to is None:
            return
    if to is None:
        raise BenchError("give --to DIR, the folder to write.")
    task = chosen.task[0] if len(chosen.task) == 1 else ""
    with chosen.open() as store:
        found = find_run(store, chosen.db, name, chosen.within)
        tell_notes([found.note] if found.note else [])
        taken = list(take_run(found, Path(to), task=task, trust=trust_remote_code))
    checks = {each.folder: finish(each, found, variants) for each in taken}
    if chosen.as_json:
        print_json(
            [
                {**each.to_json(), "variants": [c.to_json() for c in checks[each.folder]]}
                for each in taken
            ]
        )
        return
    for each in taken:
        _tell(each, checks[each.folder])


def _retrain(key: str, db: str, *, anyway: bool, as_json: bool) -> None:
    @contextmanager
    def watch(schedule: Schedule, store: Store) -> Iterator[Watcher]:
        typer.echo(visible(schedule.sentence()), err=as_json)
        with displayed(schedule, store) as display:
            yield display

    folder, said = train_again(key, RunOptions(db=db), watch, anyway=anyway)
    typer.echo(visible(said or "the model is there already."), err=as_json)
    typer.echo(visible(f"kept in {folder}"), err=as_json)


def _tell(taken: "Taken", checks: "Sequence[Check]") -> None:
    """What was written, how it is used, and how it is published."""
    place = str(taken.folder)
    if taken.checked is None:
        typer.echo(visible(f"{taken.published.sentence}: {place} is for bench predict alone."))
        return
    typer.echo(visible(taken.checked.sentence))
    typer.echo(visible(f'{taken.published.auto_class}.from_pretrained("{place}") loads it.'))
    if checks:
        tell_checks(checks)
    typer.echo(visible(f"hf upload ORG/NAME {shlex.quote(place)}"))
