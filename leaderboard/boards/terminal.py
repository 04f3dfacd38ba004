"""A board as a table in the terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, column_title, shown
from benchharness.leaderboard.boards.entry import Entry, Intervals
from benchharness.leaderboard.boards.published import PublishedBlock, PublishedCell
from benchharness.leaderboard.boards.reproduction import reproductions
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.text import visible
from benchharness.tasks.suites import title_of

_NAMES = 1
"""The place of the column of names, the one that may be folded to fit."""

_FIRST_TASK = 3
"""The place of the first task's column, after rank, name and score."""

_NAME_WIDTH = 14
"""As long as "distilbert-base" nearly is; nine tasks and this much fit 80 columns."""

_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "min": min,
    "max": max,
}
"""What is said of the seeds beside their median and their spread."""

_ENDS: Mapping[str, Callable[[Interval], float]] = {
    "95 % from": lambda interval: interval.low,
    "95 % to": lambda interval: interval.high,
}


def render(board: Board, console: Console) -> None:
    """Print the board: rank, model, score, each task's median and spread, then a legend.

    An entry of several seeds has their mean, minimum and maximum in lines of their own, and the
    ends of its intervals where the board has them. Names are
    shown as text: rich markup in them has no effect, and control characters are spelled out.
    Without colours (a pipe, NO_COLOR) the same table is plain. Where a line is too narrow, spreads
    go below their values, then tasks outside of the score are left out, then the tasks are spread
    over several tables.
    """
    console.print(Text(f"{board.title} on {visible(board.data_label)}", style="bold"))
    if not board.entries:
        console.print(Text("nothing was measured here.", style="dim"))
        return
    tables, left_out = _fitting(board, console)
    for table in tables:
        console.print(table)
        console.print()
    for line in _legend(board, left_out):
        console.print(Text(line, style="dim"))


class _Grid(NamedTuple):
    """A board's cells as text, an entry's lines together, and what each column needs."""

    heads: list[Text]
    groups: list[list[list[Text]]]
    widths: list[int]
    kinds: list[str]


def _fitting(board: Board, console: Console) -> tuple[list[Table], tuple[str, ...]]:
    """The tables that fit the console, and the tasks left out of them."""
    everything = range(len(board.tasks))
    counted = [n for n in everything if board.tasks[n] not in board.extras]
    wide = _grid(board, " ")
    if _fits(wide, everything, 1, console):
        return [_table(wide, everything, 1)], ()
    grid = _grid(board, "\n")
    for tasks, space in ((everything, 1), (everything, 0), (counted, 0)):
        if _fits(grid, tasks, space, console):
            left_out = tuple(task for n, task in enumerate(board.tasks) if n not in tasks)
            return [_table(grid, tasks, space)], left_out
    return list(_tables(grid, counted, console)), board.extras


def _tables(grid: _Grid, tasks: Sequence[int], console: Console) -> Iterator[Table]:
    """As many tasks in each table as fit, at least one."""
    while tasks:
        count = 1
        while count < len(tasks) and _fits(grid, tasks[: count + 1], 0, console):
            count += 1
        yield _table(grid, tasks[:count], 0)
        tasks = tasks[count:]


def _fits(grid: _Grid, tasks: Sequence[int], space: int, console: Console) -> bool:
    """Whether nothing but a long name need be folded; one character stands between columns."""
    widths = [grid.widths[number] for number in _places(tasks)]
    return sum(widths) + (len(widths) - 1) * (1 + space) <= console.width


def _places(tasks: Sequence[int]) -> list[int]:
    """The columns of a table: rank, name, score, and these tasks."""
    return [*range(_FIRST_TASK), *(_FIRST_TASK + task for task in tasks)]


