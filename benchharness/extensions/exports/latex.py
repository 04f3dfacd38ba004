"""Export of leaderboards as LaTeX tables for papers, with booktabs.

In a two-column layout, a table with few columns fills one column of the page, and a wider table
fills both. LaTeX scales a table down if it is wider than the text. The output needs the packages
booktabs and graphicx, and compiles with pdflatex, lualatex and xelatex.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from benchharness.errors import BenchError
from benchharness.extensions.exports.table import (
    SPREAD_NOTE,
    Choice,
    Table,
    TableCell,
    TableRow,
    build_tables,
)
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.text import visible

_NARROW = 4  # maximum number of columns of a table that fits into one column of the page

_ROWS = 40  # maximum number of rows per float, which leaves room for the notes

_LONG_NAME = 36  # maximum length of a name on one line; longer names are wrapped


def to_latex(
    boards: Iterable[Board],
    choice: Choice = Choice(),  # noqa: B008  (frozen)
    *,
    caption: str = "",
    label: str = "",
) -> str:
    """Return the LaTeX source of one table per leaderboard.

    The source begins with comments that list the required packages.

    Args:
        boards: Leaderboards to export.
        choice: Columns and other options of the tables.
        caption: LaTeX source of the caption; empty for the leaderboard's title.
        label: Label of the table; empty for "tab:SUITE". If several tables would have the same
            label, a number is appended from the second one on.

    Raises:
        BenchError: If the document would not compile with this caption or label, or if `choice`
            does not fit the leaderboards (see `build_tables`).
    """
    if _breaks(caption):
        raise BenchError(
            f"--caption is not valid LaTeX: {caption!r}. Escape special characters (\\% \\& \\# "
            "\\_), close every { and $, and remove empty lines."
        )
    if label and not re.fullmatch(r"[A-Za-z0-9:./+_-]+", label):
        raise BenchError(
            "--label may only contain letters, digits and : . / + _ - (for example, tab:glue), "
            f"but is {label!r}."
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
    """Return whether LaTeX would report an error for a caption.

    It does for unbalanced braces or dollar signs, unescaped special characters, and empty lines.
    """
    # Remove all valid syntax: citations, references, commands, formulas and, last, balanced braces.
    # Special characters that remain are errors.
    plain = re.sub(r"\\(?:\w*cite\w*|\w*ref)\{[^{}%#]*\}", "", caption)
    plain = re.sub(r"\\\S|\$(?:\\\S|[^$\\%&#])*\$", "", plain)
    while (less := re.sub(r"\{([^{}]*)\}", r"\1", plain)) != plain:
        plain = less
    return re.search(r"[\\{}$%&#_^]|\n\s*\n", plain) is not None


# Escaping of texts.

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
"""LaTeX source for each character that LaTeX would not print literally (source2e, ltoutenc)."""

_LIGATURE = re.compile(r"([-',])(?=\1)")  # LaTeX joins two of them to a dash or quotation mark

_LATIN = "ßæøåÆØÅ"


def latex_escaped(text: str) -> str:
    """Escape a text for LaTeX; line breaks become visible escapes, so the result is one line.

    Characters that some LaTeX engines cannot print are replaced by their code point, such as
    "U+4E2D".
    """
    plain = ""
    for character in visible(text):
        # All engines can print accented letters up to the Unicode block Latin Extended-A.
        base = unicodedata.normalize("NFD", character)[0]
        is_latin = character in _LATIN or (ord(character) < 0x180 and base.isascii())
        plain += _MEANINGS.get(
            character, character if is_latin else f"\\texttt{{U+{ord(character):04X}}}"
        )
    return _LIGATURE.sub(r"\1{}", plain)


def breakable(text: str) -> str:
    """Escape a text for LaTeX, and allow line breaks in words of more than 20 characters.

    Such a word may be broken after every ten characters.
    """
    words = (
        r"\allowbreak{}".join(map(latex_escaped, re.findall(r".{1,10}", word)))
        if len(word) > 20
        else latex_escaped(word)
        for word in visible(text).split(" ")
    )
    return " ".join(words)


# Conversion of a table.

_HEADINGS = {
    "scored": "Scored prediction files",
    "ensemble": "Ensembles",
    "zero-shot": "Zero-shot",
    "baseline": "Baselines",
    "published": "Published",
}


def _marks(table: Table) -> dict[str, str]:
    """Return the footnote marks, keyed by metric or by source of a published row.

    Metrics have letters, and sources have numbers. Only a metric that differs from the metric of
    the value's column has a mark.
    """
    found = dict.fromkeys(cell.metric for row in table.rows for cell in row.cells if cell.metric)
    sources = dict.fromkeys(row.source for row in table.rows if row.source)
    letters = {metric: chr(ord("a") + place) for place, metric in enumerate(found)}
    return letters | {source: str(place) for place, source in enumerate(sources, start=1)}


@dataclass(frozen=True)
class _Setting:
    """Conversion of one table to LaTeX; `marks` are its footnote marks."""

    table: Table
    marks: Mapping[str, str]

    def environments(self, caption: str, label: str) -> Iterator[str]:
        """Yield the LaTeX source of the table as one or more floats, each of which fits on a page.

        The last float contains the notes.
        """
        table = self.table
        wide = len(table.columns) + len(table.facts) > _NARROW
        environment = "table*" if wide else "table"
        has_ends = any(cell.ends for row in table.rows for cell in row.cells)
        most = _ROWS // 2 if has_ends else _ROWS  # a row with intervals has two lines
        starts = range(0, len(table.rows), most)
        for start in starts:
            yield "\n".join(
                [
                    rf"\begin{{{environment}}}[t]",
                    r"\centering",
                    rf"\caption{{{caption}{' Continued.' if start else ''}}}",
                    # A label must be unique, so only the first float has one.
                    *([] if start else [rf"\label{{{label}}}"]),
                    r"\vspace{4pt}",
                    r"\fontsize{8}{10}\selectfont",
                    r"\setlength{\tabcolsep}{3pt}",
                    # First typeset the table in a box, so that LaTeX can measure its width.
                    r"\sbox0{%",
                    *self._tabular(table.rows[start : start + most]),
                    r"}%",
                    r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
                    *(self._notes(caption) if start == starts[-1] else ()),
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
        """Yield the lines with column titles; a title of one line is in the last of these lines."""
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
        line = _line([name, *facts, *map(self._value, row.cells)])
        if not any(cell.ends for cell in row.cells):
            return line
        return f"{line}\n{_line(['', *('' for _ in facts), *map(_interval, row.cells)])}[2pt]"

    def _value(self, cell: TableCell) -> str:
        if not cell.value:
            return "--"
        number = cell.value.replace("-", "$-$", 1)
        return (rf"\textbf{{{number}}}" if cell.best else number) + self._after(cell)

    def _after(self, cell: TableCell) -> str:
        """Return the text after a value: its marks, and its spread in small print."""
        mark = rf"\textsuperscript{{{self.marks[cell.metric]}}}" if cell.metric else ""
        mark += rf"\textsuperscript{{{cell.mark}}}" if cell.mark else ""
        mark += r"\textsuperscript{\dag}" if cell.apart else ""
        return mark + (rf"$_{{{cell.spread}}}$" if cell.spread else "")

    def _notes(self, caption: str) -> Iterator[str]:
        yield r"\par\smallskip"
        yield r"\begin{minipage}{\linewidth}"
        yield r"\fontsize{7}{8.5}\selectfont\raggedright"
        is_said = latex_escaped(self.table.data) in caption
        for note in (*(() if is_said else (f"{self.table.title}.",)), *self.table.notes):
            yield breakable(note.replace(SPREAD_NOTE, "the subscript is" + SPREAD_NOTE[4:]))
        for meaning, mark in self.marks.items():
            yield rf"\textsuperscript{{{mark}}}\,{breakable(meaning)}."
        yield r"\end{minipage}"


def _interval(cell: TableCell) -> str:
    """Return the interval of a value, for the line below it; it is large enough to be read."""
    if not cell.ends:
        return ""
    low, high = (end.replace("-", "$-$", 1) for end in cell.ends)
    return rf"{{\fontsize{{7}}{{8}}\selectfont {low}\textendash{{}}{high}}}"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells).rstrip() + r" \\"
