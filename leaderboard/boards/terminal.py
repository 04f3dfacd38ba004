"""Printing of leaderboards as tables in the terminal."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from textwrap import wrap
from typing import Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from benchharness.leaderboard.boards.board import Board, language_tables
from benchharness.leaderboard.boards.cell import (
    SAME_SEEDS,
    column_title,
    note_lines,
    score_names,
    shown,
    spread_of,
)
from benchharness.leaderboard.boards.entry import Entry, Intervals
from benchharness.leaderboard.boards.imported import imported_blocks
from benchharness.leaderboard.boards.published import (
    PublishedBlock,
    like_those_of,
    published_blocks,
)
from benchharness.leaderboard.boards.reproduction import reproductions
from benchharness.leaderboard.text import are, counted, grouped, visible
from benchharness.tasks.suites import find_task, title_of
from benchharness.tasks.task import score_title

_NAMES = 1  # index of the column of names, the only column whose cells may be wrapped

_FIRST_TASK = 3  # index of the first task's column, after rank, name and score

_UNRANKED = {
    "scored": "scored prediction files",
    "ensemble": "ensembles",
    "zero-shot": "models without training",
    "baseline": "baselines",
}
"""Plural nouns for the kinds of entries that have no rank, in the order of the legend."""

_NAME_WIDTH = 14  # minimum width of the column of names

_WHOLE_NAMES = 0.75
"""Share of the names that should fit on one line. Before more names are wrapped, spreads and
columns are left out.
"""

_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "min": min,
    "max": max,
}
"""Functions for the statistics over seeds that --details adds to the median and the spread."""


def render(board: Board, console: Console, *, details: bool = False) -> None:
    """Print a leaderboard as a table, with a legend.

    The table has a line per entry with its rank, the suite's score and the median over seeds for
    each task. The score and, if there is room, the medians are followed by the standard deviation
    over seeds. Columns without a value are left out. If the console is too narrow, standard
    deviations and tasks that do not count in the score are left out, then long names are wrapped,
    then the tasks are distributed over several tables. Names are printed literally: rich markup has
    no effect, and control characters are escaped. Without colours (in piped output or with
    NO_COLOR), the table is plain text.

    Args:
        board: Leaderboard to print. If it has confidence intervals, these are printed too.
        console: Console to print to.
        details: Add lines with the standard deviation, mean, minimum and maximum over seeds, and
            the number of seeds, for each entry.
    """
    title = Text(f"{board.title} on {visible(board.data_label)}", style="bold")
    console.print(title, soft_wrap=True)  # a path may be longer than a line
    if not board.entries:
        console.print(Text("there are no results on this leaderboard.", style="dim"))
        for line in _hidden(board):
            console.print(Text(line, style="dim"))
        return
    found = _fitting(board, console, details=details)
    for table in found.tables:
        console.print(table)
        console.print()
    for line in _legend(board, found):
        console.print(Text(line, style="dim"))


class _Grid(NamedTuple):
    """Cells of a leaderboard as text, before columns are selected.

    `groups` contains the lines of each entry, `widths` the width of each column, and `kinds` the
    kind of each entry.
    """

    heads: list[Text]
    groups: list[list[list[Text]]]
    widths: list[int]
    kinds: list[str]


class _Spreads(NamedTuple):
    """Numbers that are printed with their spread: the suite's score, the tasks' values, or both."""

    score: bool
    tasks: bool


class _Fitting(NamedTuple):
    """Tables that fit the console.

    `left_out` are the tasks without a column, and `has_spread` is true if scores have their spread.
    """

    tables: list[Table]
    left_out: tuple[str, ...]
    has_spread: bool


def _fitting(board: Board, console: Console, *, details: bool) -> _Fitting:
    run = [n for n, task in enumerate(board.tasks) if any(task in e.cells for e in board.entries)]
    counted = [n for n in run if board.tasks[n] not in board.extras] or run
    # Use the first choice for which the table fits. The choices leave out, in this order: nothing;
    # the standard deviations of tasks; these and the tasks that do not count in the score; all
    # standard deviations; all standard deviations and these tasks. In the first pass, the share
    # _WHOLE_NAMES of the names must fit on one line. In the second pass, more names are wrapped.
    every, scores, none = _Spreads(True, True), _Spreads(True, False), _Spreads(False, False)
    choices = [(every, run), (scores, run), (scores, counted), (none, run), (none, counted)]
    grids = {spreads: _grid(board, spreads, details=details) for spreads in (every, scores, none)}
    lengths = sorted(len(entry.name) for entry in board.entries)
    most = lengths[math.ceil(_WHOLE_NAMES * len(lengths)) - 1]
    for least in (max(_NAME_WIDTH, most), _NAME_WIDTH):
        for spreads, tasks in choices:
            grid = grids[spreads]
            if _name_room(grid, tasks, console) >= least:
                left_out = tuple(board.tasks[n] for n in run if n not in tasks)
                return _Fitting([_table(grid, tasks, console)], left_out, spreads.score)
    left_out = tuple(board.tasks[n] for n in run if n not in counted)
    return _Fitting(list(_tables(grids[none], counted, console)), left_out, has_spread=False)


def _tables(grid: _Grid, tasks: Sequence[int], console: Console) -> Iterator[Table]:
    """Yield tables, each with as many tasks as fit the console, but at least one."""
    while tasks:
        count = 1
        while count < len(tasks) and _name_room(grid, tasks[: count + 1], console) >= _NAME_WIDTH:
            count += 1
        yield _table(grid, tasks[:count], console)
        tasks = tasks[count:]


def _name_room(grid: _Grid, tasks: Sequence[int], console: Console) -> int:
    """Return the width that remains for names if these tasks have columns."""
    widths = [grid.widths[number] for number in _places(grid, tasks) if number != _NAMES]
    return console.width - sum(widths) - len(widths)


def _places(grid: _Grid, tasks: Sequence[int]) -> list[int]:
    """Return the indices of a table's columns: rank and score (if not empty), name, and `tasks`."""
    filled = [
        number
        for number in range(_FIRST_TASK)
        if number == _NAMES or any(_IS_NUMBER(group[0][number].plain) for group in grid.groups)
    ]
    return [*filled, *(_FIRST_TASK + task for task in tasks)]


