"""Content of the tables in the report: the texts of all cells, and a heat map."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import islice
from statistics import fmean, median
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from benchharness.leaderboard.boards.board import Board, LanguageTable, language_tables
from benchharness.leaderboard.boards.cell import Cell, shown
from benchharness.leaderboard.boards.entry import Entry, Intervals
from benchharness.leaderboard.boards.imported import imported_blocks
from benchharness.leaderboard.boards.published import published_blocks
from benchharness.leaderboard.boards.reproduction import Reproduction, reproductions
from benchharness.leaderboard.comparing.contrast import ALPHA, Contrast
from benchharness.leaderboard.report.rows import (
    CellView,
    Column,
    RowGroup,
    RowKind,
    RowView,
    basis_of,
    block_group,
    build_column,
    percent,
    row_anchor,
)
from benchharness.leaderboard.report.sizes import Sizes, known_size
from benchharness.leaderboard.text import counted, grouped, rounded
from benchharness.tasks.suites import find_task, title_of

# Heat map: background colours of the scores, column by column.

LEVELS = 5
"""Highest level of a cell's background colour. Level 0 is no colour."""

_FEWEST = 3  # minimum number of values for a scale


def heated(groups: Sequence[RowGroup]) -> tuple[RowGroup, ...]:
    """Set the level of the background colour (`CellView.heat`) of all cells; return the new groups.

    Scores have a common colour scale only if they are in the same column and have the same split
    and metrics, so that a published test score does not look better than a dev score. The distance
    from the low end of a scale to the median is at most twice the distance from the median to the
    best score. So a single model with a very low score does not reduce the contrast between the
    others. Baselines and zero-shot models do not affect the scale, unless there are too few other
    scores.
    """
    columns = list(zip(*(_cells(row) for group in groups for row in group.rows), strict=True))
    models = [group for group in groups if group.kind not in ("baseline", "zero-shot")]
    of_models = zip(*(_cells(row) for group in models for row in group.rows), strict=True)
    scales = [_scales(cells) for cells in columns]
    # Replace the scales of all rows with those of the models alone, where these exist. `of_models`
    # is empty if there are no models.
    for known, cells in zip(scales, of_models, strict=False):
        known.update(_scales(cells))

    def row_with_heat(row: RowView) -> RowView:
        found = zip(_cells(row), scales, strict=True)
        score, *cells = (_with_heat(cell, of.get(cell.basis)) for cell, of in found)
        return replace(row, score=score, cells=tuple(cells))

    return tuple(replace(g, rows=tuple(map(row_with_heat, g.rows))) for g in groups)


def _cells(row: RowView) -> tuple[CellView, ...]:
    return (row.score, *row.cells)


def _scales(cells: Iterable[CellView]) -> dict[str, tuple[float, float]]:
    """Return the colour scale (low, high) of a column for each basis with enough scores.

    A scale is left out if its scores hardly differ.
    """
    scales = {}
    known = (cell for cell in cells if cell.order and cell.has_learned)
    for basis, found in grouped((cell.basis, float(cell.order)) for cell in known).items():
        high, middle = max(found), median(found)
        low = max(min(found), middle - 2 * (high - middle))
        if len(found) >= _FEWEST and high - low >= 0.05:  # smaller differences are not visible
            scales[basis] = low, high
    return scales


def _with_heat(cell: CellView, scale: tuple[float, float] | None) -> CellView:
    """Set the level of a cell's background colour.

    `scale` contains the lowest and highest score of the colour scale; None if there is no scale.
    """
    if scale is None or not cell.order or not cell.has_learned:
        return cell
    share = (float(cell.order) - scale[0]) / (scale[1] - scale[0])
    return replace(cell, heat=round(LEVELS * min(max(share, 0.0), 1.0)))


# Building the table.

_ABOUT: Mapping[RowKind, tuple[str, str]] = MappingProxyType(
    {
        "measured": ("Measured here", "fine-tuned and scored by bench run"),
        "scored": (
            "Scored here",
            "prediction files of other programs, scored by bench score; unranked",
        ),
        "ensemble": ("Ensembles", "averaged from stored predictions; unranked"),
        "zero-shot": ("Zero-shot", "language models that were not trained on the task; unranked"),
        "baseline": ("Baselines", "models without an encoder; unranked"),
    }
)
"""Title and note for each kind of leaderboard entries, in the order in which they are shown."""


_MOST_REPRODUCED = 50  # maximum number of entries with comparisons below a table

