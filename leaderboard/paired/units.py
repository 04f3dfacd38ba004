"""What a benchmark draws and scores as one: an example, or the examples of a group."""

from collections.abc import Sequence

from tasks.examples import Example, PairExample

__all__ = ["Units", "units_of"]

Units = Sequence[Sequence[int]]
"""The places of each unit's examples."""


def units_of(examples: Sequence[Example]) -> Units:
    """The units of a split: MultiRC's questions, AX-g's minimal pairs, else single examples.

    A choice's group is a slice (RACE's level) and ties nothing.
    """
    found: dict[object, list[int]] = {}
    for place, example in enumerate(examples):
        group = example.group if isinstance(example, PairExample) else None
        found.setdefault(place if group is None else group, []).append(place)
    return list(found.values())
