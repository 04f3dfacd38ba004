"""A board as a plain table: what Markdown and LaTeX have in common."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, column_title, shown
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.text import visible


@dataclass(frozen=True, kw_only=True)
class _TableCell:
    """A value times 100 with its spread, empty where there is none; `best` of its column or not."""

    value: str = ""
    spread: str = ""
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class _TableRow:
    """One entry; `rank` is empty where it has none."""

    rank: str
    model: str
    recipe: str
    cells: tuple[_TableCell, ...]


@dataclass(frozen=True, kw_only=True)
class _Table:
    """One board. `columns` name the cells of a row, `notes` are sentences for below the table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[_TableRow, ...]
    notes: tuple[str, ...]


def _build_table(board: Board) -> _Table:
    """The table of a board: its score, where it has every task of it, and its tasks."""
    scored = set(board.rule.cells) <= set(board.tasks)
    names = tuple(column_title(task, board.rule) for task in board.tasks)
    return _Table(
        title=f"{board.title} on {board.data_label}",
        columns=("score", *names) if scored else names,
        rows=tuple(_build_row(board, entry, scored=scored) for entry in board.entries),
        notes=tuple(_notes(board, scored=scored)),
    )


def _build_row(board: Board, entry: Entry, *, scored: bool) -> _TableRow:
    cells = [_build_cell(board, entry, task) for task in board.tasks]
    return _TableRow(
        rank="" if entry.rank is None else str(entry.rank),
        model=entry.model,
        recipe=", ".join((entry.shown_recipe, *entry.selection_labels)),
        cells=(_score(board, entry), *cells) if scored else tuple(cells),
    )


def _score(board: Board, entry: Entry) -> _TableCell:
    if entry.score is None:
        return _TableCell()
    models = (other.score for other in board.entries if other.competes)
    scores = [score for score in models if score is not None]
    best = entry.competes and len(scores) > 1 and shown(entry.score) == shown(max(scores))
    return _TableCell(value=shown(entry.score), spread=_spread(entry.spread), best=best)


def _build_cell(board: Board, entry: Entry, task: str) -> _TableCell:
    cell: Cell | None = entry.cells.get(task)
    if cell is None:
        return _TableCell()
    value = shown(cell.median)
    best = entry.competes and value == board.best(task)
    return _TableCell(value=value, spread=_spread(cell.spread), best=best)


def _spread(spread: float | None) -> str:
    return "" if spread is None else shown(spread)


def _notes(board: Board, *, scored: bool) -> Iterator[str]:
    yield "Values are times 100, the median over seeds; ± is the sample standard deviation."
    if scored:
        yield f"The score is {board.rule.name}."
    if any(not entry.is_single for entry in board.entries):
        yield "Ensembles and baselines have no rank."


# Boards as Markdown tables (GitHub's), the best of each column in bold.

_MARKS = re.compile(r"([\\`*_{}\[\]#+!|~:@$])")
"""What may begin something: emphasis, code, a link, an image, a cell, an address, a formula."""


def to_markdown(boards: Iterable[Board]) -> str:
    """A heading, a table and its notes for each board."""
    return "\n\n".join(_section(_build_table(board)) for board in boards) + "\n"


def _markdown_escaped(text: str) -> str:
    """The text as it reads, whatever Markdown or HTML would make of it; always on one line."""
    plain = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\1", plain)


def _section(table: _Table) -> str:
    heads = ["#", "model", "recipe", *map(_markdown_escaped, table.columns)]
    heads[0] = r"\#"
    rules = ["--:", ":--", ":--", *("--:" for _ in table.columns)]
    rows = [
        [
            row.rank or "–",
            _markdown_escaped(row.model),
            _markdown_escaped(row.recipe),
            *map(_markdown_cell, row.cells),
        ]
        for row in table.rows
    ]
    lines = [
        f"## {_markdown_escaped(table.title)}",
        "",
        *map(_line, [heads, rules, *rows]),
        "",
        *table.notes,
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: _TableCell) -> str:
    value = f"**{cell.value}**" if cell.best else cell.value or "–"
    return f"{value} ± {cell.spread}" if cell.spread else value


# Boards as LaTeX tables with booktabs, the best of each column in bold.
#
# The text needs no package but booktabs and compiles with pdflatex, lualatex and xelatex alike.

_MEANINGS = {
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

_LIGATURE = re.compile(r"([-',])(?=\1)")
"""Two of these would become a dash or a quotation mark."""

_LATIN = "ßæøåÆØÅ"


def to_latex(boards: Iterable[Board]) -> str:
    """A table environment for each board."""
    head = "% \\usepackage{booktabs} in the preamble\n"
    return head + "\n".join(_environment(_build_table(board)) for board in boards)


def latex_escaped(text: str) -> str:
    """The text as it reads, on one line; letters that not every engine has become "U+4E2D"."""
    plain = "".join(_MEANINGS.get(character) or _letter(character) for character in visible(text))
    return _LIGATURE.sub(r"\1{}", plain)


def _letter(character: str) -> str:
    base = unicodedata.normalize("NFD", character)[0]
    if character.isascii() or character in _LATIN or (ord(character) < 0x180 and base.isascii()):
        return character
    return f"\\texttt{{U+{ord(character):04X}}}"


def _environment(table: _Table) -> str:
    heads = ["\\#", "model", "recipe", *map(latex_escaped, table.columns)]
    rows = [
        [
            row.rank or "--",
            latex_escaped(row.model),
            latex_escaped(row.recipe),
            *map(_latex_cell, row.cells),
        ]
        for row in table.rows
    ]
    caption = " ".join(latex_escaped(sentence) for sentence in (table.title + ".", *table.notes))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{rll{'r' * len(table.columns)}}}",
        r"\toprule",
        _latex_line(heads),
        r"\midrule",
        *map(_latex_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(cell: _TableCell) -> str:
    value = rf"\textbf{{{cell.value}}}" if cell.best else cell.value or "--"
    return rf"{value} {{\footnotesize\ensuremath{{\pm}}{cell.spread}}}" if cell.spread else value
