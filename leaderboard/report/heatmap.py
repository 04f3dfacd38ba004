"""Heat and bars, behind and below the numbers of a table, column by column."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchharness.leaderboard.report.rows import CellView, RowGroup, RowView

LEVELS = 5
"""Of heat; a number at the low end of its scale has none."""

_FEWEST = 3
"""Two numbers have no scale."""


def heated(groups: Sequence[RowGroup]) -> tuple[RowGroup, ...]:
    """The groups with heat and bars in their cells.

    Only numbers of the same scores on the same split share a scale, so that a published test score
    is not seen as better than a dev score. A scale ends as far below the column's median as twice
    the best is above it: one model that has learned nothing takes no contrast from the others.
    Baselines are heated by the scale of the models, and make it where these are too few.
    """
    columns = list(zip(*(_cells(row) for group in groups for row in group.rows), strict=True))
    models = [group for group in groups if group.kind not in ("baseline", "zero-shot")]
    of_models = zip(*(_cells(row) for group in models for row in group.rows), strict=True)
    scales = [_scales(cells) for cells in columns]
    for known, cells in zip(scales, of_models, strict=False):
        known.update(_scales(cells))

    def row_with_heat(row: RowView) -> RowView:
        score, *cells = map(_with_heat, _cells(row), scales)
        return replace(row, score=score, cells=tuple(cells))

    return tuple(replace(g, rows=tuple(map(row_with_heat, g.rows))) for g in groups)


def _cells(row: RowView) -> tuple[CellView, ...]:
    return (row.score, *row.cells)


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """From `low` (no heat) to `high` (most), and the least and greatest that bars reach."""

    low: float
    high: float
    least: float
    greatest: float

    def place(self, value: float) -> float:
        """In percent of a cell's width."""
        share = (value - self.least) / (self.greatest - self.least)
        return round(100 * min(max(share, 0.0), 1.0), 1)


def _scales(cells: Iterable[CellView]) -> dict[str, _Scale]:
    """The scale of each basis of a column that has numbers enough, and not all the same."""
    by_basis: dict[str, list[CellView]] = {}
    for cell in cells:
        if cell.order:
            by_basis.setdefault(cell.basis, []).append(cell)
    scales = {}
    for basis, found in by_basis.items():
        values = [float(cell.order) for cell in found]
        high, middle = max(values), median(values)
        low = max(min(values), middle - 2 * (high - middle))
        if len(found) < _FEWEST or high - low < 0.05:  # all look the same
            continue
        ends = [end for cell in found for end in cell.ends or ()]
        room = 0.25 * (high - low)
        scales[basis] = _Scale(
            low=low,
            high=high,
            least=max(min(ends, default=low), low - room),
            greatest=min(max([high, *ends]), high + room),
        )
    return scales


def _with_heat(cell: CellView, scales: dict[str, _Scale]) -> CellView:
    """The cell on its column's scale; a bar begins, has the number and ends at three places."""
    scale = scales.get(cell.basis) if cell.order else None
    if scale is None:
        return cell
    value = float(cell.order)
    share = (value - scale.low) / (scale.high - scale.low)
    bar = None
    if cell.ends is not None and value >= scale.least:
        bar = scale.place(cell.ends[0]), scale.place(value), scale.place(cell.ends[1])
    return replace(cell, heat=round(LEVELS * min(max(share, 0.0), 1.0)), bar=bar)
