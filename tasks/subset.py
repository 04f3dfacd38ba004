"""A fixed part of a split for quick runs: the same rows every time, with the labels' shares kept.

The first rows of an official file are no sample: many are sorted by source or by label.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from tasks.errors import BenchError
from tasks.examples import ChoiceExample, Example, PairExample, SpanExample

__all__ = ["subset"]


def subset(examples: Sequence[Example], limit: int) -> list[Example]:
    """About `limit` examples in their order, never more unless a single group is larger.

    Examples that are scored together (`PairExample.group`) stay together. Subsets are nested: that
    of 100 is within that of 200. Which ones are taken depends on the ids alone.
    """
    if limit < 1:
        raise BenchError(f"a limit of {limit} rows leaves nothing to read: give 1 or more.")
    kept: set[int] = set()
    for unit in _ranked(_units(examples), examples):
        if kept and len(kept) + len(unit) > limit:
            break
        kept.update(unit)
    return [examples[index] for index in sorted(kept)]


def _units(examples: Sequence[Example]) -> list[list[int]]:
    """The indices of what is taken or left as a whole: a group, or one example."""
    units: dict[str, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        group = example.group if isinstance(example, PairExample) else None
        units[f"row {index}" if group is None else f"group {group}"].append(index)
    return list(units.values())


def _ranked(units: list[list[int]], examples: Sequence[Example]) -> list[list[int]]:
    """The units in the order of taking: every prefix has each stratum's share, and each at once.

    A stratum of n units gets the ranks 0.5/n, 1.5/n, ...; its first unit goes before all others, so
    that a rare label is there as soon as the limit allows.
    """
    strata: dict[str, list[tuple[str, list[int]]]] = defaultdict(list)
    for unit in units:
        first = examples[unit[0]]
        digest = hashlib.sha256(first.id.encode()).hexdigest()
        strata[_stratum(first) if len(unit) == 1 else "group"].append((digest, unit))
    ranked = [
        (rank > 0, (rank + 0.5) / len(members), digest, unit)
        for members in strata.values()
        for rank, (digest, unit) in enumerate(sorted(members))
    ]
    return [unit for *_, unit in sorted(ranked)]


def _stratum(example: Example) -> str:
    match example:
        case PairExample(label=float() as number):
            return str(round(number))
        case PairExample():
            return str(example.label)
        case SpanExample():
            return str(bool(example.answers))
        case ChoiceExample():
            return str((example.group, example.gold))
        case _:
            return ""