# This matches "7" and "84.2" but not "3 of 9". A column without a match is left out.
_IS_NUMBER = re.compile(r"\d(?!.* of )").match


def _grid(board: Board, spreads: _Spreads, *, details: bool) -> _Grid:
    best = {task: board.best(task) for task in board.tasks}
    groups = [list(_lines(board, e, best, spreads, details=details)) for e in board.entries]
    # Without standard deviations, a column is so narrow that its title may need two lines.
    between = "-" if spreads.tasks else "\n"
    titles = [column_title(task, board.rule, between) for task in board.tasks]
    heads = [Text(head) for head in ("#", "model", "score", *titles)]
    rows = [heads, *(row for group in groups for row in group)]
    widths = [
        max(cell_len(line) for cell in column for line in cell.plain.split("\n"))
        for column in zip(*rows, strict=True)
    ]
    return _Grid(heads, groups, widths, [entry.shown_kind for entry in board.entries])


def _folded(name: Text, width: int) -> Text:
    """Wrap the name to this width, at spaces and hyphens if possible."""
    fits = cell_len(name.plain) <= width or name.plain.startswith(" ")
    # `wrap` counts characters, but some characters need two cells of the terminal.
    is_wide = len(name.plain) != cell_len(name.plain)
    return name if fits or is_wide else Text("\n".join(wrap(name.plain, width)))


