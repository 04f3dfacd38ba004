"""Verdicts on stored runs, for the report page, the JSON of runs, leaderboards and model cards."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from benchharness.extensions.reproduce.verdicts import Verdicts, by_run, summary
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import visible
from benchharness.tasks.suites import distinct_title


def facts(store: Store, rows: Sequence[RunRow]) -> dict[str, dict[str, Any]]:
    """Return the verdicts on each run, and how often it was reproduced, keyed by the run's key.

    Runs without a verdict are left out.

    Args:
        store: Store that contains the runs.
        rows: Stored runs.

    Returns:
        Dicts with "text" (summary), "times" (number of reproductions), "machines" (number of
        machines that reproduced the run) and "verdicts" (fields of all verdicts).
    """
    found = by_run(Verdicts(store).all({row.key for row in rows}), rows)
    return {
        key: {
            "text": summary(verdicts),
            "times": sum(each.is_good for each in verdicts),
            "machines": len({each.host for each in verdicts if each.is_good}),
            "verdicts": [each.to_json() for each in verdicts],
        }
        for key, verdicts in found.items()
    }


_HEADS = ("model", "task", "seed", "run", "verdict", "first difference")


def section(store: Store, board: Board) -> Markup | str:
    """Return an HTML table with the verdicts on a leaderboard's runs; "" if there are none.

    Args:
        store: Store that contains the runs.
        board: Leaderboard with the runs.
    """
    cells = [(e.name, cell.task, run) for e in board.entries for cell in e.cells.values()
             for run in cell.runs]  # fmt: skip
    known = facts(store, [run for *_, run in cells])
    lines = [
        Markup("<tr><th scope=row>{}</th>{}</tr>").format(
            visible(name),
            Markup("").join(
                Markup("<td>{}</td>").format(visible(text))
                for text in (
                    distinct_title(task),
                    str(run.seed),
                    run.key[:12],
                    fact["text"],
                    next((v["sentences"][0] for v in fact["verdicts"] if v["sentences"]), ""),
                )
            ),
        )
        for name, task, run in cells
        if (fact := known.get(run.key))
    ]
    if not lines:
        return ""
    heads = Markup("").join(Markup("<th scope=col>{}</th>").format(head) for head in _HEADS)
    return Markup(
        "<p>These stored jobs were run again, and the results were compared.</p>"
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
    ).format(heads, Markup("").join(lines))
