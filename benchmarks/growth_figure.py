"""Draw benchmarks/results/growth.json: seconds against rows, their length, layers and seeds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

__all__ = ["curves", "growth_figure"]

TITLES = {
    "rows": "rows (of 32 tokens)",
    "tokens": "tokens of a row (128 rows)",
    "layers": "layers (256 rows of 64 tokens)",
    "seeds": "seeds of one command",
}
COLOURS = {"ours": "#0072b2", "best": "#d55e00", "default": "#009e73"}
"""Colours of Okabe and Ito's palette, which colour-blind readers can distinguish."""

NAMES = {"ours": "ours", "best": "Trainer, best flags", "default": "Trainer, as shipped"}
WIDTH, HEIGHT = 270, 190
LEFT, TOP, GAP = 60, 40, 70

Curve = Sequence[tuple[float, float]]


def curves(points: Sequence[Mapping[str, Any]], series: str) -> dict[str, Curve]:
    """Return the median seconds for each value of a series' growing quantity, keyed by side."""
    found: dict[str, dict[float, list[float]]] = {}
    for point in points:
        if point["series"] == series:
            found.setdefault(point["side"], {}).setdefault(point[series], []).append(
                point["seconds"]
            )
    return {
        side: [(x, median(seconds)) for x, seconds in sorted(by_x.items())]
        for side, by_x in found.items()
    }


def growth_figure(points: Sequence[Mapping[str, Any]]) -> str:
    """Draw four charts with logarithmic axes, in which a dashed line shows proportional growth.

    All axes of seconds have the same range, so that the charts can be compared.
    """
    seconds = [point["seconds"] for point in points]
    low = 10 ** math.floor(math.log10(min(seconds)))
    high = 10 ** math.ceil(math.log10(max(seconds)))
    width, height = 2 * (LEFT + WIDTH) + 30, 2 * (HEIGHT + GAP) + TOP
    size = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13"'
    label = 'role="img" aria-label="Seconds of a command, by rows, length, layers and seeds"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    sides = [side for side in COLOURS if any(point["side"] == side for point in points)]
    for place, side in enumerate(sides):
        x = LEFT + 160 * place
        lines += [
            f'<path d="M{x} 18h24" stroke="{COLOURS[side]}" stroke-width="2"/>',
            f'<text x="{x + 30}" y="22">{NAMES[side]}</text>',
        ]
    for number, series in enumerate(TITLES):
        corner = LEFT + (number % 2) * (LEFT + WIDTH), TOP + (number // 2) * (HEIGHT + GAP)
        found = curves(points, series)
        if found:
            lines += _chart(found, TITLES[series], corner, (low, high))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _chart(
    found: Mapping[str, Curve], title: str, corner: tuple[int, int], seconds: tuple[float, float]
) -> Iterator[str]:
    left, top = corner
    values = sorted({x for curve in found.values() for x, _ in curve})

    def place(x: float, y: float) -> str:
        across = math.log(x / values[0]) / math.log(values[-1] / values[0])
        up = math.log(y / seconds[0]) / math.log(seconds[1] / seconds[0])
        return f"{left + WIDTH * across:.1f},{top + HEIGHT * (1 - min(max(up, 0), 1)):.1f}"

    yield from _axes(title, corner, values, seconds, place)
    for side, curve in found.items():
        points = " ".join(place(x, y) for x, y in curve)
        yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[side]}" stroke-width="2"/>'
        for x, y in curve:
            across, up = place(x, y).split(",")
            yield f'<circle cx="{across}" cy="{up}" r="3" fill="{COLOURS[side]}"/>'
    first, start = next(iter(found.values()))[0]
    end = min(values[-1], first * seconds[1] / start)
    ends = f"{place(first, start)} {place(end, start * end / first)}"
    yield f'<polyline points="{ends}" fill="none" stroke="#777777" stroke-dasharray="4 4"/>'


def _axes(
    title: str,
    corner: tuple[int, int],
    values: Sequence[float],
    seconds: tuple[float, float],
    place: Any,
) -> Iterator[str]:
    left, top = corner
    tick = seconds[0]
    while tick <= seconds[1]:
        up = place(values[0], tick).split(",")[1]
        yield f'<path d="M{left} {up}h{WIDTH}" stroke="#dddddd"/>'
        yield f'<text x="{left - 6}" y="{float(up) + 4:.1f}" text-anchor="end">{tick:g} s</text>'
        tick *= 10
    for value in values:
        across = place(value, seconds[0]).split(",")[0]
        yield f'<text x="{across}" y="{top + HEIGHT + 18}" text-anchor="middle">{value}</text>'
    middle = left + WIDTH / 2
    yield f'<text x="{middle}" y="{top + HEIGHT + 38}" text-anchor="middle">{title}</text>'
