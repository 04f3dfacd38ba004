"""Boards as LaTeX tables for papers: booktabs, and no wider than a column or the text.

A table is set for the narrowest page that it may stand on: a column of 219 points (ACL's 7.7 cm)
if it fits, else 345 points, the text of `article`, which `table*` gives in two columns as in one.
A wider one is scaled to the text where that is narrower. The text needs booktabs, a wide table
graphicx, with `siunitx` that package too, and compiles with pdflatex, lualatex and xelatex alike.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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

_COLUMN, _TEXT, _WIDE = 219.0, 345.0, 480.0
"""The width of a column, of the text, and of what is scaled to the text, in points."""

_SIZES = ((9.0, 4.0), (9.0, 3.0), (8.0, 3.0), (8.0, 2.0), (7.0, 2.0))
"""Sizes of type with the space on each side of a column, in points, the nicest first. They are told
as numbers, because \\small is larger in some classes."""

_SMALL, _NOTE_SIZE = 6.0, 7.0
"""The sizes of a spread and of the notes."""

_INDEX = {9.0: 6.0, 8.0: 6.0, 7.0: 5.0}
"""The size of an index by that of the type (LaTeX's \\DeclareMathSizes)."""

_LEADING = 2.0
"""What a line has above its size."""

_PAGE = 430.0
"""Points of rows and notes on a page: its 550 without caption, heads, rules and headings."""

_NAMES = 0.4
"""The share of the width that names may take before they are folded."""


def to_latex(
    boards: Iterable[Board],
    choice: Choice = Choice(),  # noqa: B008  (frozen)
    *,
    siunitx: bool = False,
    caption: str = "",
    label: str = "",
) -> str:
    """A table environment for each board, and above them what the preamble needs.

    `caption`, in LaTeX, and `label` take the place of the board's title and of "tab:SUITE".
    """
    seen: Counter[str] = Counter()
    texts = list[str]()
    for table in build_tables(boards, choice, official=True):
        name = label or f"tab:{table.suite}"
        seen[name] += 1
        number = f"-{seen[name]}" if seen[name] > 1 else ""
        title = caption or f"{latex_escaped(table.title)}."
        texts.extend(_environments(replace(table, title=title), siunitx, name + number))
    wide = any(r"\resizebox" in text for text in texts)
    packages = ["booktabs", *(["graphicx"] if wide else ()), *(["siunitx"] if siunitx else ())]
    head = "".join(f"% \\usepackage{{{package}}} in the preamble\n" for package in packages)
    return head + "\n".join(texts)


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
    **{mark: "\\" + mark for mark in "{}$&#%_"},
}
"""What stands for each character that LaTeX would not print as it is (source2e, ltoutenc)."""

_LIGATURE = re.compile(r"([-',])(?=\1)")
"""Two of these would become a dash or a quotation mark."""

_LATIN = "ßæøåÆØÅ"


def latex_escaped(text: str) -> str:
    """The text as it reads, on one line; letters that not every engine has become "U+4E2D"."""
    plain = "".join(_MEANINGS.get(character) or _letter(character) for character in visible(text))
    return _LIGATURE.sub(r"\1{}", plain)


def _letter(character: str) -> str:
    return character if _is_known(character) else f"\\texttt{{U+{ord(character):04X}}}"


def _is_known(character: str) -> bool:
    """Whether every engine has the letter with its accent."""
    base = unicodedata.normalize("NFD", character)[0]
    known = character.isascii() or character in _LATIN
    return known or (ord(character) < 0x180 and base.isascii())


_LONG = 10
"""So many characters in a row need a place where they may be folded."""


def _breakable(text: str) -> str:
    """The text, escaped, with places to fold it: behind marks, and within very long words."""
    pieces = re.findall(rf"[^\W_]{{1,{_LONG}}}[\W_]?|[\W_]", visible(text))
    joined = r"\allowbreak{}".join(map(latex_escaped, pieces))
    return joined.replace(r" \allowbreak{}", " ").replace(r"-\allowbreak{}", "-")


# How wide a text is. What LaTeX's own type, Computer Modern, takes is an upper bound for Times.

_WIDTHS = {
    character: width
    for width, characters in {
        278: "il.,:;'![]|",
        306: "fj",
        333: " -",
        392: "rst()I",
        444: "cez",
        500: 'ago0123456789/"$*_{}\\~^`–',
        528: "kqvxyJ",
        556: "bdhnpuS",
        625: "LZ",
        681: "EFP",
        722: "wBCT",
        750: "AHNRUVXY",
        785: "DGKOQ+=<>&@±",
        833: "m#%",
        1028: "MW",
    }.items()
    for character in characters
}
"""In thousandths of the size (cmr10.tfm; of like characters the widest)."""

_CODE = 6.5 * 525
"""What stands for a letter that is not known, in typewriter type."""