def _table(grid: _Grid, tasks: Sequence[int], console: Console) -> Table:
    places, room = _places(grid, tasks), _name_room(grid, tasks, console)
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 0), pad_edge=False, show_edge=False)
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
            cells = [
                _folded(row[n], max(_NAME_WIDTH, room)) if n == _NAMES else row[n] for n in places
            ]
            # Skip lines of statistics that are empty for all tasks of this table.
            if row is group[0] or any(row[n].plain for n in places if n != _NAMES):
                table.add_row(*cells)
        if following not in (kind, None):
            table.add_section()
    return table


def _lines(
    board: Board, entry: Entry, best: Mapping[str, str], spreads: _Spreads, *, details: bool
) -> Iterator[list[Text]]:
    """Yield an entry's lines: its medians, its statistics if `details`, and its intervals if known.

    `best` contains the best value of each column, which is printed in bold for ranked entries.
    """
    tasks, cells = board.tasks, [entry.cells.get(task) for task in board.tasks]
    values = []
    for task, cell in zip(tasks, cells, strict=True):
        if cell is None:
            values.append(Text("-", style="dim"))
            continue
        value = shown(cell.median)
        is_best = entry.competes and value == best[task] and cell.has_learned
        text = Text(cell.text, style="bold" if is_best else "")
        values.append(_with_spread(text, cell.spread if spreads.tasks else None))
    count, score = len(board.rule.cells), Text()
    if board.shows_score and entry.score is None:
        score = Text(f"{count - len(entry.missing)} of {count}", style="dim")
    elif entry.score is not None and board.shows_score:
        score = Text(entry.score_text, style="bold")
        score = _with_spread(score, entry.spread if spreads.score else None)
    rank = Text("-" if entry.rank is None else str(entry.rank))
    yield [rank, Text(visible(entry.name)), score, *values]
    if details:
        yield from _detail_lines([entry.seed_scores, *(c.values if c else () for c in cells)])
    if entry.uncertainty is None:
        return
    # Yield two lines with the lower and upper ends of the confidence intervals. The first line also
    # contains the range of possible ranks.
    known = [entry.uncertainty.cells.get(task, Intervals()) for task in tasks]
    intervals = [each.both for each in (entry.uncertainty.score, *known)]
    for label, name, end in ((entry.uncertainty.rank_label, "from", "low"), ("", "to", "high")):
        numbers = ("" if found is None else shown(getattr(found, end)) for found in intervals)
        yield _dim(label, f"  95 % {name}", *numbers)


def _detail_lines(samples: Sequence[Sequence[float]]) -> Iterator[list[Text]]:
    """Yield lines with statistics over seeds (if there are several) and with the number of seeds.

    `samples` contains the values of each column over seeds.
    """
    if max(map(len, samples)) > 1:
        spreads = ["" if (s := spread_of(sample)) is None else f"±{shown(s)}" for sample in samples]
        yield _dim("", "  spread", *spreads)
        for name, statistic in _STATISTICS.items():
            numbers = (shown(statistic(sample)) if len(sample) > 1 else "" for sample in samples)
            yield _dim("", f"  {name}", *numbers)
    yield _dim("", "  seeds", *(str(len(sample) or "") for sample in samples))


def _dim(*cells: str) -> list[Text]:
    return [Text(cell, style="dim") for cell in cells]


def _with_spread(text: Text, spread: float | None) -> Text:
    return text if spread is None else text.append(f" ±{shown(spread)}", style="dim not bold")


