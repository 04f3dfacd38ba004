"""Robustness of stored runs for the report page, the JSON of runs, leaderboards and cards."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from benchharness.extensions.robustness.records import Measured, Record, Records
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import marked
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import counted, grouped, visible
from benchharness.tasks.suites import distinct_title


def percent(value: float) -> str:
    """Return a score or a difference in points (times 100) with two decimals; never "-0.00"."""
    text = f"{100 * value:.2f}"
    return text.removeprefix("-") if float(text) == 0 else text


def interval_text(found: Measured) -> str:
    """Return the interval of a value in points, e.g. "49.10 to 52.33"; "" if it is unknown."""
    if found.low is None or found.high is None:
        return ""
    return f"{percent(found.low)} to {percent(found.high)}"


def facts(store: Store, rows: Sequence[RunRow]) -> dict[str, dict[str, Any]]:
    """Return a summary and all records of each run's robustness, keyed by the key of the run.

    Runs without records are left out.

    Args:
        store: Store that contains the runs.
        rows: Stored runs.

    Returns:
        Dicts with "text" (summary) and "records" (fields of the records).
    """
    every = Records(store).about(rows)
    known = grouped((key, record) for record in every for key in record.runs)
    return {
        key: {"text": _summary(records), "records": [asdict(each) for each in records]}
        for key, records in known.items()
    }


def _summary(records: Sequence[Record]) -> str:
    """Return a summary of records, e.g. "robustness: HANS 50.21; drops by typos 3.20".

    The newest of several records with the same name is used. Records with a limit on the number of
    rows are used only if there are no others.
    """
    whole = [record for record in records if record.limit is None] or records
    newest = {record.name: record for record in whole}.values()
    sets = [f"{r.title} {score_text(r)}" for r in newest if r.kind == "set"]
    drops = [f"{r.name} {percent(r.drop.value)}" for r in newest if r.drop is not None]
    parts = [", ".join(sets), f"drops by {', '.join(drops)}" if drops else ""]
    return f"robustness: {'; '.join(filter(None, parts))}"


def score_text(record: Record) -> str:
    """Return the most important score of a record in points, with a mark if there are warnings."""
    return marked(percent(record.shown.value), record.flags)


_HEADS = ("model", "trained on", "test", "rows", "seeds", "own dev", "score", "95 % interval",
          "drop", "95 % interval of the drop")  # fmt: skip


def section(store: Store, board: Board) -> Markup | str:
    """Return an HTML table with the robustness of a leaderboard's runs; "" without records.

    Args:
        store: Store that contains the runs.
        board: Leaderboard with the runs.
    """
    lines = Markup("").join(_lines(store, board))
    if not lines:
        return ""
    heads = Markup("").join(Markup("<th scope=col>{}</th>").format(head) for head in _HEADS)
    return Markup(
        "<p>The kept models of these runs were scored on challenge sets, and on dev rows with "
        "automatic changes. These scores are not part of any score above.</p>"
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
    ).format(heads, lines)


def _lines(store: Store, board: Board) -> Iterator[Markup]:
    """Yield one row of the HTML table per record of each entry."""
    cells = [(entry, cell) for entry in board.entries for cell in entry.cells.values()]
    records = Records(store).about([run for _, cell in cells for run in cell.runs])
    for entry, cell in cells if records else ():
        keys = {run.key for run in cell.runs}
        for record in records:
            if record.task == cell.task and keys.issuperset(record.runs):
                yield _line(entry.name, record)


def _line(name: str, record: Record) -> Markup:
    drop = record.drop
    cells = (
        distinct_title(record.task),
        test_name(record),
        f"{record.rows:,}",
        counted(len(record.seeds), "seed"),
        marked(percent(record.own), record.flags),
        score_text(record),
        interval_text(record.shown),
        "" if drop is None else percent(drop.value),
        "" if drop is None else interval_text(drop),
    )
    shown = Markup("").join(Markup("<td>{}</td>").format(visible(cell)) for cell in cells)
    return Markup("<tr><th scope=row>{}</th>{}</tr>").format(visible(name), shown)


def test_name(record: Record) -> str:
    """Return the name of a challenge set with its limit, or of a perturbation with its seed."""
    name = record.title if record.kind == "set" else f"{record.name}, seed {record.facts['seed']}"
    return name if record.limit is None else f"{name}, at most {record.limit:,} rows"