_OPTICAL = {5.0: 1.362, 6.0: 1.222, 7.0: 1.139, 8.0: 1.063, 9.0: 1.028}
"""How much wider letters are for their size where the size is small (cmr5, cmr6, ...)."""

_BOLD = 1.15


def _width(text: str, size: float, *, bold: bool = False) -> float:
    """Points of a text that LaTeX prints as it is; a bound for what has other letters."""
    units = sum(_units(character) for character in visible(text))
    return units / 1000 * size * _OPTICAL[size] * (_BOLD if bold else 1.0)


def _units(character: str) -> float:
    base = unicodedata.normalize("NFD", character)[0]
    return _WIDTHS.get(base, 1030 if _is_known(character) else _CODE)


# How a table fits.


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """How a table is set: sizes in points, spreads behind a sign (82.9 ± 0.2) or as an index.

    Names are folded at `folded`, None where they are not. `panels` are the columns of the tables
    that stand one below the other, mostly a single one.
    """

    width: float
    size: float
    gap: float
    index: bool
    folded: float | None
    panels: tuple[tuple[int, ...], ...]

    @property
    def environment(self) -> str:
        """The float: "table" in a column, "table*" across the page."""
        return "table" if self.width <= _COLUMN else "table*"


def _layout(table: Table, siunitx: bool) -> _Layout:
    """The nicest way in which the table fits: spreads beside values before a narrower place."""
    every = tuple(range(len(table.columns)))
    spreads = any(cell.spread for row in table.rows for cell in row.cells)
    forms = (False, True) if spreads else (False,)
    for width, sizes, indices in (
        (_COLUMN, _SIZES[:-1], forms),
        (_TEXT, _SIZES, forms),
        (_WIDE, _SIZES[-1:], forms[-1:]),
    ):
        for index in indices:
            for size, gap in sizes:
                numbers = sum(_numbers(table, siunitx, size, gap, index=index))
                facts = sum(_fact_width(table, name, size) + 2 * gap for name in table.facts)
                names = max(_name_width(row, size) for row in table.rows) + gap
                room = width - numbers - facts + gap  # nothing stands before or behind the rules
                fits = names <= room
                least = _NAMES * (_COLUMN if width > _TEXT else width)
                if fits or min(names, room) > least:
                    return _Layout(
                        width=width,
                        size=size,
                        gap=gap,
                        index=index,
                        folded=None if fits else room - gap,
                        panels=(every,),
                    )
    return _in_panels(table, siunitx, index=spreads)


def _in_panels(table: Table, siunitx: bool, *, index: bool) -> _Layout:
    """As many columns in each panel as fit beside the folded names; facts stand in the first."""
    size, gap = _SIZES[-2]
    widths = list(_numbers(table, siunitx, size, gap, index=index))
    names = max(_name_width(row, size) for row in table.rows)
    folded = min(names, 0.7 * _NAMES * _TEXT) + gap
    facts = sum(_fact_width(table, name, size) + 2 * gap for name in table.facts)
    panels: list[list[int]] = [[]]
    room = _TEXT - folded - facts
    for number, width in enumerate(widths):
        if width > room and panels[-1]:
            panels.append([])
            room = _TEXT - folded
        panels[-1].append(number)
        room -= width
    return _Layout(
        width=_TEXT,
        size=size,
        gap=gap,
        index=index,
        folded=folded - gap,
        panels=tuple(map(tuple, panels)),
    )


def _numbers(
    table: Table, siunitx: bool, size: float, gap: float, *, index: bool
) -> Iterator[float]:
    """The width of each column of numbers, with the space on both sides."""
    for place, title in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        widths = [_width(line, size) for line in _capital(title).split("\n")]
        # siunitx keeps room for the digits of the longest number in every cell.
        digits = [_digits(table, place)] if siunitx else []
        for cell in cells:
            value = max(_width(text, size, bold=cell.best) for text in (cell.value, *digits))
            mark = _width(_MARK, _SMALL) if cell.metric else 0.0
            spread = _width(f"±{cell.spread}", _SMALL) + 2.0 if cell.spread else 0.0
            if index and cell.spread:  # with TeX's space behind an index
                spread = _width(cell.spread, _INDEX[size]) + 0.5
            widths.append(value + mark + spread)
        yield max(widths) + 2 * gap


_MARK = "m"
"""As wide as a mark of a note is at most."""


def _name_width(row: TableRow, size: float) -> float:
    return _width(row.official, size) + (_width("00", _SMALL) if row.source else 0.0)


def _fact_width(table: Table, name: str, size: float) -> float:
    return max(
        _width(text, size) for text in (name.capitalize(), *(row.fact(name) for row in table.rows))
    )


# The text of a table.

