"""The Pareto front: what nothing else beats in both cost and score. Pure."""

import math
from collections.abc import Sequence

__all__ = ["pareto_front"]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """The places of the (cost, score) points on the front, cheapest first.

    A point is on it where no other costs at most as much and scores at least as high, and is
    better in one of them. Equal points are on it together.
    """
    found: list[int] = []
    best, cost = -math.inf, -math.inf
    for place in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        x, y = points[place]
        if y > best:
            best, cost = y, x
        elif (x, y) != (cost, best):
            continue
        found.append(place)
    return found
