r"""Boards as LaTeX tables with booktabs, the best of each column in bold.

The text needs no package but booktabs and compiles with pdflatex, lualatex and xelatex alike.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from leaderboard.boards.board import Board
from leaderboard.exports.table import Table, TableCell, build_table
from leaderboard.visible import visible

__all__ = ["escaped", "to_latex"]

MEANINGS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\char34{}",
    # After \\ a bracket or a star would be taken for an option of the line before.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": r"\textendash{}",
    "±": r"\ensuremath{\pm}",
    **{mark: "\\" + mark for mark in "{}$&#%_"},
}
"""What stands for each character that LaTeX would not print as it is (source2e, ltoutenc)."""

LIGATURE = re.compile(r"([-',])(?=\1)")
"""Two of these would become a dash or a quotation mark."""

LATIN = "ßæøåÆØÅ"


def to_latex(boards: Iterable[Board]) -> str:
    """A table environment for each board."""
    head = "% \\usepackage{booktabs} in the preamble\n"
    return head + "\n".join(_environment(build_table(board)) for board in boards)


def escaped(text: str) -> str:
    """The text as it reads, on one line; letters that not every engine has become "U+4E2D"."""
    plain = "".join(MEANINGS.get(character) or _letter(character) for character in visible(text))
    return LIGATURE.sub(r"\1{}", plain)


def _letter(character: str) -> str:
    base = unicodedata.normalize("NFD", character)[0]
    if character.isascii() or character in LATIN or (ord(character) < 0x180 and base.isascii()):
        return character
    return f"\\texttt{{U+{ord(character):04X}}}"


def _environment(table: Table) -> str:
    heads = ["\\#", "model", "recipe", *map(escaped, table.columns)]
    rows = [
        [row.rank or "--", escaped(row.model), escaped(row.recipe), *map(_cell, row.cells)]
        for row in table.rows
    ]
    caption = " ".join(escaped(sentence) for sentence in (table.title + ".", *table.notes))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{rll{'r' * len(table.columns)}}}",
        r"\toprule",
        _line(heads),
        r"\midrule",
        *map(_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(cell: TableCell) -> str:
    value = rf"\textbf{{{cell.value}}}" if cell.best else cell.value or "--"
    return rf"{value} {{\footnotesize\ensuremath{{\pm}}{cell.spread}}}" if cell.spread else value
