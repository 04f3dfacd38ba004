"""Boards as Markdown tables (GitHub's), the best of each column in bold."""

import re
from collections.abc import Iterable, Sequence

from leaderboard.boards.board import Board
from leaderboard.exports.table import Table, TableCell, build_table
from leaderboard.visible import visible

__all__ = ["escaped", "to_markdown"]

MARKS = re.compile(r"([\\`*_{}\[\]#+!|~:@$])")
"""What may begin something: emphasis, code, a link, an image, a cell, an address, a formula."""


def to_markdown(boards: Iterable[Board]) -> str:
    """A heading, a table and its notes for each board."""
    return "\n\n".join(_section(build_table(board)) for board in boards) + "\n"


def escaped(text: str) -> str:
    """The text as it reads, whatever Markdown or HTML would make of it; always on one line."""
    plain = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKS.sub(r"\\\1", plain)


def _section(table: Table) -> str:
    heads = ["#", "model", "recipe", *map(escaped, table.columns)]
    heads[0] = r"\#"
    rules = ["--:", ":--", ":--", *("--:" for _ in table.columns)]
    rows = [
        [row.rank or "–", escaped(row.model), escaped(row.recipe), *map(_cell, row.cells)]
        for row in table.rows
    ]
    lines = [f"## {escaped(table.title)}", "", *map(_line, [heads, rules, *rows]), "", *table.notes]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: TableCell) -> str:
    value = f"**{cell.value}**" if cell.best else cell.value or "–"
    return f"{value} ± {cell.spread}" if cell.spread else value
