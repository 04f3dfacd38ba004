"""Section of the report: how many levels away the predictions of each entry are."""

from markupsafe import Markup

from bench_ordinal.tasks import REVIEWS
from benchharness.leaderboard.result import predictions_of


def levels_section(store, board):
    """Return a table with the median run of each entry, or nothing for other suites."""
    if REVIEWS.name not in board.tasks:
        return ""
    lines = []
    for entry in board.entries:
        result = store.result(entry.cells[REVIEWS.name].runs[0].key)
        levels = [int(p.level) for p in predictions_of(result.evaluation(f"{REVIEWS.name}:dev"))]
        mean = sum(levels) / len(levels)
        lines.append(
            Markup("<tr><th scope=row>{}</th><td>{:.2f}</td></tr>").format(entry.name, mean)
        )
    head = Markup("<tr><th scope=col>model</th><th scope=col>mean level</th></tr>")
    return Markup("<table><thead>{}</thead><tbody>{}</tbody></table>").format(
        head, Markup("").join(lines)
    )
