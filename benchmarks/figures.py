"""Compute the figures of a record: ratios, shares of the matrix peak, and the resulting bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any

__all__ = ["Comparison", "comparisons", "floor_seconds", "mean_ratio", "training_flops"]

PRECISION = {"ours": "bf16", "best": "bf16", "default": "fp32"}
"""Default precision of each side; benchharness's runs record their own."""


def training_flops(model: Mapping[str, Any], tokens: float, squares: float) -> float:
    """Return the floating-point operations of matrix products in training, without padding.

    `tokens` is the sum of the rows' lengths, and `squares` the sum of their squares. Each layer has
    four products for attention's states, two in the feed-forward part, and attention itself, which
    takes 2 * length * size per token for the scores and the same for the values. All of these are
    computed once in the forward pass, and twice in the backward pass.
    """
    size, inner = model["hidden_size"], model["intermediate_size"]
    per_layer = 2 * (4 * size**2 + 2 * size * inner) * tokens + 4 * size * squares
    return float(3 * model["num_hidden_layers"] * per_layer)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The runs of a workload, keyed by side, and its operations in matrix products (`flops`)."""

    name: str
    entry: Mapping[str, Any]
    runs: Mapping[str, Sequence[Mapping[str, Any]]]
    flops: float
    tokens: int
    peaks: Mapping[str, float]

    @classmethod
    def of(cls, entry: Mapping[str, Any], record: Mapping[str, Any]) -> "Comparison":
        runs: dict[str, list[Mapping[str, Any]]] = {}
        for run in entry["runs"]:
            runs.setdefault(run["side"], []).append(run)
        counted = next((r["details"] for r in entry["runs"] if "train_squares" in r["details"]), {})
        tokens, squares = (counted.get(n, 0) for n in ("train_tokens", "train_squares"))
        measured = record["peak_gflops"]
        return cls(
            name=entry["name"],
            entry=entry,
            runs=runs,
            flops=training_flops(record["model"], tokens, squares),
            tokens=tokens,
            peaks={name: max(peak[name] for peak in measured) for name in ("fp32", "bf16")},
        )

    def middle(self, side: str, figure: str) -> float | None:
        """Return the median of a side's figure; None if the side was not run."""
        return median(r[figure] for r in self.runs[side]) if side in self.runs else None

    def ratio(self, peer: str, figure: str = "seconds") -> float | None:
        """Return how many times as long the peer takes as benchharness, as a median over rounds."""
        pairs = zip(self.runs.get(peer, ()), self.runs.get("ours", ()), strict=False)
        ratios = [theirs[figure] / ours[figure] for theirs, ours in pairs]
        return median(ratios) if ratios else None

    def precision(self, side: str) -> str:
        told = self.runs[side][0]["details"].get("precision")
        return str(told or PRECISION[side])

    def share_of_peak(self, side: str) -> float | None:
        """Return a side's rate of matrix operations in training, as a share of the peak rate.

        Only operations on real tokens count. The peak is that of the side's precision.
        """
        seconds = self.middle(side, "train_seconds")
        if seconds is None or not self.flops:
            return None
        return self.flops / seconds / (1e9 * self.peaks[self.precision(side)])

    def sentence(self) -> str:
        """Describe the ratios in one line."""
        parts = [
            f"{ratio:.1f} times as fast as {side}"
            for side in ("best", "default")
            if (ratio := self.ratio(side)) is not None
        ]
        return f"{self.name}: ours is {', '.join(parts) or 'the only side'}"


def comparisons(record: Mapping[str, Any]) -> list[Comparison]:
    """Return a comparison for each workload that benchharness has run.

    The record of an interrupted measurement may lack runs of some workloads.
    """
    found = [Comparison.of(entry, record) for entry in record["workloads"]]
    return [comparison for comparison in found if "ours" in comparison.runs]


def floor_seconds(comparison: Comparison) -> float:
    """Return the training time at the full bf16 matrix peak, which no code here can beat."""
    return comparison.flops / (1e9 * comparison.peaks["bf16"])


def mean_ratio(found: Sequence[Comparison], peer: str) -> float | None:
    """Return the geometric mean of the ratios of a peer over all comparisons that have it."""
    ratios = [ratio for c in found if (ratio := c.ratio(peer)) is not None]
    return geometric_mean(ratios) if ratios else None