Contrasts = Mapping[tuple[int, int], Sequence[Contrast]]
"""Significance tests of pairs of leaderboard entries. A key is a pair of indices in
`Board.entries`, and the value contains one test per task."""


@dataclass(frozen=True, kw_only=True)
class TableView:
    """Content of a leaderboard's table, with published and imported scores.

    Attributes:
        anchor: Id of the table in the page.
        title: Title of the suite.
        data: Description of the data.
        rule: Name of the rule by which the suite's score is computed.
        cite: Reference for this rule.
        has_score: True if the table shows the suite's score and some row has it. The page hides a
            column without scores.
        score_basis: Split and rule of the suite's score, e.g. "dev GLUE-9".
        columns: Columns for tasks.
        groups: Rows of the table, grouped by their origin.
        seeds: Number of seeds as text, e.g. "3 seeds" or "1 to 3 seeds"; empty without results.
        has_spread: True if a cell has a standard deviation over seeds.
        has_flags: True if a score has warnings.
        has_best: True if a cell is marked as the best in its column.
        has_ranks: True if a row has several possible ranks.
        has_intervals: True if an entry has confidence intervals.
        has_heat: True if a cell has a background colour.
        has_ends: True if a cell has an interval, or a lowest and a highest score.
        reproduced: Pairs (entry, its comparisons with published scores), for at most 50 entries.
        languages: Tables of results per language.
        contrasts: Significance tests of pairs of rows.
    """

    anchor: str
    title: str
    data: str
    rule: str
    cite: str
    has_score: bool
    score_basis: str
    columns: tuple[Column, ...]
    groups: tuple[RowGroup, ...]
    seeds: str
    has_spread: bool
    has_flags: bool
    has_best: bool
    has_ranks: bool
    has_intervals: bool
    has_heat: bool
    has_ends: bool
    reproduced: tuple[tuple[Entry, Sequence[Reproduction]], ...]
    languages: tuple[LanguageTable, ...]
    contrasts: tuple[tuple[Any, ...], ...]
    """Tuples (id of a row, id of another row, texts about their significance tests keyed by the
    title of the column)."""


SECTIONS = ("#run-", "#runs-")
"""Prefixes of links to sections with the details of a run, and of all runs on one task."""


def run_anchor(key: str) -> str:
    """Return the id of a run's section in the page; `key` is the key of the run's job."""
    return f"run-{key[:16]}"


def group_anchor(entry: Entry, task: str) -> str:
    """Return the id of the section with an entry's runs on a task.

    `task` must be a task on which the entry has runs, e.g. MNLI and not AX.
    """
    return f"runs-{next(run.key for run in entry.runs if run.task == task)[:16]}"


def statistics(cell: Cell) -> str:
    """Return one line with the statistics of a cell over seeds (times 100) and its notes.

    Notes are warnings, and how the weights or the hyperparameters were selected.
    """
    numbers = shown(cell.median)
    if cell.spread is not None:
        numbers = (
            f"median {numbers}, mean {shown(cell.mean)} ± {shown(cell.spread)}, "
            f"from {shown(min(cell.values))} to {shown(max(cell.values))}"
        )
    seeds = counted(len(cell.values), "seed")
    return ", ".join((numbers, seeds, *_told(cell)))


def says_more(cell: Cell) -> bool:
    """Return whether the cell has something to report in addition to a single seed's score.

    This is the case if there are several seeds, warnings, or a note about how the weights or the
    hyperparameters were selected. Only then is the text of `statistics` worth showing.
    """
    return len(cell.values) > 1 or bool(_told(cell))


def _told(cell: Cell) -> list[str]:
    """Return how the weights were selected, and the notes on the cell's scores."""
    return [each for each in (cell.selection, *cell.notes, cell.choice) if each]


