"""Simulate how often `bench check` fails, for the tables and the figure of docs/regression.md.

python -m benchmarks.regression_power docs/regression.svg
"""

import sys
from pathlib import Path

from tests.extensions.gate.simulated_suites import failing_share

DESIGNS = ((5, 1), (5, 3), (10, 3), (10, 5))
"""Numbers of seeds of the baseline and of the check."""

DROPS = (0.01, 0.02, 0.05)
FELL = {"all": None, "SST-2": "sst2", "MRPC": "mrpc", "RTE": "rte"}
"""Names of columns, mapped to the task whose score falls; None stands for all tasks."""
CURVE = tuple(points / 200 for points in range(15))
COLOURS = ("#777777", "#0072b2", "#d55e00", "#009e73")
"""Grey, and three colours of Okabe and Ito's palette, which colour-blind readers can
distinguish."""

LEFT, TOP, WIDTH, HEIGHT = 60, 20, 420, 260


def main():
    drops = " | ".join(f"{name}: 1 | 2 | 5" for name in FELL)
    print(f"| seeds | no change | {drops} |")
    print("|---" * (2 + len(FELL) * len(DROPS)) + "|")
    for before, after in DESIGNS:
        shares = [
            failing_share(before=before, after=after, drop=drop, hit=hit)
            for hit in FELL.values()
            for drop in DROPS
        ]
        unchanged = failing_share(before=before, after=after)
        cells = [f"{unchanged:.1%}", *(f"{share:.0%}" for share in shares)]
        print(f"| {before} and {after} | {' | '.join(cells)} |")
    Path(sys.argv[1]).write_text(figure(), encoding="utf-8")


def figure():
    """Draw the share of failing checks against the drop of all tasks, with a line per design."""
    size = 'viewBox="0 0 640 330" font-family="sans-serif" font-size="13"'
    label = 'role="img" aria-label="Share of checks that fail, by the true drop"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>',
        '<rect width="640" height="330" fill="white"/>',
        *axes(),
    ]
    for place, (colour, (before, after)) in enumerate(zip(COLOURS, DESIGNS, strict=True)):
        shares = [failing_share(before=before, after=after, drop=drop) for drop in CURVE]
        points = " ".join(
            f"{x(drop):.1f},{y(share):.1f}" for drop, share in zip(CURVE, shares, strict=True)
        )
        height = TOP + 30 + 22 * place
        lines += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<path d="M500 {height}h24" stroke="{colour}" stroke-width="2"/>',
            f'<text x="530" y="{height + 4}">{before} and {after} seeds</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def axes():
    for percent in (0, 5, 20, 40, 60, 80, 100):
        height = y(percent / 100)
        yield f'<path d="M{LEFT} {height}h{WIDTH}" stroke="#dddddd"/>'
        yield f'<text x="{LEFT - 8}" y="{height + 4}" text-anchor="end">{percent} %</text>'
    for points in range(8):
        yield (
            f'<text x="{x(points / 100)}" y="{TOP + HEIGHT + 20}" text-anchor="middle">{points}'
            "</text>"
        )
    middle = LEFT + WIDTH / 2
    yield (
        f'<text x="{middle}" y="{TOP + HEIGHT + 40}" text-anchor="middle">true drop on every task, '
        "points</text>"
    )
    yield f'<text x="500" y="{TOP + 8}">baseline and check</text>'


def x(drop):
    return LEFT + WIDTH * drop / CURVE[-1]


def y(share):
    return TOP + HEIGHT * (1 - share)


if __name__ == "__main__":
    main()
