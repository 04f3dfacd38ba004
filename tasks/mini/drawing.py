"""Drawing distinct rows from a seed that is the file's own name."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple, TypeVar

__all__ = ["Pair", "draw_distinct", "draw_splits", "seeded"]

DrawnT = TypeVar("DrawnT")


class Pair(NamedTuple):
    """Two sentences with a label, and what the label turns on."""

    a: str
    b: str
    label: str
    category: str = ""


def seeded(name: str) -> Random:
    """The generator of that name: one task's rows never depend on another's."""
    return Random(name)  # noqa: S311 - repeatable words, not secrets


def draw_distinct(name: str, count: int, draw: Callable[[Random], DrawnT]) -> list[DrawnT]:
    """`count` different rows, so that no row of a train split returns in a dev split.

    Raises ValueError where the grammar does not hold so many.
    """
    rng = seeded(name)
    rows: dict[DrawnT, None] = {}
    for _ in range(50 * count):
        if len(rows) == count:
            return list(rows)
        rows[draw(rng)] = None
    raise ValueError(f"the grammar of {name} gives only {len(rows)} different rows of {count}")


def draw_splits(
    name: str, draw: Callable[[Random], DrawnT], sizes: tuple[int, int, int]
) -> tuple[list[DrawnT], list[DrawnT], list[DrawnT]]:
    """Train, dev and test rows of those sizes, all different."""
    rows = draw_distinct(name, sum(sizes), draw)
    train, dev = sizes[0], sizes[0] + sizes[1]
    return rows[:train], rows[train:dev], rows[dev:]