def _grid(board: Board, gap: str) -> _Grid:
    best = {task: board.best(task) for task in board.tasks}
    groups = [list(_lines(board, entry, best, gap)) for entry in board.entries]
    between = "-" if gap == " " else "\n"
    titles = [column_title(task, board.rule, between) for task in board.tasks]
    heads = [Text(head) for head in ("#", "model", "score", *titles)]
    rows = [heads, *(row for group in groups for row in group)]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    widths[_NAMES] = max(_NAME_WIDTH, *(_longest_word(row[_NAMES]) for row in rows))
    return _Grid(heads, groups, widths, [entry.shown_kind for entry in board.entries])


def _width(cell: Text) -> int:
    return max((cell_len(line) for line in cell.plain.split("\n")), default=0)


def _longest_word(cell: Text) -> int:
    return max((cell_len(word) for word in cell.plain.split()), default=0)


def _table(grid: _Grid, tasks: Sequence[int], space: int) -> Table:
    places = _places(tasks)
    table = Table(box=SIMPLE_HEAD, padding=(0, space, 0, 0), pad_edge=False, show_edge=False)
    for number in places:
        if number == _NAMES:
            table.add_column(grid.heads[number], overflow="fold", min_width=_NAME_WIDTH)
            continue
        width = grid.widths[number]
        table.add_column(grid.heads[number], justify="right", no_wrap=True, min_width=width)
    for group, kind, following in zip(
        grid.groups, grid.kinds, [*grid.kinds[1:], None], strict=True
    ):
        for row in group:
            cells = [row[number] for number in places]
            # A statistic of seeds may have nothing to say of the tasks in this table.
            if row is group[0] or any(cell.plain for cell in cells[_NAMES + 1 :]):
                table.add_row(*cells)
        if following not in (kind, None):
            table.add_section()
    return table


def _lines(board: Board, entry: Entry, best: Mapping[str, str], gap: str) -> Iterator[list[Text]]:
    """An entry's medians, then the other statistics of what has several seeds.

    `best` is the value that is bold in each column; only single models compete.
    """
    tasks, cells = board.tasks, [entry.cells.get(task) for task in board.tasks]
    bold = [best[task] if entry.competes else "" for task in tasks]
    values = [_cell_text(cell, value, gap) for cell, value in zip(cells, bold, strict=True)]
    rank = Text("-" if entry.rank is None else str(entry.rank))
    if entry.uncertainty is not None and entry.uncertainty.ranks is not None:
        rank.append("\n" + entry.uncertainty.rank_label, style="dim")
    yield [rank, _name(entry), _score(board, entry, gap), *values]
    samples = [entry.seed_scores, *(cell.values if cell else () for cell in cells)]
    if max(map(len, samples)) > 1:
        for name, statistic in _STATISTICS.items():
            numbers = (shown(statistic(sample)) if len(sample) > 1 else "" for sample in samples)
            yield [Text(text, style="dim") for text in ("", f"  {name}", *numbers)]
    yield from _interval_lines(entry, tasks)


def _interval_lines(entry: Entry, tasks: Sequence[str]) -> Iterator[list[Text]]:
    """The ends of the intervals, where they were asked for."""
    if entry.uncertainty is None:
        return
    cells = [entry.uncertainty.cells.get(task, Intervals()) for task in tasks]
    intervals = [each.both for each in (entry.uncertainty.score, *cells)]
    for name, end in _ENDS.items():
        numbers = ("" if found is None else shown(end(found)) for found in intervals)
        yield [Text(text, style="dim") for text in ("", f"  {name}", *numbers)]


def _name(entry: Entry) -> Text:
    name = Text(visible(entry.model))
    name.append("\n" + visible(", ".join(_details(entry))), style="dim")
    return name


def _details(entry: Entry) -> Iterator[str]:
    yield entry.shown_recipe
    if entry.is_single and entry.precision != "fp32":
        yield entry.precision
    yield from entry.start_labels
    yield from entry.selection_labels
    if entry.failures:
        yield f"{len(entry.failures)} failed"


