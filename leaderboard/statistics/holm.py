"""Holm's correction: the p-values of several tests, made good for all of them at once."""

from collections.abc import Sequence

__all__ = ["holm"]


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The corrected p-values, in the order given.

    Where those below alpha are called differences, the chance to call even one that is none is at
    most alpha, however the tests depend on each other (Holm, A simple sequentially rejective
    multiple test procedure, Scandinavian Journal of Statistics 1979).
    """
    count, highest = len(p_values), 0.0
    corrected = [1.0] * count
    for place, index in enumerate(sorted(range(count), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (count - place) * p_values[index]))
        corrected[index] = highest
    return tuple(corrected)
