"""Test the equivalence of two sides' scores over seeds by two one-sided paired t-tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from scipy import stats

from benchmarks.markdown import table

__all__ = ["ALL", "MEASURES", "SIDES", "Equivalence", "compared", "shown"]

SIDES = ("ours", "theirs")

ALL = 10**6
"""More rows than any file has."""

MEASURES: Mapping[str, Sequence[tuple[str, str, float]]] = {
    "STS-B": [("pearson", "pearson", 1.5), ("spearman", "spearman", 1.5)],
    "SST-2": [("accuracy", "accuracy", 1.0)],
    "SQuAD": [("em", "exact_match", 1.0), ("f1", "f1", 1.0)],
    "choice": [("accuracy", "accuracy", 1.0)],
    "tags": [("f1", "entity_f1", 1.0)],
    "MRPC": [("accuracy", "accuracy", 1.0), ("f1", "f1", 1.0)],
}
"""Scores to compare, keyed by task: their name in benchharness, their name in the Trainer, and the
margin of equivalence in points."""


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """The values of a task's score on both sides, in points, one per seed."""

    task: str
    score: str
    margin: float
    ours: Sequence[float]
    theirs: Sequence[float]

    @property
    def gaps(self) -> list[float]:
        return [a - b for a, b in zip(self.ours, self.theirs, strict=True)]

    def interval(self, share: float) -> tuple[float, float]:
        """Return the t-interval of the mean difference (Student 1908)."""
        count = len(self.gaps)
        far = float(stats.t.ppf((1 + share) / 2, count - 1)) * stdev(self.gaps) / count**0.5
        return fmean(self.gaps) - far, fmean(self.gaps) + far

    @property
    def p_value(self) -> float:
        """Larger p-value of the two one-sided tests (Schuirmann 1987); below 0.05 is equivalent."""
        error = stdev(self.gaps) / len(self.gaps) ** 0.5
        nearest = self.margin - abs(fmean(self.gaps))
        return float(stats.t.sf(nearest / error, len(self.gaps) - 1)) if error else 0.0

    @property
    def verdict(self) -> str:
        """Verdict: "equivalent", "different", "equivalent and different", or "open" if neither."""
        low, high = self.interval(0.95)
        said = ["equivalent"] if self.p_value < 0.05 else []
        said += ["different"] if not low <= 0 <= high else []
        return " and ".join(said) or "open"


def compared(runs: Iterable[Mapping[str, Any]]) -> list[Equivalence]:
    """Return each score of the tasks that have at least two seeds on both sides."""
    scores = {(run["task"], run["side"], run["seed"]): run["scores"] for run in runs}
    found = []
    for task, measures in MEASURES.items():
        sides = [{seed for t, s, seed in scores if (t, s) == (task, side)} for side in SIDES]
        seeds = sorted(set.intersection(*sides))
        for ours, theirs, margin in measures if len(seeds) > 1 else ():
            found.append(
                Equivalence(
                    task=task,
                    score=ours,
                    margin=margin,
                    ours=[100 * scores[task, "ours", seed][ours] for seed in seeds],
                    # run_qa.py's scores are points already.
                    theirs=[
                        (1 if task == "SQuAD" else 100) * scores[task, "theirs", seed][theirs]
                        for seed in seeds
                    ],
                )
            )
    return found


def shown(found: Iterable[Equivalence], sides: Sequence[str] = ("ours", "Trainer")) -> list[str]:
    """Return the lines of a Markdown table with a row per score."""
    head = ("task", "seeds", *sides, "difference", "90 %", "95 %", "is")
    return table(head, map(_row, found))


def _row(each: Equivalence) -> list[str]:
    sides = (f"{fmean(side):.1f} ({stdev(side):.1f})" for side in (each.ours, each.theirs))
    intervals = ("{:+.1f} to {:+.1f}".format(*each.interval(share)) for share in (0.9, 0.95))
    return [
        *(f"{each.task} {each.score}", str(len(each.gaps)), *sides, f"{fmean(each.gaps):+.1f}"),
        *(*intervals, each.verdict),
    ]
