"""Boards as LaTeX tables for papers, with booktabs, never wider than the text.

A table with few columns fits one column of a page; any other spans both. LaTeX measures the table
and scales it down if it is too wide. The output needs the packages booktabs and graphicx, and
compiles with pdflatex, lualatex and xelatex.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from benchharness.errors import BenchError
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

_NARROW = 4  # most columns of numbers and facts that fit one column of a page

_ROWS = 40  # rows of a float, which leave room for the notes below the last one

_LONG_NAME = 36  # longest name on one line; longer ones are folded


def to_latex(
    boards: Iterable[Board],
    choice: Choice = Choice(),  # noqa: B008  (frozen)
    *,
    caption: str = "",
    label: str = "",
) -> str:
    """Return a table environment for each board, preceded by comments with the required packages.

    Args:
        boards: Boards to export.
        choice: Columns and other options.
        caption: LaTeX source of the caption; default: the board's title.
        label: Label of the table; default: "tab:SUITE".

    Raises:
        BenchError: The document would not compile with this caption or label.
    """
    if _breaks(caption):
        raise BenchError(
            f"--caption is not complete LaTeX: {caption!r}. Write \\% \\& \\# \\_, close "
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
    """Return whether a text would break LaTeX inside braces: unbalanced or special characters."""
    # Remove citations and references, commands and formulas; then braces that are balanced.
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
    # After a double backslash, a bracket or a star would be read as an option of the line break.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": r"\textendash{}",
    "±": r"\ensuremath{\pm}",
    "†": r"\dag{}",
    **{mark: "\\" + mark for mark in "{}$&#%_"},
}
"""LaTeX source of each character that LaTeX would not print literally (source2e, ltoutenc)."""

_LIGATURE = re.compile(r"([-',])(?=\1)")  # two of them would become a dash or a quotation mark

_LATIN = "ßæøåÆØÅ"


def latex_escaped(text: str) -> str:
    """Return the text escaped, on one line; letters that not every engine has become "U+4E2D"."""
    plain = ""
    for character in visible(text):
        # Every engine has accented letters up to Latin Extended-A.
        base = unicodedata.normalize("NFD", character)[0]
        is_latin = character in _LATIN or (ord(character) < 0x180 and base.isascii())
        plain += _MEANINGS.get(
            character, character if is_latin else f"\\texttt{{U+{ord(character):04X}}}"
        )
    return _LIGATURE.sub(r"\1{}", plain)


def breakable(text: str) -> str:
    """Return the text escaped; words too long for a line may be broken every ten characters."""
    words = (
        r"\allowbreak{}".join(map(latex_escaped, re.findall(r".{1,10}", word)))
        if len(word) > 20
        else latex_escaped(word)
        for word in visible(text).split(" ")
    )
    return " ".join(words)


# The text of a table.

_HEADINGS = {
    "scored": "Scored prediction files",
    "ensemble": "Ensembles",
    "zero-shot": "Zero-shot",
    "baseline": "Baselines",
    "published": "Published",
}


def _marks(table: Table) -> dict[str, str]:
    """Return a letter for each metric other than its column's, and a number for each source."""
    found = dict.fromkeys(cell.metric for row in table.rows for cell in row.cells if cell.metric)
    sources = dict.fromkeys(row.source for row in table.rows if row.source)
    letters = {metric: chr(ord("a") + place) for place, metric in enumerate(found)}
    return letters | {source: str(place) for place, source in enumerate(sources, start=1)}


@dataclass(frozen=True)
class _Setting:
    """Table, with the marks that refer to its notes."""

    table: Table
    marks: Mapping[str, str]

    def environments(self, caption: str, label: str) -> Iterator[str]:
        """Yield the table as floats, none higher than a page, with the notes in the last one."""
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
                    # A label must be unique, so only the first float has it.
                    *([] if start else [rf"\label{{{label}}}"]),
                    r"\vspace{4pt}",
                    r"\fontsize{8}{10}\selectfont",
                    r"\setlength{\tabcolsep}{3pt}",
                    # Two small stacked numbers are higher than a line.
                    *([r"\renewcommand{\arraystretch}{1.3}"] if has_ends else []),
                    # Typeset into a box first, so that LaTeX can compare its width with the line's.
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
        # @{} removes the space on both sides of the table.
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
        """Yield the lines of column titles; a title of one line is in the last."""
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
        """Return the marks after a value, and its interval (sub- and superscript) or spread."""
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
