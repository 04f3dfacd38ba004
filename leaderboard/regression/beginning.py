"""The first losses of a run: the same for the same seed, unless training computes something else.

A seed decides the new weights, the order of the examples and what is dropped. What another
processor or number of threads adds are rounding errors, which need many steps to grow. So the
first losses tell at once, and from a single run, what a score needs many seeds for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from leaderboard.result import Result

__all__ = ["Beginning", "Change", "beginning_of", "find_change", "maker_of"]

FIRST_STEPS = 10
"""So many steps are compared, or where points are further apart, the first point."""

LATEST_POINT = 30
"""A first point that is later than this is not compared: rounding errors may have grown."""

TOLERANCE = 2e-3
"""Of a loss. Tiny in bf16 on RTE, ten steps: other threads change at most 0.0002 of it and other
instructions (AVX2 for AVX-512) 0.0004; labels smoothed by 0.1 change 0.005 to 0.02, shuffled token
types and a wrong maximum length 0.06 (docs/regression.md)."""

DECIDING = ("torch", "transformers", "tokenizers", "numpy")
"""The libraries that random numbers and token ids come from."""


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """The first points of a learning curve: their steps, and each one's loss since the last."""

    steps: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Beginning":
        """The beginning whose fields these are."""
        losses = tuple(float(loss) for loss in data["losses"])
        found = cls(steps=tuple(data["steps"]), losses=losses)
        if len(found.steps) != len(losses):
            raise ValueError("the first losses need as many steps")
        return found


@dataclass(frozen=True, kw_only=True)
class Change:
    """The first point at which a run of a seed left the baseline's run of that seed."""

    seed: int
    step: int
    before: float
    now: float

    def __str__(self) -> str:
        return (
            f"with seed {self.seed} its loss is {self.now:.4f} at step {self.step}, and the "
            f"baseline's was {self.before:.4f}, with the same weights, rows, recipe and libraries"
        )


def beginning_of(result: Result) -> Beginning:
    """The points of the first steps; none of what was not trained, or is looked at too late."""
    points = list(takewhile(lambda point: point.step <= FIRST_STEPS, result.curve))
    points = points or [p for p in result.curve[:1] if p.step <= LATEST_POINT]
    return Beginning(
        steps=tuple(point.step for point in points), losses=tuple(point.loss for point in points)
    )


def maker_of(result: Result) -> str:
    """What the same seed gives the same numbers on: "cpu, torch 2.13.0, ..."; "" where unknown."""
    try:
        versions = result.provenance["versions"]
        libraries = [f"{name} {versions[name]}" for name in DECIDING]
        return ", ".join((result.provenance["machine"]["device"], *libraries))
    except (KeyError, TypeError):
        return ""


def find_change(before: Mapping[int, Beginning], now: Mapping[int, Beginning]) -> Change | None:
    """The first change of any seed that both have; points of other steps are not compared."""
    for seed in sorted(before.keys() & now.keys()):
        old, new = before[seed], now[seed]
        if old.steps != new.steps:
            continue
        for step, was, found in zip(old.steps, old.losses, new.losses, strict=True):
            if abs(found - was) > TOLERANCE * abs(was):
                return Change(seed=seed, step=step, before=was, now=found)
    return None