def _legend(board: Board, found: _Fitting) -> Iterator[str]:
    data = visible(board.data_label)
    missing = [task for task in board.rule.cells if not any(task in e.cells for e in board.entries)]
    if missing:
        names = ", ".join(map(title_of, missing))
        yield f"no {visible(board.rule.name)} score: {names} {are(len(missing))} missing."
        yield f"measured on {data}."
    elif not board.shows_score:
        yield f"measured on {data}."
    else:
        name = visible(board.rule.name)
        yield f"score: {name}, computed from the tasks' medians, measured on {data}."
        if any(entry.score is None for entry in board.entries):
            count = len(board.rule.cells)
            yield f"n of {count}: only n of the score's {count} tasks have a result."
    yield _seeds(board, found)
    yield from _metrics(board)
    if beside := [task for task in board.extras if any(task in e.cells for e in board.entries)]:
        place = ", and left out to fit the width" if found.left_out else ""
        yield f"{', '.join(map(title_of, beside))}: not part of the score{place}."
    kinds = {entry.kind for entry in board.entries}
    if others := [noun for kind, noun in _UNRANKED.items() if kind in kinds]:
        yield f"below the models, without a rank: {', '.join(others)}."
    of_rows = grouped((said, entry.name) for entry in board.entries for said in _details(entry))
    for said, rows in of_rows.items():
        is_everybody = len(rows) == sum(entry.is_single for entry in board.entries) > 1
        yield visible(f"{said}: {'all models' if is_everybody else ', '.join(rows)}.")
    yield from _choices(board)
    yield from _intervals(board)
    yield from map(visible, note_lines(noted for e in board.entries for noted in e.noted))
    yield from _hidden(board)


def _metrics(board: Board) -> Iterator[str]:
    """Yield the metrics of each task with an ambiguous one, such as "f1" for macro F1."""
    for task in map(find_task, board.tasks):
        names = score_names(task.name, board.rule)
        titles = [score_title(task, name) for name in names]
        if titles != list(names):
            yield visible(f"{title_of(task.name)}: {' and '.join(titles)}.")


def _hidden(board: Board) -> Iterator[str]:
    if board.hidden:
        hidden = "1 row is" if board.hidden == 1 else f"{board.hidden} rows are"
        yield f"{hidden} hidden; `bench db hide` lists hidden rows."


def _details(entry: Entry) -> Iterator[str]:
    if entry.points:
        yield f"best of {entry.points} on dev (the settings with the best dev score per task)"
    if entry.kind == "model" and entry.precision != "fp32" and not entry.says_precision:
        yield f"trained in {entry.precision} precision"
    yield from entry.start_labels
    yield from entry.gain_labels
    yield from entry.selection_labels
    if count := len(entry.failures):
        yield f"{counted(count, 'run')} failed (`bench show runs`)"


def _choices(board: Board) -> Iterator[str]:
    """Yield sentences per sweep and source of noise with the expected selection bias per task."""
    for entry in board.entries:
        swept = [(task, cell) for task, cell in entry.cells.items() if cell.gain is not None]
        chosen = [
            (cell.gain_scope, f"{title_of(task)} by {cell.bias}")
            for task, cell in swept
            if cell.bias
        ]
        best = f"{entry.name}: being chosen as the best of {entry.points} settings"
        for scope, cells in groupby(chosen, key=itemgetter(0)):
            yield visible(
                f"{best} raises {', '.join(raised for _, raised in cells)} (estimates). Expect "
                f"scores that are lower by this much with other {scope}."
            )
        if unknown := [title_of(task) for task, cell in swept if not cell.bias]:
            yield visible(f"{best} raises {', '.join(unknown)} by an unknown amount: {SAME_SEEDS}.")


def over_seeds_alone(board: Board) -> Iterator[str]:
    """Yield sentences about confidence intervals that do not cover the choice of examples.

    Each sentence gives one reason, e.g. that the examples of a task could not be read.
    """
    found = [e.uncertainty for e in board.entries if e.uncertainty is not None]
    reasons = (cell.reason for uncertainty in found for cell in uncertainty.cells.values())
    yield from (
        f"some intervals are missing or cover only seeds: {reason}"
        for reason in dict.fromkeys(reasons)
        if reason
    )


def _intervals(board: Board) -> Iterator[str]:
    """Yield sentences about the noise that intervals cover, and about tied entries."""
    found = [(e, e.uncertainty) for e in board.entries if e.uncertainty is not None]
    if not found:
        return
    yield (
        "95 %: confidence intervals over examples and seeds, of each median and (below each rank) "
        "of the rank."
    )
    cells = [cell for _, uncertainty in found for cell in uncertainty.cells.values()]
    if any(cell.seeds is None for cell in cells):
        yield "with one seed, an interval does not cover the differences between seeds."
    yield from map(visible, over_seeds_alone(board))
    for entry, uncertainty in found:
        if uncertainty.tied:
            tied = ", ".join(uncertainty.tied)
            yield visible(f"{entry.name} is not significantly different from {tied}.")


