"""Grids: a hyperparameter with several values, "2e-5,3e-5,5e-5", stands for a recipe by each.

The text is the same after `--set` and in a file, where it may also be a list of numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from leaderboard.job import Setting
from tasks.errors import BenchError

__all__ = ["expand_grid", "join_values"]

BETWEEN = ","

LARGEST = 1000
"""Points of a grid, each of which is trained with every seed on every task."""


def join_values(values: Sequence[object]) -> str:
    """Several values as the text of a grid."""
    return BETWEEN.join(map(str, values))


def expand_grid(settings: Mapping[str, Setting]) -> Iterator[dict[str, Setting]]:
    """Every combination of the settings' values, the last setting changing fastest.

    The source of a value that is one of several says so. Raises BenchError, before any is made,
    where there are more than anybody means.
    """
    choices = [_choices(setting) for setting in settings.values()]
    if (points := prod(map(len, choices))) > LARGEST:
        raise BenchError(
            f"the grid has {points:,} points; expected at most {LARGEST:,}: give fewer values of "
            "fewer settings."
        )
    for combination in product(*choices):
        yield dict(zip(settings, combination, strict=True))


def _choices(setting: Setting) -> tuple[Setting, ...]:
    if not isinstance(setting.value, str) or BETWEEN not in setting.value:
        return (setting,)
    values = [value.strip() for value in setting.value.split(BETWEEN)]
    source = f"{setting.source}, one of {', '.join(values)}"
    return tuple(Setting(value=value, source=source) for value in values)
