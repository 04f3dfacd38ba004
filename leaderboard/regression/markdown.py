"""A verdict as Markdown, for a pull request or the step summary of a workflow."""

from collections.abc import Iterator

from leaderboard.regression.judge import Verdict
from leaderboard.regression.verdict_text import (
    COLUMNS,
    change_line,
    explanations,
    flip_lines,
    row_of,
)
from leaderboard.visible import visible

__all__ = ["to_markdown"]

SPECIAL = "\\`*_{}[]<>()#|!&"
"""What Markdown or HTML could take for markup."""


def to_markdown(verdict: Verdict) -> str:
    """The whole verdict; names from elsewhere stay text."""
    return "\n".join(_lines(verdict)) + "\n"


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"## bench check: {_escaped(verdict.title)}"
    yield ""
    yield f"**{_escaped(verdict.sentence)}**"
    yield ""
    if verdict.tasks:
        yield _row(COLUMNS)
        yield _row(["---"] * len(COLUMNS))
        yield from (_row([_escaped(text) for text in row_of(task)]) for task in verdict.tasks)
        yield ""
        yield from explanations(verdict.alpha)
    changes = filter(None, map(change_line, verdict.tasks))
    for each in (*changes, *verdict.unjudged, *verdict.notes):
        yield ""
        yield f"* {_escaped(str(each))}"
    for task in verdict.worse:
        heading, *lines = flip_lines(task)
        yield ""
        yield _escaped(heading)
        yield ""
        yield from (f"* {_escaped(line)}" for line in lines)


def _row(texts: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in SPECIAL else c for c in visible(text))