def _seeds(board: Board, found: _Fitting) -> str:
    models = [entry for entry in board.entries if entry.is_single] or board.entries
    counts = [count for entry in models for count in entry.seeds if count]
    if not counts:
        return "no run has finished."
    high = max(counts)
    meaning = "; ±: sample standard deviation over seeds" if found.has_spread and high > 1 else ""
    more = "; --details shows more" if high > 1 else ""
    seeds = counted(min(counts), "seed", high)
    return f"values: medians over {seeds}, times 100{meaning}{more}."


_FEW = 10  # maximum number of comparisons that are printed without --details


def render_reproductions(board: Board, console: Console, *, details: bool = False) -> None:
    """Print the comparison of measured with published scores, one line per published score.

    Nothing is printed if there are no published scores of the models.

    Args:
        board: Leaderboard with the measured scores.
        console: Console to print to.
        details: Print all comparisons. If False and there are more than 10, only the number of
            comparisons with each verdict ("within noise", "below" etc.) is printed.
    """
    rows = [
        (
            (visible(entry.name) if place == 0 else ""),  # only the first line names the entry
            title_of(found.task),
            " or ".join(found.theirs.scores),
            found.text,
            found.theirs.printed,
            "" if found.difference is None else f"{found.difference:+.1f}",
            "" if found.noise is None else f"±{found.noise:.1f}",
            f"{found.verdict}: {visible(found.reason)}" if found.reason else found.verdict,
        )
        for entry in board.entries
        for place, found in enumerate(reproductions(board, entry))
    ]
    if not rows:
        return
    title = f"{board.title}, reproduction of published scores"
    if len(rows) > _FEW and not details:
        counts = Counter(row[-1].partition(":")[0] for row in rows)
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        console.print(Text(f"{title}: {said}; --details shows them.", style="dim"))
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for head in ("model", "task", "score"):
        table.add_column(head, overflow="fold")
    for head in ("measured", "published", "difference", "noise"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(Text(title, style="bold"))
    console.print(table)
    console.print()
    legend = "in percent; measured: median over seeds; noise: difference that may be chance."
    console.print(Text(legend, style="dim"))
    console.print()


def _without_published(board: Board) -> str:
    """Return why no published scores are shown for a leaderboard."""
    if board.is_whole:
        return f"no published scores on {board.title} are known."
    return (
        f"no published scores are shown for {visible(board.data_label)}, because they are on the "
        f"complete official data; `bench show published --suite {board.suite}` lists them."
    )


_PUBLISHED_NAME_WIDTH = 16  # minimum width of the column of names

_FEW_COLUMNS = 4  # maximum number of columns that leave room for protocol and date after the name

_LEGENDS = {
    "published": "scores in percent, unranked; `bench show published` shows sources and metrics.",
    "imported": "imported scores in percent, unranked; `bench leaderboard --json` has the sources.",
}


def render_published(block: PublishedBlock, console: Console, *, left_out: int = 0) -> None:
    """Print published or imported scores: one line per system, in the order of the sources.

    Numbers are printed as in the source. If the console is too narrow, several numbers for one task
    are stacked, then the tasks are distributed over several tables.

    Args:
        block: Published or imported scores.
        console: Console to print to.
        left_out: Number of published rows that are not in `block`; it is printed below the table.
    """
    console.print(Text(f"{block.title}, {block.origin} ({block.split})", style="bold"))
    columns = range(1 + len(block.tasks))  # columns with numbers: the score and every task
    wide = _published_table(block, columns, "/")
    fits = _published_fits(wide, console)
    for table in [wide] if fits else _published_tables(block, columns, console):
        console.print(table)
        console.print()
    console.print(Text(_LEGENDS[block.origin], style="dim"))
    if left_out:
        rows = counted(left_out, "row")
        console.print(
            Text(f"{rows} of other models left out; --all-published shows all rows.", style="dim")
        )
    console.print()


def _published_tables(block: PublishedBlock, columns: range, console: Console) -> Iterator[Table]:
    """Yield tables, each with as many columns as fit the console, but at least one."""
    count = len(columns)
    while count > 1 and not _published_fits(
        _published_table(block, columns[:count], "\n"), console
    ):
        count -= 1
    yield _published_table(block, columns[:count], "\n")
    if columns[count:]:
        yield from _published_tables(block, columns[count:], console)


def _published_fits(table: Table, console: Console) -> bool:
    """Return whether the table fits the console if only long names are wrapped."""
    # Measure the table with a large width, because otherwise every table would seem to fit.
    unbounded = console.options.update(width=1000)
    return Measurement.get(console, unbounded, table).minimum <= console.width


def _published_table(block: PublishedBlock, columns: range, gap: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("system", overflow="fold", min_width=_PUBLISHED_NAME_WIDTH)
    heads = ("score", *map(title_of, block.tasks))
    rows = [
        [Text(gap.join(c.printed for c in row.of(t)) or "-") for t in (block.suite, *block.tasks)]
        for row in block.rows
    ]
    for column in columns:
        lines = [text for row in rows for text in row[column].split()]
        width = max(len(heads[column]), *(line.cell_len for line in lines))
        table.add_column(heads[column], justify="right", no_wrap=True, min_width=width)
    for printed, row in zip(block.rows, rows, strict=True):
        said = [*filter(None, (printed.said_protocol, printed.date))]
        name = Text(visible(printed.system))
        if said:
            gap = ", " if len(columns) <= _FEW_COLUMNS else "\n"
            name.append(gap + visible(", ".join(said)), style="dim")
        table.add_row(name, *(row[column] for column in columns))
    return table


def render_languages(board: Board, console: Console) -> None:
    """Print a table with the results per language for each task that has such results.

    If the console is too narrow, the languages are distributed over several tables.
    """
    for table in language_tables(board):
        console.print(Text(f"{table.title} by language", style="bold"))
        names = min(max(len(name) for name, _ in table.rows), console.width // 3)
        count = max(1, (console.width - names) // len("100.0 "))
        for start in range(0, len(table.heads), count):
            part = slice(start, start + count)
            found = Table("model", *table.heads[part], box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
            for name, values in table.rows:
                found.add_row(Text(name), *values[part])
            console.print(found)


def print_boards(
    boards: Sequence[Board],
    *,
    details: bool = False,
    published: Literal["none", "like", "all"] = "none",
    sizes: Mapping[str, float] | None = None,
) -> None:
    """Print leaderboards, each with comparisons, imported scores and published scores.

    Args:
        boards: Leaderboards to print.
        details: Print more statistics, results per language, and every comparison with a published
            score.
        published: Published rows to print: none, those of models similar to the models on the
            leaderboard ("like"), or all.
        sizes: Numbers of parameters of known models, keyed by lower-case name.
    """
    for board in boards:
        blocks = published_blocks(board) if published != "none" else ()
        render(board, Console(), details=details)
        if published != "none" and not blocks:
            Console().print(Text(_without_published(board), style="dim"))
        if details:
            render_languages(board, Console())
        render_reproductions(board, Console(), details=details)
        for imported in imported_blocks(board):
            render_published(imported, Console())
        for block in blocks:
            like = like_those_of(board, block, sizes or {}) if published == "like" else block
            if like.rows:
                left_out = len(block.rows) - len(like.rows)
                render_published(like, Console(), left_out=left_out)
            else:
                said = f"{len(block.rows)} rows, none for the same model or one of similar size"
                title = f"{block.title}, published ({block.split})"
                Console().print(Text(f"{title}: {said}; --all-published shows them.", style="dim"))
