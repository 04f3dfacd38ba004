"""What rich prints but for a run: tables on stdout, and on stderr how many things have gone by.

A module of its own, so that commands that print JSON import no rich.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

Thing = TypeVar("Thing")

_BETWEEN, _EDGES = 3, 2
"""Characters between two columns of SIMPLE_HEAD with rich's padding, and at both ends of a line."""


def print_cells(
    columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]], width: int | None
) -> None:
    """Prints a table: `columns` says of each whether it is of numbers; no width is the terminal's.

    Cells are shown as they are: rich markup in a model's name has no effect.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    console = Console(width=width)
    texts = [[column, *(row[place] for row in rows)] for place, (column, _) in enumerate(columns)]
    least = [max(map(_longest_word, each)) for each in texts]
    room = console.width - _EDGES - sum(least) - _BETWEEN * (len(least) - 1)
    while room < 0 and (widest := max(least[1:], default=0)) > 1:  # their words are broken
        least[least.index(widest, 1)] -= 1
        room += 1
    for (column, is_number), each, words in zip(columns, texts, least, strict=True):
        # Rich itself makes the widest narrower until all fit, even where that breaks their words.
        more = max(0, min(max(map(cell_len, each)) - words, room))
        room -= more
        justify: JustifyMethod = "right" if is_number else "left"
        table.add_column(column, justify=justify, overflow="fold", width=words + more)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def parts_that_fit(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> Iterator[list[int]]:
    """The columns of each of the tables that it takes to break no word; the first one is in all.

    As many in each as fit, at least one beside the first.
    """
    room = Console(width=width).width
    least = [
        max(map(_longest_word, (head, *(row[place] for row in rows))))
        for place, head in enumerate(columns)
    ]
    part = [0]
    for place in range(1, len(columns)):
        taken = sum(least[each] + _BETWEEN for each in part) + least[place]
        if taken + _EDGES > room and len(part) > 1:
            yield part
            part = [0]
        part.append(place)
    yield part


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


PLAIN_SECONDS = 10.0
"""How often a line says how far something has come where no bar can be drawn."""

STEP = 100
"""How many things go by between two looks at the clock."""


@contextmanager
def counting(noun: str, total: int) -> Iterator[Callable[[Iterable[Thing]], Iterator[Thing]]]:
    """Counts, on stderr, the things of an iterable that go by: a bar in a terminal, else lines."""
    console = Console(stderr=True)
    has_bar = console.is_terminal and not console.is_dumb_terminal
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not has_bar) as bar:
        task = bar.add_task(noun, total=total)

        def counted(things: Iterable[Thing]) -> Iterator[Thing]:
            said = time.monotonic()
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
