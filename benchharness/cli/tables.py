"""What rich prints on stdout: tables.

A module of its own, so that commands that print JSON import no rich.
"""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_BETWEEN, _EDGES = 3, 2
"""Characters between two columns of SIMPLE_HEAD with rich's padding, and at both ends of a line."""


def print_cells(
    columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]], width: int | None
) -> None:
    """Prints a table: `columns` says of each whether it is of numbers; no width is the terminal's.

    Cells are shown as they are: rich markup in a model's name has no effect.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column, is_number in columns:
        table.add_column(
            column,
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=_longest_word(column),
        )
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=width).print(table)


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
