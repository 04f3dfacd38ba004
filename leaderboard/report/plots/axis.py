"""Axes: from values to places on a chart, with ticks at round numbers. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

__all__ = [
    "WIDTH",
    "Axis",
    "Frame",
    "Tick",
    "date_axis",
    "date_text",
    "frame_of",
    "linear_axis",
    "log_axis",
    "seconds_of",
]


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A tick at `place` along its axis, with its text."""

    place: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Values from `low` to `high` on places from `start` to `end`, by their logarithms if `log`."""

    low: float
    high: float
    start: float
    end: float
    values: tuple[float, ...]
    text: Callable[[float], str]
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value, to a tenth; values beyond the ends stand beyond them."""
        low, high, value = map(self._measure, (self.low, self.high, value))
        return round(self.start + (value - low) / (high - low) * (self.end - self.start), 1)

    def inverse(self, place: float) -> float:
        """The value that stands at a place."""
        low, high = self._measure(self.low), self._measure(self.high)
        value = low + (place - self.start) / (self.end - self.start) * (high - low)
        return math.exp(value) if self.log else value

    def clip(self, value: float) -> float:
        """The value, or the nearer end of the axis."""
        return min(max(value, self.low), self.high)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The ticks as they are drawn."""
        return tuple(Tick(place=self(value), text=self.text(value)) for value in self.values)

    def _measure(self, value: float) -> float:
        return math.log(value) if self.log else value


def tick_text(value: float) -> str:
    """A number beside a tick."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


LEAST_SPAN = 1e-11
"""Ticks are rounded to twelve decimals, which must tell them apart."""


def linear_axis(
    values: Sequence[float],
    start: float,
    end: float,
    *,
    smallest: float = 0.0,
    text: Callable[[float], str] = tick_text,
) -> Axis:
    """An axis from a round number below the values to one above; ticks are `smallest` apart."""
    ticks = nice_ticks(values, smallest)
    return Axis(low=ticks[0], high=ticks[-1], start=start, end=end, values=tuple(ticks), text=text)


def nice_ticks(values: Sequence[float], smallest: float = 0.0) -> list[float]:
    """Two to six round numbers that enclose the values; steps are 1, 2 or 5 times a power of 10."""
    low, high = min(values), max(values)
    span = high - low
    # A difference that six digits do not show is none: such a line is flat.
    if span <= max(abs(high) * 1e-4, LEAST_SPAN):
        span = abs(high) if abs(high) > LEAST_SPAN else 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * f for f in (1, 2, 5, 10) if span / (power * f) <= 4)
    step = max(step, smallest)
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    return [round(number * step, 12) for number in range(first, last + 1)]


LEAST_LOG_TICKS, MOST_LOG_TICKS = 2, 6


def log_axis(
    values: Sequence[float],
    start: float,
    end: float,
    *,
    steps: Sequence[float],
    text: Callable[[float], str],
) -> Axis:
    """A logarithmic axis with room on both sides, at least one factor of 4 wide.

    `steps` are round values in rising order that a tick may have. Of too many inside, the powers of
    ten are drawn, or every second or third; of too few, round numbers between them too.
    """
    low, high = min(values), max(values)
    room = max((high / low) ** 0.08, 2.0 if high < 2 * low else 1.15)
    low, high = low / room, high * room
    inside = [value for value in steps if low <= value <= high]
    powers = [value for value in inside if math.log10(value).is_integer()]
    if len(inside) > MOST_LOG_TICKS and len(powers) >= MOST_LOG_TICKS // 2:
        inside = powers
    if len(inside) < LEAST_LOG_TICKS:
        inside = [value for value in nice_ticks([low, high]) if low <= value <= high]
    apart = -(-len(inside) // MOST_LOG_TICKS) or 1
    return Axis(
        low=low,
        high=high,
        start=start,
        end=end,
        values=tuple(inside[::apart]),
        text=text,
        log=True,
    )


# The frame of a chart: its size, its margins, its ticks and what stands beside its axes.

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


# Axes of time: ticks at full minutes, hours and days of UTC. Pure.

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