_HEADINGS = {
    "scored": "Predictions of others",
    "ensemble": "Ensembles",
    "zero-shot": "Zero-shot",
    "baseline": "Baselines",
    "published": "Published",
}


def _environments(table: Table, siunitx: bool, label: str) -> Iterator[str]:
    """The table, in several floats where one would be higher than a page; notes are in the last."""
    layout, marks = _layout(table, siunitx), _marks(table)
    if layout.index:
        said = [note.replace(SPREAD_NOTE, "the index is" + SPREAD_NOTE[4:]) for note in table.notes]
        table = replace(table, notes=tuple(said))
    notes = list(_note_lines(table, marks))
    height = _NOTE_SIZE * 1.4 * (1 + _width(" ".join(notes), _NOTE_SIZE) / layout.width)
    parts = list(_parts(table.rows, layout, _PAGE - height))
    for number, rows in enumerate(parts):
        is_last = number == len(parts) - 1
        yield "\n".join(
            [
                rf"\begin{{{layout.environment}}}[t]",
                r"\centering",
                rf"\caption{{{table.title}{' Continued.' if number else ''}}}",
                *([] if number else [rf"\label{{{label}}}"]),
                r"\vspace{4pt}",
                rf"\fontsize{{{layout.size:g}}}{{{layout.size + _LEADING:g}}}\selectfont",
                rf"\setlength{{\tabcolsep}}{{{layout.gap:g}pt}}",
                *_panels(replace(table, rows=rows), siunitx, layout, marks),
                *(_minipage(notes) if is_last else ()),
                rf"\end{{{layout.environment}}}",
                "",
            ]
        )


def _parts(
    rows: Sequence[TableRow], layout: _Layout, last_room: float
) -> Iterator[tuple[TableRow, ...]]:
    """The rows, as many at once as a page has room for, and the notes below the last of them."""
    leading = (layout.size + _LEADING) * len(layout.panels)
    rest = [(row, _line_count(row, layout) * leading) for row in rows]
    while len(rest) > 1 and sum(height for _, height in rest) > last_room:
        part, height = list[TableRow](), 0.0
        while len(rest) > 1 and (not part or height + rest[0][1] <= _PAGE):
            row, more = rest.pop(0)
            part.append(row)
            height += more
        yield tuple(part)
    yield tuple(row for row, _ in rest)


def _line_count(row: TableRow, layout: _Layout) -> int:
    """How many lines a row takes, with a heading or a rule that may stand above it."""
    if layout.folded is None or _name_width(row, layout.size) <= layout.folded:
        return 1
    # A folded line is two thirds full or more.
    return math.ceil(1.5 * _name_width(row, layout.size) / layout.folded)


def _panels(table: Table, siunitx: bool, layout: _Layout, marks: dict[str, str]) -> Iterator[str]:
    for place, columns in enumerate(layout.panels):
        if place:
            yield r"\par\medskip"
        facts = () if place else table.facts
        yield from _tabular(table, siunitx, layout, columns, facts, marks)


def _note_lines(table: Table, marks: dict[str, str]) -> Iterator[str]:
    yield from map(_breaking_words, table.notes)
    for meaning, mark in marks.items():
        yield rf"\textsuperscript{{{mark}}}\,{_breaking_words(meaning)}."


def _minipage(notes: Sequence[str]) -> Iterator[str]:
    yield r"\par\smallskip"
    yield r"\begin{minipage}{\linewidth}"
    yield rf"\fontsize{{{_NOTE_SIZE:g}}}{{8.5}}\selectfont\raggedright"
    yield from notes
    yield r"\end{minipage}"


def _breaking_words(text: str) -> str:
    """The text with places to fold such words as no line holds."""
    return " ".join(
        _breakable(word) if len(word) > 2 * _LONG else latex_escaped(word)
        for word in text.split(" ")
    )


def _marks(table: Table) -> dict[str, str]:
    """A letter for each thing that published values are of, where it is not the column's.

    A number for each source.
    """
    found = dict.fromkeys(cell.metric for row in table.rows for cell in row.cells if cell.metric)
    sources = dict.fromkeys(row.source for row in table.rows if row.source)
    letters = {metric: chr(ord("a") + place) for place, metric in enumerate(found)}
    return letters | {source: str(place) for place, source in enumerate(sources, start=1)}


