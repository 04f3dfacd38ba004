"""A board as a plain table: the part that Markdown and LaTeX have in common, and Markdown."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import (
    column_title,
    note_lines,
    score_names,
    shown,
)
from benchharness.leaderboard.boards.entry import Entry, Intervals
from benchharness.leaderboard.boards.naming import full_label
from benchharness.leaderboard.boards.published import (
    PublishedCell,
    PublishedRow,
    published,
    rows_of_model,
)
from benchharness.leaderboard.result import MARK
from benchharness.leaderboard.text import grouped, visible
from benchharness.tasks.suites import find_task, title_of

SCORE = "score"
"""Name of the column for the suite's score."""

FACTS = ("rank", "recipe", "precision", "seeds")
"""Columns with facts about a row other than its scores."""

SPREAD_NOTE = "± is the sample standard deviation"

LIKE_OURS = "models"
"""Name that selects the published rows of the models on a board."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Options of a table.

    `columns` are names as a user types them ("score", "rte", "recipe"), in order; if empty, each
    format has its default. `published` are names of systems, or LIKE_OURS. `spread` shows the
    spread over seeds of each value; `intervals` shows confidence intervals instead, if the boards
    have them. `ties` are the labels of the entries that do not differ significantly from the best
    one, keyed by task ("glue/rte"). `apart` are the labels of the entries that differ significantly
    from the model named `other`, keyed by task or SCORE.
    """

    columns: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    spread: bool = True
    intervals: bool = False
    ties: Mapping[str, frozenset[str]] = field(default_factory=dict)
    apart: Mapping[str, frozenset[str]] = field(default_factory=dict)
    other: str = ""


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """Value times 100 with its spread, empty if there is none; `best` if it is its column's best.

    `metric` is set for a published value that covers only a part of the column's metrics, or
    another average. `ends` are the ends of its confidence interval. `apart` is true if it differs
    significantly from the other model's value. `flags` are warnings about the value, which then has
    a `mark`.
    """

    value: str = ""
    spread: str = ""
    best: bool = False
    metric: str = ""
    ends: tuple[str, ...] = ()
    apart: bool = False
    flags: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """Mark after a value with flags and before the notes on them; empty without flags."""
        return MARK if self.flags else ""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """Entry, or a published row; `facts` are keyed by the names in FACTS.

    `group` is the kind of row: "model", "scored", "ensemble", "zero-shot", "baseline" or
    "published". `official` is the name in papers. `source` is the source of a published row.
    `apart` are the facts that the row's name contains to distinguish it from others.
    """

    group: str
    model: str
    official: str
    facts: Mapping[str, str]
    cells: tuple[TableCell, ...]
    source: str = ""
    apart: tuple[str, ...] = ()

    def fact(self, name: str) -> str:
        """Return a fact, empty if the row does not have it."""
        return self.facts.get(name, "")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table of one board; `facts` and `columns` are the titles of the columns that are shown.

    `caption` is a title for papers; `title` also names the files that the data were read from. A
    column's title may have two lines; `names` are the columns' names, SCORE or a task. `notes` are
    sentences for below the table.
    """

    suite: str
    title: str
    caption: str
    facts: tuple[str, ...]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]


def build_tables(
    boards: Iterable[Board], choice: Choice, facts: Sequence[str] = (), *, official: bool = False
) -> Iterator[Table]:
    """Yield the table of each board that has at least one of the columns.

    Args:
        boards: Boards to show.
        choice: Columns and other options.
        facts: Facts that are shown unless columns are chosen.
        official: Use the names that papers use for models.

    Raises:
        BenchError: A column or a published system is on no board.
    """
    listed = list(boards)
    known = [_columns_of(board) for board in listed]
    if unknown := [w for w in choice.columns if not any(w.lower() in names for names in known)]:
        tasks = dict.fromkeys(task for board in listed for task in board.tasks)
        raise BenchError(
            f"--columns: no table has {' or '.join(map(repr, unknown))}: the columns are "
            f"{', '.join((*FACTS, SCORE, *tasks))}."
        )
    if choice.published and not any(board.is_whole for board in listed):
        raise BenchError(
            "--published: published scores are on complete official data, and these boards are not."
        )
    for name in choice.published:
        if not any(published_rows(board, [name]) for board in listed):
            raise BenchError(
                f"--published: no published row of these suites is of {name!r}: "
                "`bench show published` shows them."
            )
    for board, names in zip(listed, known, strict=True):
        chosen = [word.lower() for word in choice.columns] or [*facts, *_default(board)]
        found = dict.fromkeys(names[word] for word in chosen if word in names)
        numbers = tuple(name for name in found if name not in FACTS)
        if numbers and board.entries:
            shown_facts = tuple(name for name in found if name in FACTS)
            models = _official_names(board) if official else {}
            yield _build_table(board, numbers, shown_facts, choice, models)


def _default(board: Board) -> tuple[str, ...]:
    """Return the board's tasks, after the score if the board has every task of it."""
    has_score = board.has_score and set(board.rule.cells) <= set(board.tasks)
    return (SCORE, *board.tasks) if has_score else board.tasks


