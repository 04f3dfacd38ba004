"""Find the lines that name the columns of a table.

The names may be below a title, in two lines, or above lines that describe the columns.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from benchharness.leaderboard.text import are

Lines = Sequence[tuple[int, Sequence[Any]]]
"""Rows of a table, each as (line number, cells)."""

MOST_TITLES = 6
"""Maximum number of title lines above the column names."""

_QUALTRICS = re.compile(r"\{['\"]ImportId['\"]")
_ANSWER = frozenset(("", "response", "open-ended response"))
"""Lower-case cells in SurveyMonkey's second header line, for questions with a single column."""


def split_header(name: str, rows: Lines) -> tuple[Sequence[Any], Lines, tuple[str, ...]]:
    """Separate the names of a table's columns from its rows.

    Args:
        name: The name of the file, for notes.
        rows: All rows of the file, including the header and possible title lines above it.

    Returns:
        The names of the columns; the rows below them, without rows at the end that have only a row
        number; and notes for the user on other lines that are not read as rows.
    """
    if not rows:
        return [], rows, ()
    used = _used_columns(rows)
    notes: tuple[str, ...] = ()
    if above := _count_titles(rows, used):
        said = next((value for _, row in rows[:above] for value in row if value != ""), "")
        notes = (f"{_lines_of(rows[:above])} of {name} {are(above)} a title: {said}",)
        rows = rows[above:]
    header, body = rows[0][1], rows[1:]
    if counters := _counters(rows, used):
        # Drop rows at the end that have only a number: a template may number more rows than are
        # filled in.
        empty = takewhile(lambda line: _is_empty(line[1], counters), reversed(body))
        body = body[: len(body) - sum(1 for _ in empty)]
    if described := _count_descriptions(body):
        said = f"{_lines_of(body[:described])} of {name} describe its columns (Qualtrics)"
        return header, body[described:], (*notes, f"{said} and are not read as rows")
    if body and (both := _joined(header, body[0][1], used)):
        return both, body[1:], (*notes, f"{_lines_of(rows[:2])} of {name} name its columns")
    return header, body, notes


def with_row_names(rows: Lines) -> Lines:
    """Add an empty name to line 1 if all other lines have one field more.

    R's `write.table` gives no name to the column of row names.
    """
    if len(rows) < 2 or any(len(row) != len(rows[0][1]) + 1 for _, row in rows[1:]):
        return rows
    return [(rows[0][0], ["", *rows[0][1]]), *rows[1:]]


def _used_columns(rows: Lines) -> list[int]:
    """List the indices of columns with any value; the last columns of a sheet are often empty."""
    width = min(len(row) for _, row in rows)
    return [n for n in range(width) if any(row[n] != "" for _, row in rows)]


def _count_titles(rows: Lines, used: Sequence[int]) -> int:
    """Count the title lines: lines with few filled cells above the first completely filled line."""
    for above, (_, row) in enumerate(rows[: MOST_TITLES + 1]):
        filled = sum(row[n] != "" for n in used)
        if filled + len(_counters(rows[above:], used)) == len(used):
            return above if len(rows) > above + 1 else 0
        if len(used) < 3 or filled > max(1, (len(used) - 1) // 2):
            return 0
    return 0


def _counters(rows: Lines, used: Sequence[int]) -> list[int]:
    """List the unnamed columns that only number the rows below the first line."""
    return [n for n in used if rows[0][1][n] == "" and _count_up([row[n] for _, row in rows[1:]])]


def _is_empty(row: Sequence[Any], but: Sequence[int]) -> bool:
    return all(value == "" for n, value in enumerate(row) if n not in but)


def _count_up(values: Sequence[Any]) -> bool:
    """Return whether the values are consecutive whole numbers in ascending order."""
    first = str(values[0]) if values else ""
    if not re.fullmatch("[0-9]{1,9}", first):
        return False
    return all(str(value) == str(n) for n, value in enumerate(values, start=int(first)))


def _count_descriptions(body: Lines) -> int:
    """Count the description lines, which end with Qualtrics' line of ImportIds; mostly 0."""
    for count, (_, row) in enumerate(body[:2], start=1):
        if row and all(_QUALTRICS.match(str(value)) for value in row):
            return count
    return 0


def _joined(header: Sequence[Any], below: Sequence[Any], used: Sequence[int]) -> list[Any]:
    """Join two header lines, of which the second names the options of questions.

    Returns an empty list if the second line is a row. It is a header if it names all columns that
    the first line leaves empty, at least two, and has "" or "Response" in the other columns.
    """
    blank = [n for n in used if header[n] == ""]
    # A question is named only above its first option, so the column before a blank one belongs to
    # the same question.
    grouped = {*blank, *(n - 1 for n in blank if n > 0 and below[n - 1] != "")}
    others = [str(below[n]).lower() for n in used if n not in grouped]
    if len(blank) < 2 or any(below[n] == "" for n in blank) or not _ANSWER.issuperset(others):
        return []
    return [below[n] if n in grouped else name for n, name in enumerate(header)]


def _lines_of(rows: Lines) -> str:
    first, last = rows[0][0], rows[-1][0]
    return f"line {first}" if first == last else f"lines {first} to {last}"