def _tabular(  # noqa: PLR0913, PLR0917  (a part of a table, and how all of it is set)
    table: Table,
    siunitx: bool,
    layout: _Layout,
    columns: Sequence[int],
    facts: Sequence[str],
    marks: dict[str, str],
) -> Iterator[str]:
    kinds = [_column(table, siunitx, layout, place, marks) for place in columns]
    if is_wide := layout.width > _TEXT:
        yield r"\sbox0{%"
    yield rf"\begin{{tabular}}{{@{{}}l{'l' * len(facts)}{''.join(kinds)}@{{}}}}"
    yield r"\toprule"
    yield from _heads(table, columns, facts)
    yield r"\midrule"
    for place, (group, rows) in enumerate(groupby(table.rows, key=lambda row: row.group)):
        if place:
            yield r"\midrule"
        if heading := _HEADINGS.get(group):
            width = 1 + len(facts) + len(columns)
            yield rf"\multicolumn{{{width}}}{{@{{}}l@{{}}}}{{\emph{{{heading}}}}} \\"
        for row in rows:
            yield from _lines(row, siunitx, layout, columns, facts, marks)
    yield r"\bottomrule"
    yield r"\end{tabular}" + ("}%" if is_wide else "")
    if is_wide:
        yield r"\ifdim\wd0>\textwidth\resizebox{\textwidth}{!}{\usebox0}\else\usebox0\fi"


def _column(table: Table, siunitx: bool, layout: _Layout, place: int, marks: dict[str, str]) -> str:
    """The kind of a column of numbers: with siunitx as many digits as its values have.

    It also needs to know how much stands behind a value.
    """
    if not siunitx:
        return "r"
    before, _, behind = _digits(table, place).partition(".")
    sign = "-" if before.startswith("-") else ""
    texts = [_after(row.cells[place], layout, marks) for row in table.rows]
    after = max(texts, key=lambda text: (len(text), _width(text, _SMALL)))  # of letters the widest
    room = f",table-space-text-post={{{after}}}" if after else ""
    digits = f"{sign}{len(before.lstrip('-'))}.{len(behind)}"
    return f"S[table-format={digits},detect-weight,mode=text{room}]"


def _digits(table: Table, place: int) -> str:
    """A number that is as long before and behind its point as any of a column: "-00.0"."""
    parts = [row.cells[place].value.partition(".") for row in table.rows]
    before = max(len(integer.lstrip("-")) for integer, _, _ in parts) or 1
    behind = max(len(decimals) for _, _, decimals in parts) or 1
    sign = "-" if any(integer.startswith("-") for integer, _, _ in parts) else ""
    return f"{sign}{'0' * before}.{'0' * behind}"


def _heads(table: Table, columns: Sequence[int], facts: Sequence[str]) -> Iterator[str]:
    """The line of titles, or two where a title has two."""
    titles = [table.columns[place].split("\n") for place in columns]
    lines = max(map(len, titles))
    for line in range(lines):
        # A title of one line stands in the last.
        words = [title[line - lines] if line - lines >= -len(title) else "" for title in titles]
        before = ["Model", *map(str.capitalize, facts)] if line == lines - 1 else [""]
        before += [""] * (1 + len(facts) - len(before))
        yield _line([*before, *(f"{{{latex_escaped(_capital(word))}}}" for word in words)])


def _capital(title: str) -> str:
    return "Score" if title == "score" else title


def _lines(  # noqa: PLR0913, PLR0917  (a row of a part of a table, and how all of it is set)
    row: TableRow,
    siunitx: bool,
    layout: _Layout,
    columns: Sequence[int],
    facts: Sequence[str],
    marks: dict[str, str],
) -> Iterator[str]:
    """A row."""
    name = latex_escaped(row.official)
    if layout.folded is not None and _name_width(row, layout.size) > layout.folded:
        folded = rf"\raggedright {_breakable(row.official)}\strut"
        name = rf"\parbox[t]{{{layout.folded:.0f}pt}}{{{folded}}}"
    if row.source:
        name += rf"\textsuperscript{{{marks[row.source]}}}"
    cells = [row.cells[place] for place in columns]
    words = [latex_escaped(row.fact(fact)) for fact in facts]
    values = [_value(cell, siunitx, layout, marks) for cell in cells]
    yield _line([name, *words, *values])


def _value(cell: TableCell, siunitx: bool, layout: _Layout, marks: dict[str, str]) -> str:
    if not cell.value:
        return "{--}"
    after = _after(cell, layout, marks)
    if siunitx:
        value = rf"\bfseries {cell.value}" if cell.best else cell.value
        return f"{value} {{{after}}}" if after else value
    number = cell.value.replace("-", "$-$", 1)
    return (rf"\textbf{{{number}}}" if cell.best else number) + after


def _after(cell: TableCell, layout: _Layout, marks: dict[str, str]) -> str:
    """What stands behind a value: the mark of what it is of, and its spread."""
    mark = rf"\textsuperscript{{{marks[cell.metric]}}}" if cell.metric else ""
    if not cell.spread:
        return mark
    if layout.index:
        return rf"{mark}$_{{{cell.spread}}}$"
    sign = r"\ensuremath{\pm}"
    return rf"{mark}\,{{\fontsize{{{_SMALL:g}}}{{7}}\selectfont{sign}{cell.spread}}}"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells).rstrip() + r" \\"
