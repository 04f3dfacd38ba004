"""The frame of a chart: its size, its margins, its ticks and what stands beside its axes."""

from dataclasses import dataclass

from leaderboard.report.plots.axis import Axis, Tick

__all__ = ["WIDTH", "Frame", "frame_of"]

WIDTH = 520
"""Of every chart but the small learning curves, in its own units; a page scales it."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What every chart has. The labels are the axes' names with their units."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_label: str
    y_label: str


def frame_of(x: Axis, y: Axis, *, height: float, x_label: str, y_label: str) -> Frame:
    """The frame that two axes span."""
    return Frame(
        width=WIDTH,
        height=height,
        left=x.start,
        right=x.end,
        top=y.end,
        bottom=y.start,
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        x_label=x_label,
        y_label=y_label,
    )
