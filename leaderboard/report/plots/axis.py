"""Axes: from values to places on a chart, with ticks at round numbers. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A tick at `place` along its axis, with its text."""

    place: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Values from `low` to `high` on places from `start` to `end`, by their logarithms if `log`.

    `label` is the name beside it, with the unit; `values` are those that have ticks.
    """

    label: str
    low: float
    high: float
    start: float
    end: float
    values: tuple[float, ...] = ()
    text: Callable[[float], str] = str
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value, to a tenth; values beyond the ends stand beyond them."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = map(math.log, (low, high, value))
        return round(self.start + (value - low) / (high - low) * (self.end - self.start), 1)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The ticks as they are drawn."""
        return tuple(Tick(place=self(value), text=self.text(value)) for value in self.values)


_LEAST_SPAN = 1e-11
"""Ticks are rounded to twelve decimals, which must tell them apart."""


def linear_axis(
    values: Sequence[float], label: str, span: tuple[float, float], *, smallest: float = 0.0
) -> Axis:
    """An axis from a round number below the values to one above; ticks are `smallest` apart.

    It lies on places from the first to the second of `span`, as every axis here.
    """
    ticks = _nice_ticks(values, smallest)
    return Axis(
        label=label,
        low=ticks[0],
        high=ticks[-1],
        start=span[0],
        end=span[1],
        values=tuple(ticks),
        text=_tick_text,
    )


def score_axis(values: Sequence[float], score: str, span: tuple[float, float]) -> Axis:
    """An axis of a score in percent, which says where it starts if that is not 0."""
    axis = linear_axis(values, f"{score} × 100", span)
    starts = f", axis from {axis.text(axis.low)}" if axis.low else ""
    return replace(axis, label=axis.label + starts)


def _tick_text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _nice_ticks(values: Sequence[float], smallest: float = 0.0) -> list[float]:
    """Two to six round numbers that enclose the values; steps are 1, 2 or 5 times a power of 10."""
    low, high = min(values), max(values)
    span = high - low
    # A difference that six digits do not show is none: such a line is flat.
    if span <= max(abs(high) * 1e-4, _LEAST_SPAN):
        span = abs(high) if abs(high) > _LEAST_SPAN else 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * f for f in (1, 2, 5, 10) if span / (power * f) <= 4)
    step = max(step, smallest)
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    return [round(number * step, 12) for number in range(first, last + 1)]


_LEAST_LOG_TICKS, _MOST_LOG_TICKS = 2, 6


def log_axis(
    values: Sequence[float],
    label: str,
    span: tuple[float, float],
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
    if len(inside) > _MOST_LOG_TICKS and len(powers) >= _MOST_LOG_TICKS // 2:
        inside = powers
    if len(inside) < _LEAST_LOG_TICKS:
        inside = [value for value in _nice_ticks([low, high]) if low <= value <= high]
    decades = [10.0**n for n in range(math.floor(math.log10(low)), 1 + int(math.log10(high)))]
    for factors in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        if len(inside) < _LEAST_LOG_TICKS:
            rounds = [decade * factor for decade in decades for factor in factors]
            inside = [value for value in rounds if low <= value <= high]
    apart = -(-len(inside) // _MOST_LOG_TICKS) or 1
    return Axis(
        label=label,
        low=low,
        high=high,
        start=span[0],
        end=span[1],
        values=tuple(inside[::apart]),
        text=text,
        log=True,
    )


def with_zero(axis: Axis) -> Axis:
    """A logarithmic axis on which 0, which has no logarithm, has a place before all others."""
    zero = axis.low / (axis.high / axis.low) ** 0.08
    return replace(
        axis,
        low=zero,
        values=(zero, *axis.values),
        text=lambda value: "0" if value == zero else axis.text(value),
    )


# Axes of time: ticks at full minutes, hours and days of UTC.

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TIME_STEPS = (
    *(_MINUTE * n for n in (1, 5, 15, 30)),
    *(_HOUR * n for n in (1, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 5, 10, 30, 90, 365, 3650)),
)
_MOST_DATES = 5
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


def date_axis(moments: Sequence[float], label: str, span: tuple[float, float]) -> Axis:
    """An axis with a little room around the moments, at least five minutes wide."""
    room = max((max(moments) - min(moments)) * 0.06, 150.0)
    low, high = min(moments) - room, max(moments) + room
    step = next((s for s in _TIME_STEPS if (high - low) / s <= _MOST_DATES), _TIME_STEPS[-1])
    # A date is centred on its tick, so the outermost ones would hang over.
    edge = 0.04 * (high - low)
    numbers = range(math.ceil((low + edge) / step), math.floor((high - edge) / step) + 1)
    form = "%Y-%m-%d" if step >= _DAY else "%m-%d %H:%M"
    return Axis(
        label=label,
        low=low,
        high=high,
        start=span[0],
        end=span[1],
        values=tuple(float(number * step) for number in numbers),
        text=lambda value: datetime.fromtimestamp(value, UTC).strftime(form),
    )
