"""The examples that most runs had right before and most have wrong now, and the other way round."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from leaderboard.regression.sample import Sample

__all__ = ["Flip", "find_flips"]


@dataclass(frozen=True, kw_only=True)
class Flip:
    """One example of a split and the share of runs that had it right, before and now."""

    split: str
    example: str
    before: float
    now: float

    @property
    def is_lost(self) -> bool:
        """True where it is wrong now."""
        return self.now < self.before

    def __str__(self) -> str:
        return (
            f"{self.split} {self.example}: right in {self.before:.0%} of the runs before, in "
            f"{self.now:.0%} now"
        )


def find_flips(before: Sample, now: Sample, ids: Mapping[str, Sequence[str]]) -> tuple[Flip, ...]:
    """The flips, the clearest first; `ids` name the examples of each split in its order.

    An example that half of the runs have right is on neither side.
    """
    found = [flip for split in before.right for flip in _flips(split, before, now, ids[split])]
    return tuple(sorted(found, key=lambda flip: (flip.now - flip.before, flip.split, flip.example)))


def _flips(split: str, before: Sample, now: Sample, ids: Sequence[str]) -> Iterator[Flip]:
    shares = zip(_shares(before.right[split]), _shares(now.right[split]), strict=True)
    for name, (old, new) in zip(ids, shares, strict=True):
        if (old - 0.5) * (new - 0.5) < 0:
            yield Flip(split=split, example=name, before=old, now=new)


def _shares(runs: Sequence[str]) -> list[float]:
    """Of each example, the share of runs that had it right."""
    return [fmean(outcome == "1" for outcome in column) for column in zip(*runs, strict=True)]
