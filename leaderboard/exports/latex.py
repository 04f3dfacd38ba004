"""Boards as LaTeX tables for papers: booktabs, and no wider than the text.

A table with few columns stands in one column of a page, any other across it. LaTeX itself measures
it, and scales what is too wide. The text needs booktabs and graphicx, and compiles with pdflatex,
lualatex and xelatex alike.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.exports.table import (
    SPREAD_NOTE,
    Choice,
    Table,
    TableCell,
    TableRow,
    build_tables,
)
from benchharness.leaderboard.text import visible
from benchharness.tasks.errors import BenchError

_NARROW = 4  # so many columns of numbers and facts stand in one column of a page

_ROWS = 40  # rows of a float, below whose last the notes still find room on the page

_LONG_NAME = 36  # longer names of rows are folded


def to_latex(
    boards: Iterable[Board],
    choice: Choice = Choice(),  # noqa: B008  (frozen)
    *,
    caption: str = "",
    label: str = "",
) -> str:
    """A table environment for each board, and above them what the preamble needs.

    `caption`, in LaTeX, and `label` take the place of the board's title and of "tab:SUITE". Raises
    BenchError where a paper would not compile with them.
    """
    if _breaks(caption):
        raise BenchError(
            f"--caption is not LaTeX that stands alone: {caption!r}. Write \\% \\& \\# \\_, close "
            "every { and $, and leave no empty line."
        )
    if label and not re.fullmatch(r"[A-Za-z0-9:./+_-]+", label):
        raise BenchError(
            f"--label takes letters, digits and : . / + _ -, found {label!r}: as in tab:glue."
        )
    seen: Counter[str] = Counter()
    packages = ("booktabs", "graphicx")
    texts = ["".join(f"% \\usepackage{{{package}}} in the preamble\n" for package in packages)]
    for table in build_tables(boards, choice, official=True):
        name = label or f"tab:{table.suite}"
        seen[name] += 1
        number = f"-{seen[name]}" if seen[name] > 1 else ""
        title = caption or f"{latex_escaped(table.caption)}."
        texts += _Setting(table, _marks(table)).environments(title, name + number)
    return "\n".join(texts)


def _breaks(caption: str) -> bool:
    """Whether a text cannot stand in braces: what is open at its end, or has no meaning there."""
    # Without what it refers to, commands and formulas; then without braces that close.
    plain = re.sub(r"\\(?:\w*cite\w*|\w*ref)\{[^{}%#]*\}", "", caption)
    plain = re.sub(r"\\\S|\$(?:\\\S|[^$\\%&#])*\$", "", plain)
    while (less := re.sub(r"\{([^{}]*)\}", r"\1", plain)) != plain:
        plain = less
    return re.search(r"[\\{}$%&#_^]|\n\s*\n", plain) is not None


# The text of a cell.

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
    "†": r"\dag{}",
    **{mark: "\\" + mark for mark in "{}$&#%_"},
}
"""What stands for each character that LaTeX would not print as it is (source2e, ltoutenc)."""

_LIGATURE = re.compile(r"([-',])(?=\1)")  # two of these would become a dash or a quotation mark

_LATIN = "ßæøåÆØÅ"


def latex_escaped(text: str) -> str:
    """The text as it reads, on one line; letters that not every engine has become "U+4E2D"."""
    plain = ""
    for character in visible(text):
        # A letter with an accent is in every engine where it is in Latin Extended-A or before.
        base = unicodedata.normalize("NFD", character)[0]
        is_latin = character in _LATIN or (ord(character) < 0x180 and base.isascii())
        plain += _MEANINGS.get(
            character, character if is_latin else f"\\texttt{{U+{ord(character):04X}}}"
        )
    return _LIGATURE.sub(r"\1{}", plain)


def breakable(text: str) -> str:
    """The text, escaped; a word that no line may hold can be folded every ten characters."""
    words = (
        r"\allowbreak{}".join(map(latex_escaped, re.findall(r".{1,10}", word)))
        if len(word) > 20
        else latex_escaped(word)
        for word in visible(text).split(" ")
    )
    return " ".join(words)


# The text of a table.

_HEADINGS = {
    "scored": "Predictions of others",
    "ensemble": "Ensembles",
    "zero-shot": "Zero-shot",
    "baseline": "Baselines",
    "published": "Published",
}


def _marks(table: Table) -> dict[str, str]:
    """A letter for each metric of published values that is not the column's own.

    A number for each source.
    """
    found = dict.fromkeys(cell.metric for row in table.rows for cell in row.cells if cell.metric)
    sources = dict.fromkeys(row.source for row in table.rows if row.source)
    letters = {metric: chr(ord("a") + place) for place, metric in enumerate(found)}
    return letters | {source: str(place) for place, source in enumerate(sources, start=1)}


@dataclass(frozen=True)
class _Setting:
    """A table, and the marks that lead to its notes."""

    table: Table
    marks: Mapping[str, str]

    def environments(self, caption: str, label: str) -> Iterator[str]:
        """The table, in several floats where one would be higher than a page; notes come last."""
        table = self.table
        wide = len(table.columns) + len(table.facts) > _NARROW
        environment = "table*" if wide else "table"
        has_ends = any(cell.ends for row in table.rows for cell in row.cells)
        most = _ROWS * 9 // 10 if has_ends else _ROWS
        starts = range(0, len(table.rows), most)
        for start in starts:
            yield "\n".join(
                [
                    rf"\begin{{{environment}}}[t]",
                    r"\centering",
                    rf"\caption{{{caption}{' Continued.' if start else ''}}}",
                    # LaTeX takes a label once, so the floats that go on have none.
                    *([] if start else [rf"\label{{{label}}}"]),
                    r"\vspace{4pt}",
                    r"\fontsize{8}{10}\selectfont",
                    r"\setlength{\tabcolsep}{3pt}",
                    # Two small numbers are higher than a line.
                    *([r"\renewcommand{\arraystretch}{1.3}"] if has_ends else []),
                    # Set into a box first, whose width LaTeX compares with the line's.
                    r"\sbox0{%",
                    *self._tabular(table.rows[start : start + most]),
                    r"}%",
                    r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
                    *(self._notes() if start == starts[-1] else ()),
                    rf"\end{{{environment}}}",
                    "",
                ]
            )

    def _tabular(self, rows: Sequence[TableRow]) -> Iterator[str]:
        table = self.table
        # @{} takes away the space at both sides of the table.
        yield rf"\begin{{tabular}}{{@{{}}l{'l' * len(table.facts)}{'r' * len(table.columns)}@{{}}}}"
        yield r"\toprule"
        yield from self._heads()
        yield r"\midrule"
        for place, (group, found) in enumerate(groupby(rows, key=lambda row: row.group)):
            if place:
                yield r"\midrule"
            if heading := _HEADINGS.get(group):
                width = 1 + len(table.facts) + len(table.columns)
                yield rf"\multicolumn{{{width}}}{{@{{}}l@{{}}}}{{\emph{{{heading}}}}} \\"
            yield from map(self._row, found)
        yield r"\bottomrule"
        yield r"\end{tabular}"

    def _heads(self) -> Iterator[str]:
        """The line of titles, or two where a title has two; one of one line stands in the last."""
        titles = ["Score" if t == "score" else t for t in self.table.columns]
        lines = [title.split("\n") for title in titles]
        height = max(map(len, lines))
        names = ["Model", *map(str.capitalize, self.table.facts)]
        for line in range(-height, 0):
            words = [parts[line] if -line <= len(parts) else "" for parts in lines]
            before = names if line == -1 else [""] * len(names)
            yield _line([*before, *map(latex_escaped, words)])

    def _row(self, row: TableRow) -> str:
        mark = rf"\textsuperscript{{{self.marks[row.source]}}}" if row.source else ""
        name = latex_escaped(row.official) + mark
        if len(row.official) > _LONG_NAME:
            words = breakable(row.official) + mark
            name = rf"\parbox[t]{{14em}}{{\raggedright {words}\strut}}"
        facts = [latex_escaped(row.fact(fact)) for fact in self.table.facts]
        return _line([name, *facts, *map(self._value, row.cells)])

    def _value(self, cell: TableCell) -> str:
        if not cell.value:
            return "--"
        number = cell.value.replace("-", "$-$", 1)
        return (rf"\textbf{{{number}}}" if cell.best else number) + self._after(cell)

    def _after(self, cell: TableCell) -> str:
        """What stands behind a value: the marks of what it is of, and its spread as an index.

        In the place of a spread its interval, the lower end below the upper one.
        """
        mark = rf"\textsuperscript{{{self.marks[cell.metric]}}}" if cell.metric else ""
        mark += rf"\textsuperscript{{{cell.mark}}}" if cell.mark else ""
        mark += r"\textsuperscript{\dag}" if cell.apart else ""
        if cell.ends:
            return mark + "$_{{{}}}^{{{}}}$".format(*cell.ends)
        return mark + (rf"$_{{{cell.spread}}}$" if cell.spread else "")

    def _notes(self) -> Iterator[str]:
        yield r"\par\smallskip"
        yield r"\begin{minipage}{\linewidth}"
        yield r"\fontsize{7}{8.5}\selectfont\raggedright"
        for note in (f"{self.table.title}.", *self.table.notes):
            yield breakable(note.replace(SPREAD_NOTE, "the index is" + SPREAD_NOTE[4:]))
        for meaning, mark in self.marks.items():
            yield rf"\textsuperscript{{{mark}}}\,{breakable(meaning)}."
        yield r"\end{minipage}"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells).rstrip() + r" \\"