def _columns_of(board: Board) -> dict[str, str]:
    """Return the columns' names, keyed by every lower-case name that a user may type."""
    # A task is "glue/rte", "rte" or its title; facts and the score take precedence over a task of
    # the same name.
    names = {name: name for name in (*FACTS, *_default(board))}
    for task in board.tasks:
        for word in (task, task.partition("/")[2], title_of(task)):
            names.setdefault(word.lower(), task)
    return names


def _build_table(
    board: Board,
    columns: tuple[str, ...],
    facts: tuple[str, ...],
    choice: Choice,
    names: Mapping[str, str],
) -> Table:
    """Return a table; unless columns were chosen, columns without any value are left out."""
    if not choice.columns:
        filled = {task for entry in board.entries for task in entry.cells}
        filled |= {SCORE} if any(entry.score is not None for entry in board.entries) else set()
        columns = tuple(name for name in columns if name in filled) or columns
    best = {name: board.best(name) for name in columns if name != SCORE}
    scored = [e for e in board.entries if e.competes and e.score is not None]
    scores = [e.score for e in scored if e.score is not None and e.has_learned]
    best[SCORE] = shown(max(scores)) if scores and len(scored) > 1 else ""
    rows = []
    for entry in board.entries:
        low, high = entry.seeds
        row = TableRow(
            group=entry.kind,
            model=entry.model,
            official=names.get(entry.model, entry.model),
            facts={
                "rank": "" if entry.rank is None else str(entry.rank),
                "recipe": _recipe(entry),
                "precision": entry.precision,
                "seeds": str(low) if low == high else f"{low}-{high}",
            },
            cells=tuple(_build_cell(entry, name, best[name], choice) for name in columns),
        )
        rows.append(row)
    for printed in published_rows(board, choice.published):
        # The protocol of the numbers, and the team that submitted them.
        said = [*filter(None, (printed.said_protocol, printed.by and f"by {printed.by}"))]
        row = TableRow(
            group="published",
            model=printed.system,
            official=printed.system,
            facts={"recipe": ", ".join(said)},
            source=", ".join((printed.source, printed.place, *said)),
            cells=tuple(_published_cell(board, printed, name) for name in columns),
        )
        rows += [row] if any(cell.value for cell in row.cells) else []
    titles = (SCORE if name == SCORE else column_title(name, board.rule, "\n") for name in columns)
    return Table(
        suite=board.suite,
        title=f"{board.title} on {board.data_label}",
        caption=_caption(board),
        facts=facts,
        columns=tuple(titles),
        names=columns,
        rows=tuple(_told_apart(rows, facts)),
        notes=tuple(_notes(board, columns, facts, choice, list(_told_apart(rows, ())))),
    )


def _caption(board: Board) -> str:
    """Return the title of a board without the paths of its data."""
    parts = [board.title, *(["mini data"] if "mini" in board.data else [])]
    parts += [] if board.limit is None else [f"at most {board.limit} rows per split"]
    splits = [split for task in board.tasks for split in find_task(task).dev_splits]
    parts += ["development sets"] if all(s.startswith("dev") for s in splits) else []
    return ", ".join(parts)


def _recipe(entry: Entry) -> str:
    return ", ".join((entry.recipe_label, *entry.selection_labels))


def _build_cell(entry: Entry, name: str, best: str, choice: Choice) -> TableCell:
    """Return the cell of an entry; `best` is the displayed best value of its column."""
    cell = entry.cells.get(name)
    score, spread = (entry.score, entry.spread) if cell is None else (cell.median, cell.spread)
    if score is None or (cell is None and name != SCORE):
        return TableCell()
    is_tied = full_label(entry) in choice.ties.get(name, ())
    has_learned = (entry if cell is None else cell).has_learned
    sure = _intervals(entry, name).both if choice.intervals else None
    is_spread = choice.spread and not choice.intervals and spread is not None
    return TableCell(
        value=shown(score),
        spread=shown(spread) if is_spread and spread is not None else "",
        best=entry.competes and has_learned and (shown(score) == best or is_tied),
        ends=(shown(sure.low), shown(sure.high)) if sure else (),
        apart=full_label(entry) in choice.apart.get(name, ()),
        flags=entry.score_notes if cell is None else cell.notes,
    )


