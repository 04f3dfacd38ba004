"""Write the section of a sheet about calibration: measures, and accuracy by coverage."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from markupsafe import Markup

from benchharness.discovery import extensions
from benchharness.extensions.calibration.calibrate import (
    IN_PERCENT,
    NAMES,
    Calibration,
    Wanted,
    cell_calibrations,
)
from benchharness.extensions.calibration.command import to_json
from benchharness.leaderboard.boards.cell import marked, shown
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.text import counted
from benchharness.stored.sheet import Line, Part, Subject, Table

_SHOWN = ("accuracy", "confidence", "ece", "ece_if_calibrated", "rms_error", "nll", "brier", "aurc")


def part(subject: Subject) -> Part:
    """Return the section about the calibration of each task of a system."""
    wanted = Wanted(coverages=10)
    every = [
        each
        for task in subject.tasks
        for each in cell_calibrations(subject.stored, subject.entry.cells[task], wanted)
    ]
    known = [each for each in every if not each.reason]
    missing = [f"{each.title}: {each.reason}" for each in every if each.reason]
    if not known:
        return Part(missing=missing)
    by_task = {each.task: [e for e in known if e.task == each.task] for each in known}
    sizes = (f"{e.title} {counted(e.rows, 'row')}, {counted(e.seeds, 'seed')}" for e in known)
    return Part(
        text=" ".join(map(_sentence, known)),
        basis=f"{', '.join(sizes)}. Values are means over seeds with 95 % intervals over rows and "
        "seeds. An ECE close to the ECE of a calibrated model does not indicate a problem.",
        missing=missing,
        tables=[table for each in known for table in _tables(each)],
        figures=_figures(subject.entry, by_task),
        facts={f"{each.task}:{each.split}": to_json(each) for each in every},
    )


def _figures(
    entry: Entry, known: Mapping[str, Sequence[Calibration]]
) -> Callable[[str], Markup] | None:
    """Return a function that draws the plots; None without the extension "plots"."""
    if "plots" not in {each.name for each in extensions()}:
        return None
    from benchharness.extensions.calibration.figures import draw_alone

    return partial(draw_alone, entry, known)


def _sentence(each: Calibration) -> str:
    over, reached = each.measures["overconfidence"], each.reached
    said = "its probabilities show no significant bias"
    if over.interval is not None and not over.interval.has(0):
        words = "overconfident" if over.value > 0 else "underconfident"
        said = f"the model is {words} by {shown(abs(over.value))} points"
    covered = ""
    if reached is not None:
        share = f"{shown(reached.coverage.value)} % of the rows"
        covered = f"; {share} can be answered with {100 * reached.accuracy:g} % accuracy"
        if reached.confidence is not None:
            covered += f" (confidence of at least {reached.confidence:.3f})"
    return f"{each.title}: {said}{covered}."


def _tables(each: Calibration) -> Iterator[Table]:
    measures = tuple(
        Line(
            cells=(
                NAMES[name].strip(),
                marked(_text(name, each.measures[name].value), each.flags),
                _ends(name, each.measures[name].interval),
            ),
            evidence=each.task,
        )
        for name in _SHOWN
    )
    yield Table(title=each.title, columns=("measure", "value", "95 % interval"), lines=measures)
    columns = ("coverage", "accuracy", "95 % interval", "lowest confidence")
    curve = tuple(
        Line(
            cells=(
                f"{100 * p.coverage:.0f} %",
                shown(p.accuracy),
                _ends("accuracy", p.interval),
                f"{p.confidence:.4f}",
            ),
            evidence=each.task,
        )
        for p in each.curve
    )
    title = f"{each.title}: accuracy of the most confident rows"
    yield Table(title=title, columns=columns, lines=curve)


def _text(name: str, value: float) -> str:
    return shown(value) if name in IN_PERCENT else f"{value:.4f}"


def _ends(name: str, ends: Interval | None) -> str:
    return "" if ends is None else f"{_text(name, ends.low)} to {_text(name, ends.high)}"
