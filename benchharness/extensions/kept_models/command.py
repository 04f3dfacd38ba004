"""`bench model`: export a stored run's model as a folder that transformers can load."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchharness.cli.chosen import Chosen
from benchharness.cli.options import completed_by, with_options
from benchharness.cli.output import print_json, tell_notes
from benchharness.driver.display import displayed
from benchharness.driver.options import RunOptions, option
from benchharness.driver.retrain import retrain as train_again
from benchharness.driver.schedule import Schedule
from benchharness.errors import BenchError
from benchharness.extensions.kept_models.export import Found, check_learned, find_run, take_run
from benchharness.extensions.kept_models.onnx_command import (
    Variants,
    check_variants,
    finish,
    tell_checks,
)
from benchharness.leaderboard.boards.cell import note_lines
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import visible
from benchharness.progress import Watcher

if TYPE_CHECKING:
    from benchharness.extensions.kept_models.measure import Check
    from benchharness.extensions.kept_models.save_pretrained import Taken

Name = Annotated[
    str,
    typer.Argument(
        metavar="KEY|ROW",
        autocompletion=completed_by("stored_systems"),
        help="The first characters of a run's key, or the name of a leaderboard entry, which "
        "selects the seed whose score is nearest to the median.",
    ),
]


@with_options()
def model(  # noqa: PLR0913  (its options)
    name: Name,
    *,
    chosen: Chosen,
    to: str | None = option(None, "Folder to write.", metavar="DIR"),
    retrain: bool = option(
        False,
        "If the model was not kept, train the run again, keep the model, and compare its "
        "predictions with the stored ones.",
    ),
    retrain_anyway: bool = option(
        False,
        "Like --retrain, but also if library versions or the processor differ. With --to, also "
        "export a model whose predictions differ from the stored ones.",
    ),
    collapsed_too: bool = option(
        False, "Also export a model that has learned nothing; its card has a warning."
    ),
    variants: Variants,
) -> None:
    """Export a trained model as a Hugging Face folder that transformers can load.

    The run must have kept its model (bench run --keep-models) or is trained again (--retrain).
    Before the folder is written, transformers predicts dev rows with the exported model. If these
    predictions differ from the stored ones by more than rounding, nothing is written and the exit
    code is 1.

    Models without a transformers class can be used with bench predict only. If several tasks were
    trained together, DIR has one folder per task. --check compares the ONNX files in an exported
    folder with its model, and exits with 3 if one is worse.
    """
    if variants.check:
        check_variants(name, variants, chosen.db, as_json=chosen.as_json)
        return
    if variants.variant or variants.rows or variants.strict:
        raise BenchError("--variant, --rows and --strict require --check.")
    if to is None and not (retrain or retrain_anyway):
        raise BenchError("pass --to DIR, the folder to write.")
    if retrain or retrain_anyway:
        with chosen.open() as store:
            found = find_run(store, chosen.db, name, chosen.within)
        if not (to is None or collapsed_too):  # check this before the model is trained in vain
            check_learned(found)
        options = RunOptions(db=chosen.db, trust_remote_code=chosen.trust_remote_code)
        key = found.result.job.key
        train_kept(key, options, anyway=retrain_anyway, as_json=chosen.as_json)
    if to is not None:
        with chosen.open() as store:
            run = find_run(store, chosen.db, name, chosen.within)
            taken = take_run(
                run,
                Path(to),
                trust=chosen.trust_remote_code,
                collapsed_too=collapsed_too,
                anyway=retrain_anyway,
            )
            facts = take_found(run, taken, variants, as_json=chosen.as_json)
        if chosen.as_json:
            print_json(facts)


def take_found(
    found: Found, folders: "Iterable[Taken]", variants: Variants, *, as_json: bool
) -> list[dict[str, Any]]:
    """Export the model of a run, one folder per task, with a model card and optional ONNX files.

    Args:
        found: Run whose model is exported.
        folders: Iterator that writes one exported folder at a time.
        variants: Options for ONNX files and their checks.
        as_json: True to print nothing on stdout, because the caller prints the result as JSON.

    Returns:
        A description of each folder and of its ONNX files, as JSON data.
    """
    tell_notes([found.note] if found.note else [])
    facts = []
    for taken in list(folders):
        checks = finish(taken, found, variants)
        facts.append({**taken.to_json(), "variants": [each.to_json() for each in checks]})
        tell_notes(note_lines([(str(taken.folder), taken.flags)]))
        if not as_json:
            _tell(taken, checks)
    return facts


def train_kept(key: str, options: RunOptions, *, anyway: bool, as_json: bool) -> None:
    """Train a run again if its model was not kept, and print how its new predictions differ.

    Args:
        key: Key of the run.
        options: The database, and whether code that comes with the checkpoint may run.
        anyway: True to train even if library versions or the processor differ from the run's.
        as_json: True to print on stderr, because the caller prints JSON on stdout.
    """

    @contextmanager
    def watch(schedule: Schedule, store: Store) -> Iterator[Watcher]:
        typer.echo(visible(schedule.sentence()), err=as_json)
        with displayed(schedule, store) as display:
            yield display

    folder, said = train_again(key, options, watch, anyway=anyway)
    typer.echo(visible(said or "the model was kept already."), err=as_json)
    typer.echo(visible(f"The model is in {folder}"), err=as_json)


def _tell(taken: "Taken", checks: "Sequence[Check]") -> None:
    """Print the result of the check, how to load the folder, and how to publish it."""
    place = str(taken.folder)
    if taken.checked.rows or taken.checked.sampled:
        typer.echo(visible(taken.checked.sentence))
    if taken.published.lacking:
        typer.echo(visible(f"{taken.published.sentence}: use {place} with `bench predict` only."))
        return
    typer.echo(visible(f'{taken.published.loader}("{place}") loads it.'))
    if checks:
        tell_checks(checks)
    typer.echo(visible(f"hf upload ORG/NAME {shlex.quote(place)}"))