def _intervals(entry: Entry, name: str) -> Intervals:
    """Return the confidence intervals of an entry's cell, or of its score."""
    known = entry.uncertainty
    if known is None:
        return Intervals()
    return known.score if name == SCORE else known.cells.get(name, Intervals())


def _official_names(board: Board) -> dict[str, str]:
    """Return the names of models in papers: the most frequent one in each model's published rows.

    A model whose weights come from a folder ("sha256:...") keeps its own name, and a name that two
    models would share is not used.
    """
    found: dict[str, str] = {}
    for entry in board.entries:
        names = Counter(row.system for row in rows_of_model(entry.model))
        if names and not any(run.weights.startswith("sha256:") for run in entry.runs):
            found.setdefault(entry.model, names.most_common(1)[0][0])
        else:
            found[entry.model] = entry.model
    shared = Counter(found.values())
    return {model: name if shared[name] == 1 else model for model, name in found.items()}


def _told_apart(rows: Sequence[TableRow], facts: Sequence[str]) -> Iterator[TableRow]:
    """Yield the rows with distinct names: a recipe or precision that differs is added to the name.

    Facts in `facts`, which have columns of their own, are not added.
    """
    for row in rows:
        same = [each for each in rows if each.group == row.group and each.model == row.model]
        parts = [
            row.fact(fact)
            for fact in ("recipe", "precision")
            if fact not in facts and len({each.fact(fact) for each in same}) > 1
            if row.group != "published"
        ]
        named = f"{row.official} ({', '.join(parts)})" if parts else row.official
        yield replace(row, official=named, apart=tuple(parts))


def published_rows(board: Board, names: Sequence[str]) -> list[PublishedRow]:
    """Return the published dev rows of a board's suite that these names select."""
    models = {entry.model for entry in board.entries if entry.is_single}
    ours = [row for model in models for row in rows_of_model(model)] if LIKE_OURS in names else []
    rows = published(board.suite) if board.is_whole else ()
    return [row for row in rows if row.split == "dev" and (row.system in names or row in ours)]


def _published_cell(board: Board, row: PublishedRow, name: str) -> TableCell:
    """Return the published value of a column: the mean of its metrics, or the first of them."""
    if name == SCORE:
        found = {cell.scores[0]: cell for cell in row.of(board.suite)}
        if board.rule.name in found:
            return TableCell(value=found[board.rule.name].printed)
        # An average with another rule, as its authors print it.
        others = (TableCell(value=cell.printed, metric=name) for name, cell in found.items())
        return next(others, TableCell())
    # If all metrics of the column are printed, their mean, or the number as printed if there is one
    # metric; else the first number of a part of them, with a mark that names the metric.
    names, cells = score_names(name, board.rule), row.of(name)
    by_name = {cell.scores[0]: cell for cell in cells if len(cell.scores) == 1}
    if all(each in by_name for each in names):
        values = [by_name[each] for each in names]
        if len(values) == 1:
            return TableCell(value=values[0].printed)
        return TableCell(value=f"{fmean(cell.value for cell in values):.1f}")
    partial: Sequence[PublishedCell] = [c for c in cells if set(c.scores) <= set(names)]
    if not partial:
        return TableCell()
    titles = dict.fromkeys(metric_title(name, score) for score in partial[0].scores)
    return TableCell(value=partial[0].printed, metric=" or ".join(titles))


