"""`bench calibration`: show how far the probabilities of a system's predictions can be trusted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import typer

from benchharness.cli.chosen import (
    Chosen,
    System,
    measure_splits,
    print_heading,
    splits_as_json,
)
from benchharness.cli.compare import Split
from benchharness.cli.options import with_options
from benchharness.cli.output import print_json, print_table, tell_marks
from benchharness.driver.options import option
from benchharness.extensions.calibration.calibrate import (
    DEFAULT,
    IN_PERCENT,
    NAMES,
    Calibration,
    Measured,
    Wanted,
    calibrations_of,
)
from benchharness.leaderboard.boards.cell import marked
from benchharness.leaderboard.text import counted, visible


@with_options()
def calibration(
    system: System,
    *,
    chosen: Chosen,
    split: Split = "dev",
    accuracy: float = option(
        DEFAULT.accuracy,
        "Also show the share of rows that can be answered with this accuracy if the model leaves "
        "all other rows to a person.",
        metavar="SHARE",
    ),
) -> None:
    """Show how far the probabilities of a system's predictions can be trusted.

    The measures are computed from stored predictions; nothing is trained. Values are means over
    seeds, with 95 % intervals over rows and seeds. Exits with 2 if no selected task has predictions
    with probabilities.
    """
    wanted = Wanted(split=split, accuracy=accuracy)
    found = measure_splits(chosen, system, partial(calibrations_of, wanted=wanted))
    if chosen.as_json:
        print_json(splits_as_json(found, split, to_json))
        return
    every = [each for _, some in found for each in some]
    for rows, some in found:
        print_heading(rows.board, rows.entries[0].name, split)
        for each in some:
            _show(each)
    tell_marks((each.title, each.flags) for each in every)
    for line in _legend(every):
        typer.echo(line)


def _show(found: Calibration) -> None:
    if found.reason:
        typer.echo(visible(f"{found.title}: no calibration, because {found.reason}"))
        return
    items = "" if found.items == found.rows else f", {found.items:,} decisions on labels"
    typer.echo(
        visible(
            f"{found.title}: {counted(found.rows, 'row')}{items}, {counted(found.seeds, 'seed')}"
        )
    )
    print_table(list(_lines(found)), ("measure", "value", "95 % interval"), "")


def _lines(found: Calibration) -> Iterator[Mapping[str, Any]]:
    for name, measure in found.measures.items():
        flags = found.flags if name == "accuracy" else ()
        yield _line(NAMES[name], measure, flags, in_percent=name in IN_PERCENT)
    if found.reached is not None:
        title = f"coverage with {100 * found.reached.accuracy:g} % right answers"
        yield _line(title, found.reached.coverage, (), in_percent=True)
        lowest = found.reached.confidence
        value = "" if lowest is None else f"{lowest:.4f}"
        yield {"measure": "  lowest confidence there", "value": value, "95 % interval": ""}


def _line(
    name: str, measure: Measured, flags: Sequence[str], *, in_percent: bool
) -> Mapping[str, Any]:
    def text(value: float) -> str:
        shown = f"{100 * value:.2f}" if in_percent else f"{value:.4f}"
        return shown.removeprefix("-") if float(shown) == 0 else shown

    ends = measure.interval
    return {
        "measure": name,
        "value": marked(text(measure.value), flags),
        "95 % interval": "" if ends is None else f"{text(ends.low)} to {text(ends.high)}",
    }


def _legend(found: Sequence[Calibration]) -> Iterator[str]:
    """Yield sentences that explain the measures."""
    yield (
        "values are means over seeds, times 100 except for likelihoods and Brier scores. Lower is "
        "better for these two, for the errors and for AURC."
    )
    yield (
        "ECE is never 0: the line below it is the expected ECE of a calibrated model with the same "
        "confidences. The calibration error without bias of a calibrated model is 0 on average."
    )
    if any(each.reached is not None and each.reached.confidence is not None for each in found):
        yield (
            "coverage: the share of rows with at least the lowest confidence; `bench predict "
            "--min-confidence` leaves the other rows to a person."
        )


def to_json(found: Calibration) -> dict[str, Any]:
    """Return a calibration as JSON data; only the flags and the reason without measures."""
    if found.reason:
        return {"flags": list(found.flags), "reason": found.reason}
    return {
        "flags": list(found.flags),
        "reason": "",
        "rows": found.rows,
        "seeds": found.seeds,
        "items": found.items,
        "measures": {name: _value(each) for name, each in found.measures.items()},
        "reliability": [_with_ends(asdict(each)) for each in found.bins],
        "curve": [_with_ends(asdict(each)) for each in found.curve],
        "reached": found.reached
        and {
            "accuracy": found.reached.accuracy,
            "coverage": _value(found.reached.coverage),
            "confidence": found.reached.confidence,
        },
    }


def _value(found: Measured) -> dict[str, float | None]:
    return _with_ends(asdict(found))


def _with_ends(facts: dict[str, Any]) -> dict[str, Any]:
    """Replace the value of "interval" with its ends, "low" and "high"."""
    ends = facts.pop("interval") or {"low": None, "high": None}
    return facts | ends