def _score(board: Board, entry: Entry, gap: str) -> Text:
    if entry.score is None:
        there = len(board.rule.cells) - len(entry.missing)
        return Text(f"{there} of {len(board.rule.cells)}{gap}tasks", style="dim")
    return _with_spread(Text(shown(entry.score), style="bold"), entry.spread, gap)


def _cell_text(cell: Cell | None, best: str, gap: str) -> Text:
    if cell is None:
        return Text("-", style="dim")
    value = shown(cell.median)
    text = Text(value + ("!" if any(cell.notes) else ""), style="bold" if value == best else "")
    return _with_spread(text, cell.spread, gap)


def _with_spread(text: Text, spread: float | None, gap: str) -> Text:
    if spread is not None:
        text.append(f"{gap}±{shown(spread)}", style="dim not bold")
    return text


def _legend(board: Board, left_out: Sequence[str]) -> Iterator[str]:
    rule, data = visible(board.rule.name), visible(board.data_label)
    yield f"score: {rule}, over each task's median; data: {data}."
    yield _seeds(board)
    if board.extras:
        place = "left out of this table for its width" if left_out else "shown beside it"
        names = ", ".join(map(title_of, board.extras))
        yield f"{names}: not part of the score, {place}."
    if any(not entry.is_single for entry in board.entries):
        yield "ensembles and baselines stand below the models and have no rank."
    yield from _choices(board)
    yield from _intervals(board)
    for note, places in _notes(board).items():
        yield f"!: {visible(note)}: {visible(', '.join(places))}."


def _choices(board: Board) -> Iterator[str]:
    """What the best of a sweep's points gains by chance, task by task."""
    for entry in board.entries:
        gains = [
            f"{title_of(task)} {shown(cell.gain)}"
            for task, cell in entry.cells.items()
            if cell.gain is not None
        ]
        if gains:
            yield visible(
                f"{_label(entry)}: other seeds of the values that were chosen are expected to give "
                f"less, by {', '.join(gains)}: so much the best of {entry.points} gains by chance."
            )


def _intervals(board: Board) -> Iterator[str]:
    """What the intervals are over, and whom they do not tell apart."""
    found = [(e, e.uncertainty) for e in board.entries if e.uncertainty is not None]
    if not found:
        return
    yield (
        "95 %: intervals of the median and, below each rank, of the rank, over other examples and "
        "other seeds."
    )
    cells = [cell for _, uncertainty in found for cell in uncertainty.cells.values()]
    if any(cell.seeds is None for cell in cells):
        yield "with one seed an interval is over examples alone: other seeds may say otherwise."
    for reason in dict.fromkeys(cell.reason for cell in cells if cell.reason):
        yield f"over seeds alone: {visible(reason)}"
    for entry, uncertainty in found:
        if uncertainty.tied:
            yield visible(f"{_label(entry)} is not told apart from {', '.join(uncertainty.tied)}.")


def _label(entry: Entry) -> str:
    return entry.name


def _notes(board: Board) -> dict[str, list[str]]:
    """What a reader must know, and of which values: "tiny wnli"."""
    found: dict[str, list[str]] = {}
    for entry in board.entries:
        for task, cell in entry.cells.items():
            for note in cell.notes:
                found.setdefault(note, []).append(f"{entry.model} {title_of(task)}")
    return found


def _seeds(board: Board) -> str:
    models = [entry for entry in board.entries if entry.is_single] or board.entries
    counts = [count for entry in models for count in entry.seeds if count]
    if not counts:
        return "no run has finished."
    low, high = min(counts), max(counts)
    number = str(low) if low == high else f"{low} to {high}"
    noun = "seed" if high == 1 else "seeds"
    meaning = "; ±: sample standard deviation over seeds" if high > 1 else ""
    return f"values: times 100, the median of {number} {noun}{meaning}."


_NUMBERS = ("ours", "theirs", "difference", "noise")