def _notes(
    board: Board,
    columns: Sequence[str],
    facts: Sequence[str],
    choice: Choice,
    rows: Sequence[TableRow],
) -> Iterator[str]:
    """Yield the protocol of the values and the warnings about some of them.

    `rows` begin with the rows of the board's entries, with distinct names.
    """
    counts = [n for entry in board.entries if entry.is_single for n in entry.seeds if n]
    several = max(counts, default=0) > 1
    number = "-".join(map(str, sorted({min(counts), max(counts)}))) if counts else ""
    median = f"medians over {number} seed{'s' if several else ''}, " if counts else ""
    is_spread = several and choice.spread and not choice.intervals
    spread = f"; {SPREAD_NOTE}" if is_spread else ""
    yield f"Values are {median}times 100{spread}."
    yield from _interval_notes(board, columns, choice)
    metrics = grouped((_metric_of(board, t), title_of(t)) for t in columns if t != SCORE)
    if metrics:
        parts = (f"{', '.join(tasks)}: {label}" for label, tasks in metrics.items())
        yield f"{'; '.join(parts)}."
    if SCORE in columns:
        yield f"The score is {board.rule.name}."
    if sum(entry.competes for entry in board.entries) > 1:
        tied = any(choice.ties.get(task) for task in columns)
        test = " and models not significantly different from it in a paired test "
        test += "(p < 0.05, corrected by Holm)"
        yield f"Bold: the best model{test if tied else ''}."
    if "rank" in facts and any(not entry.is_single for entry in board.entries):
        yield "Ensembles and baselines have no rank."
    # Rows that are distinguished by their recipes have them in their names.
    recipes = grouped(
        (recipe, row.official)
        for row in rows
        if row.group == "model" and (recipe := row.fact("recipe")) not in row.apart
    )
    if recipes and "recipe" not in facts:
        with_models = [f"{recipe} ({', '.join(models)})" for recipe, models in recipes.items()]
        said = "; ".join(with_models if len(recipes) > 1 else recipes)
        yield f"Recipe{'s' if len(recipes) > 1 else ''}: {said}."
    yield from note_lines(  # the score's notes are its tasks' notes
        (f"{row.official} {title_of(task)}", cell.notes)
        for entry, row in zip(board.entries, rows, strict=False)
        for task, cell in entry.cells.items()
        if task in columns or (SCORE in columns and task in entry.counted)
    )


def _interval_notes(board: Board, columns: Sequence[str], choice: Choice) -> Iterator[str]:
    sure = [_intervals(e, name) for e in board.entries for name in columns if choice.intervals]
    if scopes := dict.fromkeys(each.scope for each in sure if each.both):
        over = ", or over ".join(scopes)
        yield f"Small numbers are the bounds of the 95 % interval over {over}."
    if any(choice.apart.get(name) for name in columns):
        yield (
            f"†: significantly different from {choice.other} in a paired test (p < 0.05, corrected "
            "by Holm over the tasks)."
        )


def _metric_of(board: Board, task: str) -> str:
    """Return the metric of a task's value: "the mean of accuracy and F1"."""
    names = dict.fromkeys(metric_title(task, name) for name in score_names(task, board.rule))
    return ("the mean of " if len(names) > 1 else "") + " and ".join(names)


def metric_title(task: str, name: str) -> str:
    """Return a score's metric as papers write it: "accuracy", "F1", "Matthews correlation"."""
    every = [metric.name for metric in (*find_task(task).metrics, *find_task(task).details)]
    metric = max((each for each in every if name.startswith(each)), key=len, default=name)
    return _METRICS.get(metric, metric)


_METRICS = {
    "mcc": "Matthews correlation",
    "f1": "F1",
    "f1a": "F1a",
    "em": "exact match",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "ndcg_10": "nDCG@10",
}


# Boards as Markdown tables (GitHub flavour), with the best of each column in bold.

_MARKS = re.compile(r"([\\`*_{}\[\]#+!|~:@$])")
"""Characters that may begin markup: emphasis, code, a link, an image, a cell, an address, a
formula."""


def to_markdown(boards: Iterable[Board], choice: Choice = Choice()) -> str:
    """Return a heading, a table and its notes for each board."""
    tables = build_tables(boards, choice, facts=("rank", "recipe"))
    return "\n\n".join(map(_section, tables)) + "\n"


def _markdown_escaped(text: str) -> str:
    """Return the text escaped for Markdown and HTML, on one line."""
    plain = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\1", plain)


def _section(table: Table) -> str:
    before = ["rank"] if "rank" in table.facts else []
    after = [name for name in table.facts if name not in before]
    titles = [title.replace("\n", "-") for title in table.columns]
    heads = [*(r"\#" for _ in before), "model", *after, *map(_markdown_escaped, titles)]
    rules = [*("--:" for _ in before), ":--", *(":--" for _ in after), *("--:" for _ in titles)]
    rows = [
        [
            *(row.fact(name) or "–" for name in before),
            _markdown_escaped(row.model),
            *(_markdown_escaped(row.fact(name)) for name in after),
            *map(_markdown_cell, row.cells),
        ]
        for row in table.rows
    ]
    lines = [
        f"## {_markdown_escaped(table.title)}",
        "",
        *(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows)),
        "",
        *map(_markdown_escaped, table.notes),
        *(_markdown_escaped(f"{row.model}: {row.source}.") for row in table.rows if row.source),
    ]
    return "\n".join(lines)


def _markdown_cell(cell: TableCell) -> str:
    value = f"**{cell.value}**" if cell.best else cell.value or "–"
    value += _markdown_escaped(cell.mark)
    value += f" ({_markdown_escaped(cell.metric)})" if cell.metric else ""
    return f"{value} ± {cell.spread}" if cell.spread else value
