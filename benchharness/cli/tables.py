"""Tables on stdout and progress counters on stderr, both of which need rich.

They are in a separate module, so that commands that print JSON do not have to import rich.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.text import Text

Thing = TypeVar("Thing")

_BETWEEN, _CLOSE, _EDGES = 3, 2, 2
"""Number of spaces between two columns, the same in a table that is otherwise too wide, and the
total number at the two ends of a line."""


def print_cells(
    columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]], width: int | None
) -> None:
    """Print a table of limited width on stdout.

    In a table that is too wide, columns are closer together, then the names of columns are wrapped,
    also at hyphens, and then the cells. Markup of the library rich has no effect in cells. The
    tables of rich itself are not used, because they take half a millisecond per row, and thus a
    minute for a hundred thousand rows.

    Args:
        columns: For each column, its name and whether it contains numbers, which are aligned to the
            right.
        rows: Cells of each row.
        width: Largest width of the table in characters; None for the terminal's width.
    """
    console = Console(width=width)
    heads = [column for column, _ in columns]
    widths = _least_widths(heads, rows)
    longest = [max((_cells(row[place]) for row in rows), default=0) for place in range(len(heads))]
    unbroken = sum(map(max, widths, longest)) + _EDGES + _BETWEEN * (len(widths) - 1)
    between = _BETWEEN if unbroken <= console.width else _CLOSE
    taken = _EDGES + between * (len(widths) - 1)
    room = console.width - taken - sum(widths)
    # If the table is too wide although each column is only as wide as its longest word, narrow the
    # widest columns, which breaks words.
    while room < 0 and (widest := max(widths[1:], default=0)) > 1:
        widths[widths.index(widest, 1)] -= 1
        room += 1
    widths[0] = max(1, widths[0] + min(0, room))
    for wanted in (longest, list(map(_cells, heads))):
        for place, length in enumerate(wanted):
            more = max(0, min(length - widths[place], room))
            room -= more
            widths[place] += more
    sides: list[JustifyMethod] = ["right" if is_number else "left" for _, is_number in columns]

    def lines(cells: Iterable[str], *, is_head: bool = False) -> list[str]:
        fold = _folded_head if is_head else _folded
        folded = [fold(console, *each) for each in zip(cells, widths, sides, strict=True)]
        if (most := max(map(len, folded))) > 1:
            gaps = [
                [" " * width] * (most - len(f)) for f, width in zip(folded, widths, strict=True)
            ]
            folded = [gap + f if is_head else f + gap for f, gap in zip(folded, gaps, strict=True)]
        return [f" {(' ' * between).join(line)} " for line in zip(*folded, strict=True)]

    blank = " " * (sum(widths) + taken)
    console.out(blank)
    for line in lines(heads, is_head=True):
        console.out(line, style="table.header", highlight=False)
    rule = f" {('-' if console.options.ascii_only else '─') * (len(blank) - _EDGES)} "
    body = (line for row in rows for line in lines(row))
    # Write to the console's file, as rich does, so that characters that are missing in its encoding
    # are escaped.
    console.file.write("\n".join((rule, *body, blank, "")))


def _folded(console: Console, text: str, width: int, side: JustifyMethod) -> list[str]:
    """Wrap the text of a cell into lines, each padded to the width of its column."""
    if text.isascii() and len(text) <= width:
        return [text.ljust(width) if side == "left" else text.rjust(width)]
    found = Text(text).wrap(console, width, justify=side, overflow="fold")
    return [line.plain + " " * (width - line.cell_len) for line in found]


def _folded_head(console: Console, text: str, width: int, side: JustifyMethod) -> list[str]:
    """Wrap the name of a column as `_folded` does, but also after hyphens."""
    lines = [""]
    for word in text.split():
        for number, piece in enumerate(_HYPHEN.split(word)):
            longer = f"{lines[-1]}{' ' if number == 0 and lines[-1] else ''}{piece}"
            if lines[-1] and _cells(longer) > width:
                lines.append(piece)
            else:
                lines[-1] = longer
    return [folded for line in lines for folded in _folded(console, line, width, side)]


# The name of a column may be wrapped after a hyphen between words, but not in "p-value" or "1e-4".
_HYPHEN = re.compile(r"(?<=[A-Za-z]{2}-)(?=[A-Za-z])")


def parts_that_fit(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> Iterator[list[int]]:
    """Split a table into several tables that fit into a width without breaking words.

    The names of columns may be broken after hyphens.

    Args:
        columns: Names of the columns.
        rows: Cells of each row.
        width: Largest width in characters; None for the terminal's width.

    Yields:
        The indices of the columns of each table. Each table has the first column, and as many other
        columns as fit, but at least one.
    """
    room = Console(width=width).width
    least = _least_widths(columns, rows)
    part = [0]
    for place in range(1, len(columns)):
        taken = sum(least[each] + _CLOSE for each in part) + least[place]
        if taken + _EDGES > room and len(part) > 1:
            yield part
            part = [0]
        part.append(place)
    yield part


def _least_widths(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the smallest width of each column in which no word of a cell is broken."""
    return [
        max(map(_longest_word, (_HYPHEN.sub(" ", head), *(row[place] for row in rows))))
        for place, head in enumerate(heads)
    ]


def _longest_word(text: str) -> int:
    return max(map(_cells, text.split()), default=0)


def _cells(text: str) -> int:
    """Return the width of the text in terminal character cells."""
    return len(text) if text.isascii() else cell_len(text)


PLAIN_SECONDS = 10.0
"""Smallest number of seconds between two progress lines, which are printed if no progress bar can
be drawn."""

STEP = 100
"""Number of items between two updates of the progress."""


MANY = 2_000
"""Number of items in total above which the first progress line is printed early, after STEP items.
"""


@contextmanager
def counting(noun: str, total: int) -> Iterator[Callable[[Iterable[Thing]], Iterator[Thing]]]:
    """Context manager that shows progress on stderr, as a bar in a terminal and otherwise as lines.

    Args:
        noun: Plural noun for the items that are counted, such as "runs".
        total: Expected number of items.

    Yields:
        A function that gets an iterable and returns an iterator over the same items, which counts
        the items.
    """
    console = Console(stderr=True)
    has_bar = console.is_terminal and not console.is_dumb_terminal
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not has_bar) as bar:
        task = bar.add_task(noun, total=total)

        def counted(things: Iterable[Thing]) -> Iterator[Thing]:
            # If there are many items, print the first line soon, to show that work has begun.
            said = time.monotonic() - (PLAIN_SECONDS if total > MANY else 0)
            for number, thing in enumerate(things, start=1):
                yield thing
                if number % STEP:
                    continue
                bar.update(task, completed=number)
                if not has_bar and time.monotonic() - said >= PLAIN_SECONDS:
                    said = time.monotonic()
                    console.print(f"{number:,} of {total:,} {noun}", highlight=False)
            bar.update(task, completed=total)

        yield counted
