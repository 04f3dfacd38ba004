"""Scores as CSV that a spreadsheet takes for text and numbers, and never for a formula."""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, fields

from leaderboard.exports.lines import ScoreLine
from leaderboard.visible import visible

__all__ = ["COLUMNS", "inert", "to_csv", "without_apostrophe"]

COLUMNS = tuple(field.name for field in fields(ScoreLine))

FORMULA = "=+-@＝＋－＠"
"""What spreadsheets begin a formula with, also in full width (owasp.org, CSV Injection)."""


def to_csv(lines: Iterable[ScoreLine]) -> str:
    """A header and a line a score; numbers with all their digits, nothing for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in lines:
        writer.writerow([_cell(value) for value in asdict(line).values()])
    return text.getvalue()


def inert(text: str) -> str:
    """The text with an apostrophe before what a spreadsheet would compute.

    Also before one that starts so itself, so that it can be taken away again.
    """
    return "'" + text if _computes(text) else text


def without_apostrophe(text: str) -> str:
    """What `inert` was given."""
    return text[1:] if text[:1] == "'" and _computes(text[1:]) else text


def _computes(text: str) -> bool:
    return text.lstrip(" '")[:1] in tuple(FORMULA)


def _cell(value: str | float | None) -> str | float | None:
    return inert(visible(value)) if isinstance(value, str) else value
