"""Write a model card and ONNX variants to a folder of `bench model`, and check the variants."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from benchharness.cli.chosen import is_there, opened
from benchharness.cli.output import print_json, print_table, tell_notes
from benchharness.driver.options import option
from benchharness.errors import BenchError
from benchharness.extensions.kept_models.export import Found
from benchharness.extensions.kept_models.sheet import card_sections, write_variants
from benchharness.leaderboard.text import visible
from benchharness.stored import facts_of_run

if TYPE_CHECKING:
    from benchharness.extensions.kept_models.measure import Check
    from benchharness.extensions.kept_models.save_pretrained import Taken

WORSE = 3
"""Exit code if a variant is worse than the model from which it was made, or, with --strict, if this
is unknown."""


@dataclass(frozen=True, kw_only=True)
class Variants:
    """Options of `bench model` for writing ONNX files, and for comparing them with the model."""

    onnx: bool = option(False, "Also write onnx/model.onnx, with the same logits as the model.")
    int8: bool = option(False, "Also write an int8 ONNX file for this processor.")
    check: bool = option(False, "Compare the ONNX files in an exported folder with its model.")
    variant: str | None = option(
        None,
        "With --check: ONNX file, or folder with a model or ONNX files, to compare with the model.",
        metavar="PATH",
    )
    rows: str = option("", "With --check: source of the rows, as in --data.")
    margin: float | None = option(
        None,
        "Accepted loss of score, in points. Default: 1 with 3,000 rows or more, else 2.",
        metavar="POINTS",
    )
    strict: bool = option(False, "Also exit with 3 if the result is inconclusive.")
    license: str | None = option(None, "Licence of the model, for the model card.", metavar="ID")


def check_variants(name: str, wanted: Variants, db: str, *, as_json: bool) -> None:
    """Compare the variants of an exported model with the model itself, and print the result.

    Args:
        name: Path of the exported folder.
        wanted: Options of the comparison.
        db: Database, as in `--db`. It is opened first, because this registers code of metrics that
            the user trusts, and the comparison may need this code.
        as_json: True to print JSON data instead of text.

    Raises:
        BenchError: `name` is not a folder, or the comparison is impossible.
        typer.Exit: With the code WORSE, if a variant is worse or, with `strict`, if a result is
            inconclusive. If the user has set a margin, a loss within it is accepted.
    """
    if not Path(name).is_dir():
        raise BenchError(
            f"{name} is not a folder: --check needs one that `bench model --to` has written."
        )
    if is_there(db):
        opened(db).close()
    from benchharness.extensions.kept_models import measure  # slow, because it imports torch

    other = None if wanted.variant is None else Path(wanted.variant)
    checks = measure.check_folder_with(
        Path(name), other, data=wanted.rows, margin=_share(wanted.margin)
    )
    if as_json:
        print_json([each.to_json() for each in checks])
    else:
        tell_checks(checks)
    if any(_fails(each, wanted) for each in checks):
        raise typer.Exit(WORSE)


def finish(taken: "Taken", found: Found, wanted: Variants) -> "list[Check]":
    """Write the model card of an exported folder and the requested ONNX files.

    Args:
        taken: The exported folder.
        found: Run of the model.
        wanted: Options for the ONNX files.

    Returns:
        A comparison of each ONNX file with the model; empty if no ONNX files are requested.

    Raises:
        BenchError: ONNX files are requested, but cannot be written or compared.
    """
    # This is imported late because of torch, which `bench model --help` does not need.
    from benchharness.extensions.kept_models import card, measure, onnx_files

    folder, data = taken.folder, found.result.job.data
    odd = taken.checked.unexplained
    other = (
        f"{odd} predictions on dev rows differ from the stored ones. The scores belong to the "
        "stored predictions."
    )
    notes = [*([found.note] if found.note else []), *([other] if odd else [])]
    facts = facts_of_run(found.store, found.result.job.key)
    plain = card.card_of(folder, data)
    made = replace(
        plain,
        sheet=card_sections(found.store, found.result.job.key, plain.task.name),
        notes=notes,
        facts=[fact["text"] for fact in facts.values()],
        license=wanted.license,
        seeds=found.seeds,
    )
    card.write_card(folder, made)  # written first, because the export to ONNX may fail
    if not (wanted.onnx or wanted.int8):
        return []
    if taken.published.lacking:
        raise BenchError(f"{taken.published.sentence}: remove --onnx and --int8.")
    onnx_files.export(folder, int8=wanted.int8)
    checks = measure.check_folder_with(folder, data=data, margin=_share(wanted.margin))
    card.write_card(folder, replace(made, checks=checks))
    write_variants(folder, checks)
    return checks


def _share(points: float | None) -> float | None:
    return None if points is None else points / 100


def _fails(found: "Check", wanted: Variants) -> bool:
    """Return whether a check fails.

    A worse variant passes if its loss is within the margin that the user set. With `strict`, an
    inconclusive check fails too.
    """
    verdict = found.verdict
    if verdict.told == "worse":
        return wanted.margin is None or not verdict.is_within
    return verdict.told == "cannot be told" and wanted.strict


def tell_checks(checks: "Sequence[Check]") -> None:
    """Print comparisons of variants: a table, and per variant a sentence and changed predictions.

    Only predictions that became right or wrong are printed.
    """
    from benchharness.extensions.kept_models import card

    lines = [dict(zip(card.CHECK_COLUMNS, line, strict=True)) for line in card.check_lines(checks)]
    print_table(lines, card.CHECK_COLUMNS, "nothing was compared.", in_parts=True)
    for each in checks:
        said = visible(f"{each.sentence} {each.verdict.power_sentence}")
        if each.verdict.told == "cannot be told":
            tell_notes([said])
        else:
            typer.echo(said)
        for flip in each.flips:
            was, now = flip.answers
            typer.echo(visible(f"  {flip.id}: {was} -> {now} (right: {flip.gold})"))
