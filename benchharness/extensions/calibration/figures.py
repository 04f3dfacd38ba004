"""Draw reliability diagrams and risk-coverage curves of the best models for the report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from markupsafe import Markup

from benchharness.extensions.calibration.calibrate import (
    Calibration,
    Wanted,
    cell_calibrations,
)
from benchharness.extensions.plots import chart
from benchharness.extensions.plots.lines import ACROSS, Line, Point, line_figure
from benchharness.extensions.plots.report import draw_figures
from benchharness.extensions.plots.section import Draw, Plot
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import marked, shown
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.store.store import Store
from benchharness.stored.predictions import StoredPredictions

MOST_MODELS = 4
"""Largest number of models per figure: as many as there are colours for lines."""

_WANTED = Wanted(coverages=10)

Known = Mapping[str, Sequence[Calibration]]
"""Calibration of an entry on each split, keyed by task."""


def _draw(store: Store, board: Board, examples: bool) -> Draw:
    """Return a function that draws the figures; `examples` is False to draw none.

    The calibration of the best models of each task is computed now, from their predictions.
    """
    known = _known(store, board) if examples else {}
    return lambda named, _board: calibration_figures(named, known)


CALIBRATION = Plot("Calibration", _draw)
"""Plot section with a reliability diagram and a risk-coverage curve of each split whose predictions
have probabilities."""


def _known(store: Store, board: Board) -> Mapping[str, Known]:
    """Return the calibration of the best models, keyed by the key of the model's first run.

    Splits whose calibration cannot be computed are left out.
    """
    stored = StoredPredictions(store, paths=board.paths)
    found: dict[str, dict[str, Sequence[Calibration]]] = {}
    for task in board.tasks:
        entries = [each for each in board.entries if each.is_single and task in each.cells]
        entries.sort(key=lambda each: -each.cells[task].median)
        for entry in entries[:MOST_MODELS]:
            every = cell_calibrations(stored, entry.cells[task], _WANTED)
            if some := [each for each in every if not each.reason]:
                found.setdefault(entry.runs[0].key, {})[task] = some
    return found


def calibration_figures(
    named: Sequence[chart.NamedEntry], known: Mapping[str, Known]
) -> tuple[chart.Figure, ...]:
    """Draw a reliability diagram and a risk-coverage curve per split.

    Args:
        named: Leaderboard entries, with the ids that their marks have in the plots.
        known: Calibration of entries, keyed by the key of the entry's first run, then by task.
    """
    found: dict[str, list[tuple[chart.NamedEntry, Calibration]]] = {}
    for each in named:
        first = next((run.key for run in each.entry.runs), "")  # published rows have no runs
        for some in known.get(first, {}).values():
            for one in some:
                found.setdefault(one.title, []).append((each, one))
    return tuple(
        draw(title, some) for title, some in found.items() for draw in (_reliability, _risk)
    )


def draw_alone(entry: Entry, known: Known, anchor: str) -> Markup:
    """Draw the figures of one system as HTML, without the links to runs that only the report has.

    Args:
        entry: The system.
        known: Calibration of the system on each split, keyed by task.
        anchor: Prefix for the ids of the figures.
    """
    named = chart.NamedEntry(id="s", name=entry.name, entry=entry)
    figures = calibration_figures([named], {entry.runs[0].key: known})
    return draw_figures([*map(_unlinked, figures)], anchor)


def _unlinked(figure: chart.Figure) -> chart.Figure:
    marks = tuple(replace(mark, href="", entry="") for mark in figure.marks)
    table = figure.table
    if table is not None:
        table = replace(table, rows=tuple(replace(row, href="") for row in table.rows))
    return replace(figure, marks=marks, table=table)


Drawn = Sequence[tuple[chart.NamedEntry, Calibration]]
"""Entries with their calibration on one split."""

_Values = tuple[float, float, Interval, str]
"""Tuple for a point: x and y from 0 to 1, interval of y, and the last cell of its table row."""


def _reliability(title: str, some: Drawn) -> chart.Figure:
    lines = [_line(*pair, ("confidence", "accuracy"), _of_bins(pair[1])) for pair in some]
    figure = line_figure(
        lines,
        chart.linear_axis([p.x for line in lines for p in line.points], "confidence × 100", ACROSS),
        "accuracy",
        title=f"{title}: reliability",
        description=f"Accuracy by confidence on {title}. The table below contains all points.",
        note="Each point is a bin of answers with similar confidences, of all seeds. The bins of a "
        "model have about equally many answers. Below the grey line, a model is right less often "
        "than its probabilities claim. Vertical lines are 95 % intervals over rows. "
        + " ".join(_summary(*pair) for pair in some),
        table=_table(lines, ("model", "confidence", "accuracy", "95 % interval", "% of answers")),
    )
    x, y = figure.x, figure.y
    low, high = max(x.low, y.low), min(x.high, y.high)
    if low >= high:  # no point of the plot has equal confidence and accuracy
        return figure
    diagonal = chart.polyline([(x(low), y(low)), (x(high), y(high))])
    return replace(figure, paths=(chart.Path(kind="line zero", d=diagonal), *figure.paths))


def _risk(title: str, some: Drawn) -> chart.Figure:
    lines = [_line(*pair, ("coverage", "error rate"), _of_curve(pair[1])) for pair in some]
    columns = ("model", "coverage", "error rate", "95 % interval", "lowest confidence")
    return line_figure(
        lines,
        chart.linear_axis([0.0, 100.0], "coverage × 100", ACROSS),
        "error rate",
        title=f"{title}: risk and coverage",
        description=f"Error rate by coverage on {title}. The table below contains all points.",
        note="The coverage is the share of rows that are answered: the rows with the highest "
        "confidence. The error rate is the share of wrong answers among them. Points are means "
        "over seeds. "
        "Vertical lines are 95 % intervals over rows and seeds. The lowest confidence in the table "
        "is the threshold below which the other rows are left to a person.",
        table=_table(lines, columns),
    )


def _of_bins(one: Calibration) -> Iterator[_Values]:
    for each in one.bins:
        yield each.confidence, each.accuracy, each.interval, shown(each.share)


def _of_curve(one: Calibration) -> Iterator[_Values]:
    for each in one.curve:
        ends = Interval(low=1 - each.interval.high, high=1 - each.interval.low)
        yield each.coverage, 1 - each.accuracy, ends, f"{each.confidence:.4f}"


def _line(
    each: chart.NamedEntry, one: Calibration, names: tuple[str, str], values: Iterator[_Values]
) -> Line:
    """Return the line of an entry in a plot.

    Args:
        each: Leaderboard entry.
        one: Calibration of the entry on the split of the plot.
        names: Names of the values on the x-axis and the y-axis.
        values: Points of the line.
    """
    href, points = each.href(each.entry.cells[one.task]), []
    for x, y, ends, last in values:
        score, between = marked(shown(y), one.flags), f"{shown(ends.low)} to {shown(ends.high)}"
        said = f"{each.name}, {names[0]} {shown(x)}: {names[1]} {score} ({between})"
        points.append(
            Point(
                x=100 * x,
                y=100 * y,
                note="; ".join((said, *one.flags)),
                ends=(100 * ends.low, 100 * ends.high),
                entry=each.id,
                href=href,
                cells=(each.name, shown(x), score, between, last),
            )
        )
    return Line(name=each.name, points=points)


def _table(lines: Sequence[Line], columns: tuple[str, ...]) -> chart.Table:
    points = (point for line in lines for point in line.points)
    return chart.Table(
        columns=columns,
        words=("95 % interval",),
        rows=tuple(chart.TableRow(name=p.cells[0], cells=p.cells[1:], href=p.href) for p in points),
    )


def _summary(each: chart.NamedEntry, one: Calibration) -> str:
    """Return a sentence with the most important measures of an entry."""
    found = {name: measure.value for name, measure in one.measures.items()}
    covered = ""
    if one.reached is not None:
        wanted, share = one.reached.accuracy, one.reached.coverage.value
        covered = f", coverage {shown(share)} with {100 * wanted:g} % right answers"
    return (
        f"{each.name}: ECE {shown(found['ece'])} ({shown(found['ece_if_calibrated'])} if it were "
        f"calibrated), calibration error without bias {shown(found['rms_error'])}, negative log "
        f"likelihood {found['nll']:.3f}, Brier score {found['brier']:.3f}, AURC "
        f"{shown(found['aurc'])}{covered}."
    )