def build_table(
    board: Board,
    number: int,
    sizes: Sizes = MappingProxyType({}),
    contrasts: Contrasts = MappingProxyType({}),
) -> TableView:
    """Create the table of a leaderboard. Tasks without any score have no column.

    Args:
        board: Leaderboard to show.
        number: Number of the leaderboard in the report, from 1.
        sizes: Known sizes of models, keyed by lower-case name.
        contrasts: Significance tests of pairs of entries.
    """
    cells = [cell for entry in board.entries for cell in entry.cells.values()]
    blocks = (*imported_blocks(board), *published_blocks(board))
    known = {cell.task for cell in cells}.union(*(block.tasks for block in blocks))
    tasks = dict.fromkeys((*board.tasks, *(task for block in blocks for task in block.tasks)))
    columns = tuple(build_column(board, task) for task in tasks if task in known)
    anchor = f"board-{number}"
    own = tuple(_groups(board, columns, anchor, sizes))
    others = (block_group(block, columns, anchor, sizes) for block in blocks)
    groups = heated((*own, *others))
    rows = [row for group in groups for row in group.rows]
    views = [cell for row in rows for cell in _cells(row)]
    models = [entry for entry in board.entries if entry.is_single] or board.entries
    counts = {len(cell.values) for entry in models for cell in entry.cells.values()}
    reproduced = ((entry, reproductions(board, entry)) for entry in board.entries)
    return TableView(
        anchor=anchor,
        title=board.title,
        data=board.data_label,
        rule=board.rule.name,
        cite=board.rule.cite,
        has_score=board.shows_score and any(row.score.order for row in rows),
        score_basis=basis_of(find_task(board.tasks[0]).shown_split, (board.rule.name,)),
        columns=columns,
        groups=groups,
        seeds=counted(min(counts), "seed", max(counts)) if counts else "",
        has_spread=any(cell.spread is not None for cell in cells),
        has_flags=any(note for cell in cells for note in cell.notes),
        has_best=any(cell.best for cell in views),
        has_ranks=any(row.ranks for row in rows),
        has_intervals=any(entry.uncertainty is not None for entry in board.entries),
        has_heat=any(cell.heat for cell in views),
        has_ends=any(cell.ends for cell in views),
        reproduced=tuple(islice(((e, ours) for e, ours in reproduced if ours), _MOST_REPRODUCED)),
        languages=tuple(language_tables(board)),
        contrasts=tuple(
            (*(_row_anchor(board, board.entries[place]) for place in pair), _verdicts(board, found))
            for pair, found in contrasts.items()
        ),
    )


def _verdicts(board: Board, contrasts: Iterable[Contrast]) -> Mapping[str, str]:
    """Describe the results of tests, keyed by the name of the column.

    The description of a significant difference begins with "*".
    """
    verdicts = {}
    for found in contrasts:
        if found.corrected is None:
            continue
        words = "* " if found.is_shown else ""
        words += f"{found.test}: p = {rounded(found.corrected, '.2g', ALPHA)} after Holm's "
        words += f"correction, difference {shown(found.difference)}"
        if found.interval:
            low, high = (rounded(end * 100, ".1f") for end in astuple(found.interval))
            words += f", 95 % interval from {low} to {high}"
        verdicts[build_column(board, found.task).name] = words
    return verdicts


def _groups(
    board: Board, columns: Sequence[Column], anchor: str, sizes: Sizes
) -> Iterator[RowGroup]:
    """Yield the entries of a leaderboard as groups of rows, one group per kind of entry.

    The kinds are in the order of `_ABOUT`, and the rows in the order of the leaderboard.
    """
    best = {column.task: board.best(column.task) for column in columns}
    by_kind = grouped(
        (
            "measured" if entry.kind == "model" else entry.kind,
            _entry_row(board, entry, columns, best, sizes),
        )
        for entry in board.entries
    )
    for kind, (title, note) in _ABOUT.items():
        if kind in by_kind:
            rows = tuple(by_kind[kind])
            yield RowGroup(anchor=f"{anchor}-{kind}", kind=kind, title=title, note=note, rows=rows)


def _row_anchor(board: Board, entry: Entry) -> str:
    names = (entry.model, entry.recipe, entry.precision, entry.variant)
    return row_anchor(board.title, board.data_label, *names)


