"""Axes of time: ticks at full minutes, hours and days of UTC. Pure."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from leaderboard.report.plots.axis import Axis

__all__ = ["date_axis", "date_text", "seconds_of"]

MINUTE, HOUR, DAY = 60, 3600, 86400
STEPS = (
    *(MINUTE * n for n in (1, 5, 15, 30)),
    *(HOUR * n for n in (1, 3, 6, 12)),
    *(DAY * n for n in (1, 2, 5, 10, 30, 90, 365, 3650)),
)
MOST_TICKS = 5
"""A date with its hour takes a fifth of a chart's width."""


def seconds_of(finished: str) -> float | None:
    """Seconds since 1970 of a date as results carry it; None for what is no date."""
    try:
        moment = datetime.fromisoformat(finished)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def date_text(seconds: float) -> str:
    """A moment in UTC, to the minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def date_axis(moments: Sequence[float], start: float, end: float) -> Axis:
    """An axis with a little room around the moments, at least five minutes wide."""
    room = max((max(moments) - min(moments)) * 0.06, 150.0)
    low, high = min(moments) - room, max(moments) + room
    step = next((s for s in STEPS if (high - low) / s <= MOST_TICKS), STEPS[-1])
    # A date is centred on its tick, so the outermost ones would hang over.
    edge = 0.04 * (high - low)
    numbers = range(math.ceil((low + edge) / step), math.floor((high - edge) / step) + 1)
    form = "%Y-%m-%d" if step >= DAY else "%m-%d %H:%M"
    return Axis(
        low=low,
        high=high,
        start=start,
        end=end,
        values=tuple(float(number * step) for number in numbers),
        text=lambda value: datetime.fromtimestamp(value, UTC).strftime(form),
    )