def render_reproductions(board: Board, console: Console) -> None:
    """Print a line for each score that an entry shares with a published row of its model.

    Nothing where there is none.
    """
    rows = list(_reproduction_rows(board))
    if not rows:
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for head in ("model", "task", "score"):
        table.add_column(head, overflow="fold")
    for head in _NUMBERS:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(Text(f"{board.title}, reproduction of published scores", style="bold"))
    console.print(table)
    console.print()
    legend = "in percent; ours: the median over seeds; noise: how far theirs may lie by chance."
    console.print(Text(legend, style="dim"))
    console.print()


def _reproduction_rows(board: Board) -> Iterator[tuple[str, ...]]:
    """The lines of every entry, of which the first names it."""
    for entry in board.entries:
        for place, found in enumerate(reproductions(board, entry)):
            yield (
                (visible(entry.name) if place == 0 else ""),
                title_of(found.task),
                " or ".join(found.theirs.scores),
                "" if found.ours is None else f"{found.ours:.1f}",
                found.theirs.printed,
                "" if found.difference is None else f"{found.difference:+.1f}",
                "" if found.noise is None else f"±{found.noise:.1f}",
                f"{found.verdict}: {visible(found.reason)}" if found.reason else found.verdict,
            )


_PUBLISHED_NAME_WIDTH = 16
"""Names are folded to it where a line is short."""

_LEGENDS = {
    "published": "as printed, in percent, unranked; sources and metrics: `bench list published`.",
    "imported": "measured elsewhere and brought by `bench import`, in percent, unranked; "
    "sources: `bench leaderboard --json`.",
}


def render_published(block: PublishedBlock, console: Console) -> None:
    """Print a block: one line a published row, as printed, in the order of its sources.

    Where a line is too narrow, a task's numbers stand below one another, then the tasks are spread
    over several tables.
    """
    console.print(Text(f"{block.title}, {block.origin} ({block.split})", style="bold"))
    columns = range(1 + len(block.tasks))  # of numbers: the score, then every task
    wide = _published_table(block, columns, "/")
    fits = _published_fits(wide, console)
    for table in [wide] if fits else _published_tables(block, columns, console):
        console.print(table)
        console.print()
    console.print(Text(_LEGENDS[block.origin], style="dim"))
    console.print()


def _published_tables(block: PublishedBlock, columns: range, console: Console) -> Iterator[Table]:
    """As many columns in each table as fit, at least one."""
    count = len(columns)
    while count > 1 and not _published_fits(
        _published_table(block, columns[:count], "\n"), console
    ):
        count -= 1
    yield _published_table(block, columns[:count], "\n")
    if columns[count:]:
        yield from _published_tables(block, columns[count:], console)


def _published_fits(table: Table, console: Console) -> bool:
    """Whether nothing but a long name need be folded."""
    unbounded = console.options.update(width=1000)
    return Measurement.get(console, unbounded, table).minimum <= console.width


def _published_table(block: PublishedBlock, columns: range, gap: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("system", overflow="fold", min_width=_PUBLISHED_NAME_WIDTH)
    heads = ("score", *map(title_of, block.tasks))
    rows = [[_numbers(cells, gap) for cells in (x.averages, *x.cells)] for x in block.lines]
    for column in columns:
        lines = [text for row in rows for text in row[column].split()]
        width = max(len(heads[column]), *(line.cell_len for line in lines))
        table.add_column(heads[column], justify="right", no_wrap=True, min_width=width)
    for line, row in zip(block.lines, rows, strict=True):
        said = [part for part in (line.row.protocol, line.row.date) if part not in ("", "unsaid")]
        name = Text(visible(line.row.system))
        if said:
            name.append("\n" + visible(", ".join(said)), style="dim")
        table.add_row(name, *(row[column] for column in columns))
    return table


def _numbers(cells: Sequence[PublishedCell], gap: str) -> Text:
    return Text(gap.join(cell.printed for cell in cells) or "-")