def _entry_row(
    board: Board,
    entry: Entry,
    columns: Sequence[Column],
    best: Mapping[str, str],
    sizes: Sizes,
) -> RowView:
    failed, runs = len(entry.failures), entry.runs
    # Possible ranks of the entry, which are shown only if there are several.
    sure = entry.uncertainty
    ranks = (sure and sure.ranks) or (entry.rank,)
    label = " to ".join(dict.fromkeys(map(str, ranks)))
    tied = () if sure is None else sure.tied
    details = [entry.beside_name]
    if entry.is_single:
        low, high = entry.seeds
        details += [entry.precision, counted(low, "seed", high), *entry.start_labels]
        details += [*entry.gain_labels, *entry.selection_labels]
    details.append(board.remarks_of(runs))
    known = known_size(entry.model, sizes)
    # Link to a model card only if the weights came from the Hub, because a user's folder may have
    # the name of a published model.
    hub = {run.weights for run in runs if run.weights.startswith("hub:")}
    name = hub.pop().removeprefix("hub:").rpartition("@")[0] if len(hub) == 1 else ""
    weights = [run.parameters for run in runs if run.parameters and entry.is_single]
    return RowView(
        anchor=_row_anchor(board, entry),
        rank="" if entry.rank is None else str(entry.rank),
        ranks="" if label == str(entry.rank) else label,
        ranks_note=f"not significantly different from {', '.join(tied)}" if tied else "",
        name=entry.name,
        details=", ".join(filter(None, details)),
        failed=f"{failed} failed" if failed else "",
        score=_score(board, entry),
        cells=tuple(
            _entry_cell(board, entry, column, best.get(column.task, "")) for column in columns
        ),
        origin=counted(len(runs), "run"),
        href="#" + group_anchor(entry, runs[0].task) if runs else "",
        family=known.family if known else "",
        size=f"{median(weights) / 1e6:.4g}" if weights else "",
        year=max((run.finished[:4] for run in runs), default=""),
        card=f"https://huggingface.co/{quote(name)}" if name else "",
        cite=known.cite if known and name else "",
    )


def _score(board: Board, entry: Entry) -> CellView:
    if not board.shows_score:
        return CellView(text="")
    if entry.score is None:
        there = len(board.rule.cells) - len(entry.missing)
        missing = ", ".join(map(title_of, entry.missing))
        return CellView(
            text=f"{there} of {len(board.rule.cells)} tasks", note=f"missing: {missing}"
        )
    intervals = Intervals() if entry.uncertainty is None else entry.uncertainty.score
    seeds = entry.seed_scores
    note = ""
    if len(seeds) > 1:
        note = (
            f"over {len(seeds)} seeds: mean {shown(fmean(seeds))}, from {shown(min(seeds))} to "
            f"{shown(max(seeds))}"
        )
    return CellView(
        text=shown(entry.score),
        spread="" if entry.spread is None else shown(entry.spread),
        order=percent(entry.score),
        note=_with_interval(note, intervals),
        flags="; ".join(entry.score_notes),
        best=entry.rank == 1
        and entry.has_learned
        and sum(other.rank is not None for other in board.entries) > 1,
        ends=_ends(entry, intervals, seeds),
        seeds=_seeds(seeds),
        has_learned=entry.has_learned,
    )


def _entry_cell(board: Board, entry: Entry, column: Column, best: str) -> CellView:
    cell = entry.cells.get(column.task)
    if cell is None:
        return CellView(text="–")
    intervals = Intervals() if entry.uncertainty is None else entry.uncertainty.cells[cell.task]
    text, parity = shown(cell.median), board.parity_of(cell.runs)
    note = _with_interval(statistics(cell), intervals)
    return CellView(
        text=text,
        spread="" if cell.spread is None else shown(cell.spread),
        order=percent(cell.median),
        href="#" + group_anchor(entry, cell.runs[0].task),
        note=f"{note}\nparity: {parity}" if parity else note,
        flags="; ".join(cell.notes),
        best=entry.competes and cell.has_learned and text == best,
        # If the task's value is a mean of several scores, `parts` contains the median of each.
        parts={
            basis_of(column.split, (score,)): round(
                100 * median(run.scores[cell.task][score] for run in cell.runs), 4
            )
            for score in (column.scores if len(column.scores) > 1 else ())
        },
        ends=_ends(entry, intervals, cell.values),
        seeds=_seeds(cell.values),
        has_learned=cell.has_learned,
    )


def _with_interval(note: str, intervals: Intervals) -> str:
    """Append a line with the confidence interval and its sources of noise to a note."""
    if intervals.both is None:
        return note
    low, high = shown(intervals.both.low), shown(intervals.both.high)
    return f"{note}\n95 % interval from {low} to {high} over {intervals.scope}".lstrip()


def _ends(entry: Entry, intervals: Intervals, values: Sequence[float]) -> str:
    """Return the ends of the confidence interval as text; empty if it is unknown.

    If intervals are not shown, these are the lowest and the highest score of a seed.
    """
    if intervals.both is not None:
        return f"{shown(intervals.both.low)}–{shown(intervals.both.high)}"
    if entry.uncertainty is not None:
        return ""
    return f"{shown(min(values))}–{shown(max(values))}" if len(values) > 1 else ""


def _seeds(values: Sequence[float]) -> tuple[str, ...]:
    return tuple(map(percent, values)) if len(values) > 1 else ()
