"""Content of leaderboards as tables for Markdown and LaTeX, and export as Markdown."""

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
from benchharness.leaderboard.job import PAPER
from benchharness.leaderboard.result import MARK
from benchharness.leaderboard.text import grouped, visible
from benchharness.tasks.suites import find_task, title_of

SCORE = "score"
"""Name of the column that contains the score of the whole suite."""

FACTS = ("rank", "recipe", "precision", "seeds")
"""Names of the columns that do not contain scores."""

SPREAD_NOTE = "± is the sample standard deviation"

TIES = (
    " and, for tasks, models that do not differ significantly from it in a paired test "
    "(significant: p < 0.05 after Holm's correction for all models that are compared with the best "
    "one of the column)"
)
"""Part of the note on bold scores, if statistical ties are bold too."""

LIKE_OURS = "models"
"""Value for `--published` that selects the published results of all models on the leaderboard."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Options for exporting a leaderboard as a table.

    Attributes:
        columns: Names of the columns in order, as users type them, e.g. "score", "rte" or "recipe".
            If empty, the default columns of the format are used.
        published: Names of systems whose published scores are added, or `LIKE_OURS`.
        spread: True to show the standard deviation over seeds of each value.
        intervals: True to show confidence intervals instead, if the leaderboards have them.
        ties: Labels of the entries that do not differ significantly from the best entry, keyed by
            task ("glue/rte").
        apart: Labels of the entries that differ significantly from the model `other`, keyed by
            task, or `SCORE` for the suite's score.
        other: Name of the model with which entries are compared; empty if they are not.
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
    """Cell of a table as text.

    Attributes:
        value: Score times 100; empty if there is none.
        spread: Standard deviation over seeds, times 100; empty if it is unknown or not shown.
        best: True if the value is shown in bold: it is the best in its column, or, with
            `Choice.ties`, not significantly worse.
        metric: Metric of a published value, if it differs from the column's metric; else empty.
        ends: Lower and upper end of the confidence interval; empty if it is unknown or not shown.
        apart: True if the value differs significantly from that of `Choice.other`.
        flags: Warnings about the value.
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
        """Text that is shown after the value: "!" if there are warnings, else empty."""
        return MARK if self.flags else ""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """Row of a table: a leaderboard entry, or the published scores of a system.

    Attributes:
        group: Kind of the row: "model", "scored" (the scores of a prediction file), "ensemble",
            "zero-shot", "baseline" or "published".
        model: Name of the model or system.
        official: Name that papers use for the model (or `model` if this was not requested), with
            the values in `apart`.
        facts: Values of the columns without scores, keyed by the names in `FACTS`.
        cells: Cells with scores, in the order of the columns.
        source: Source of a published row; else empty.
        apart: Values from `facts` that distinguish the row from other rows of the same model.
    """

    group: str
    model: str
    official: str
    facts: Mapping[str, str]
    cells: tuple[TableCell, ...]
    source: str = ""
    apart: tuple[str, ...] = ()

    def fact(self, name: str) -> str:
        """Return the value of a column without scores; empty if the row has none."""
        return self.facts.get(name, "")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Content of the table for one leaderboard.

    Attributes:
        suite: Name of the suite.
        title: Title with the sources of the data, which may be files.
        caption: Title for papers, without the names of files.
        data: Sources of the data, as in `title`.
        facts: Names of the columns without scores.
        columns: Titles of the columns with scores. A title may have two lines.
        names: Names of the columns with scores: tasks, or `SCORE`.
        rows: Rows, in the order of the leaderboard; published results are last.
        notes: Sentences to show below the table.
    """

    suite: str
    title: str
    caption: str
    data: str
    facts: tuple[str, ...]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]


def build_tables(
    boards: Iterable[Board], choice: Choice, facts: Sequence[str] = (), *, official: bool = False
) -> Iterator[Table]:
    """Yield one table per leaderboard that has entries and at least one column with scores.

    Args:
        boards: Leaderboards to convert.
        choice: Columns and other options.
        facts: Columns without scores (see `FACTS`) that are used if `choice.columns` is empty.
        official: True to use the names that papers use for models.

    Raises:
        BenchError: If no leaderboard has a column or a published system that `choice` names, or if
            it names published systems although all scores are on mini or limited data.
    """
    listed = list(boards)
    known = [_columns_of(board) for board in listed]
    if unknown := [w for w in choice.columns if not any(w.lower() in names for names in known)]:
        tasks = dict.fromkeys(task for board in listed for task in board.tasks)
        raise BenchError(
            f"--columns: there is no column {' or '.join(map(repr, unknown))}. The columns are "
            f"{', '.join((*FACTS, SCORE, *tasks))}."
        )
    if choice.published and not any(board.is_whole for board in listed):
        raise BenchError(
            "--published cannot be used here: published scores are on complete official data, but "
            "the stored scores are on mini or limited data."
        )
    for name in choice.published:
        if not any(published_rows(board, [name]) for board in listed):
            raise BenchError(
                f"--published: {name!r} has no published dev scores on these suites. "
                "`bench show published` lists all published scores."
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
    """Return the default columns with scores: the suite's score and the tasks.

    The suite's score is left out if the leaderboard does not show it or lacks one of its tasks.
    """
    has_score = board.has_score and set(board.rule.cells) <= set(board.tasks)
    return (SCORE, *board.tasks) if has_score else board.tasks


def _columns_of(board: Board) -> dict[str, str]:
    """Return the names of the columns, keyed by the lower-case names that users may type."""
    # A task may be typed as "glue/rte", as "rte" or as its title. Other columns take precedence
    # over a task with the same name.
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
    """Create the table of a leaderboard.

    Columns without any value are left out, unless the user has selected the columns.
    """
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
        # Describe the published scores by their protocol and the team that submitted them.
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
        data=board.data_label,
        facts=facts,
        columns=tuple(titles),
        names=columns,
        rows=tuple(_told_apart(rows, facts)),
        notes=tuple(_notes(board, columns, facts, choice, list(_told_apart(rows, ())))),
    )


def _caption(board: Board) -> str:
    """Return the title of a leaderboard with a description of its data, without paths."""
    parts = [board.title, *(["mini data"] if "mini" in board.data else [])]
    parts += [] if board.limit is None else [f"at most {board.limit} rows per split"]
    splits = [split for task in board.tasks for split in find_task(task).dev_splits]
    parts += ["development sets"] if all(s.startswith("dev") for s in splits) else []
    return ", ".join(parts)


def _recipe(entry: Entry) -> str:
    return ", ".join((entry.recipe_label, *entry.selection_labels))


def _build_cell(entry: Entry, name: str, best: str, choice: Choice) -> TableCell:
    """Create the cell of an entry; `best` is the best value in the column, as displayed."""
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
    """Return the confidence intervals for an entry's task or score; `name` is the column's name."""
    known = entry.uncertainty
    if known is None:
        return Intervals()
    return known.score if name == SCORE else known.cells.get(name, Intervals())


def _official_names(board: Board) -> dict[str, str]:
    """Return the name that papers use for each model on the leaderboard, keyed by model.

    It is the most frequent name in the published rows of the model. A model keeps its own name if
    its weights came from a folder ("sha256:..."), or if two models would have the same name.
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
    """Add recipe or precision to the names of rows of the same model that differ in them.

    Facts that have their own column (those in `facts`) are not added.
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
    """Return the published results that can be added to a leaderboard.

    They are results of some systems on the development sets of the same suite. There are none if
    the leaderboard's scores are on mini data or on a limited number of rows.

    Args:
        board: Leaderboard to which the results are added.
        names: Names of the systems. `LIKE_OURS` selects all models on the leaderboard.
    """
    models = {entry.model for entry in board.entries if entry.is_single}
    ours = [row for model in models for row in rows_of_model(model)] if LIKE_OURS in names else []
    rows = published(board.suite) if board.is_whole else ()
    return [row for row in rows if row.split == "dev" and (row.system in names or row in ours)]


def _published_cell(board: Board, row: PublishedRow, name: str) -> TableCell:
    """Create the cell of a published row for a column.

    For a task, the value is the mean of the task's metrics. If some of these are not published, the
    value is the first published one, and the cell names its metric.
    """
    if name == SCORE:
        found = {cell.scores[0]: cell for cell in row.of(board.suite)}
        if board.rule.name in found:
            return TableCell(value=found[board.rule.name].printed)
        # Otherwise use an average by another rule, as its authors printed it.
        others = (TableCell(value=cell.printed, metric=name) for name, cell in found.items())
        return next(others, TableCell())
    # If the column has one metric, use its number as printed. If it has several, use their mean if
    # all are printed, else the first printed number with the name of its metric.
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
    """Yield the sentences below a table: how the values were computed, and warnings.

    `rows` contains the rows of the leaderboard's entries first. Their names are distinct.
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
        yield f"Bold: the best model of each column{TIES if tied else ''}."
    if "rank" in facts and any(not entry.is_single for entry in board.entries):
        yield "Ensembles and baselines have no rank."
    if "recipe" not in facts:
        yield from _recipe_notes([row for row in rows if row.group == "model"])
    yield from note_lines(  # the suite's score has the warnings of its tasks
        ((row.official, title_of(task)), cell.notes)
        for entry, row in zip(board.entries, rows, strict=False)
        for task, cell in entry.cells.items()
        if task in columns or (SCORE in columns and task in entry.counted)
    )


def _recipe_notes(rows: Sequence[TableRow]) -> Iterator[str]:
    """Yield the recipe of each model, except of models whose names contain the recipe."""
    shown = [row for row in rows if row.fact("recipe") not in row.apart]
    recipes = grouped((row.fact("recipe"), row.official) for row in shown)
    if not recipes:
        return
    with_models = [f"{recipe} ({', '.join(models)})" for recipe, models in recipes.items()]
    is_shared = len(recipes) == 1 and len(shown) == len(rows)
    said = "; ".join(recipes if is_shared else with_models)
    yield f"Recipe{'s' if len(recipes) > 1 else ''}: {said}."
    if any(recipe.partition(",")[0] == PAPER for recipe in recipes):
        yield f"The recipe {PAPER} has the hyperparameters published for an encoder or its family."


def _interval_notes(board: Board, columns: Sequence[str], choice: Choice) -> Iterator[str]:
    sure = [_intervals(e, name) for e in board.entries for name in columns if choice.intervals]
    if scopes := dict.fromkeys(each.scope for each in sure if each.both):
        over = ", or over ".join(scopes)
        yield f"The numbers below a score are the bounds of its 95 % interval over {over}."
    if any(choice.apart.get(name) for name in columns):
        yield (
            f"†: significantly different from {choice.other} in a paired test (p < 0.05 after "
            "Holm's correction for all tasks on which the two models are compared)."
        )


def _metric_of(board: Board, task: str) -> str:
    """Return the metric of a task's value in words, e.g. "the mean of accuracy and F1"."""
    names = dict.fromkeys(metric_title(task, name) for name in score_names(task, board.rule))
    return ("the mean of " if len(names) > 1 else "") + " and ".join(names)


def metric_title(task: str, name: str) -> str:
    """Return the name of a score's metric as papers write it, e.g. "Matthews correlation".

    Args:
        task: Name of the task.
        name: Name of the score: the name of its metric, which may be followed by the suffix of a
            split, as in "accuracy_mm".
    """
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


# Leaderboards as Markdown tables (GitHub flavour), with the best value of each column in bold.

_MARKS = re.compile(r"([\\`*_{}\[\]#+!|~:@$])")
"""Characters that may be Markdown syntax: for emphasis, code, links, images, cells, addresses or
formulas."""


def to_markdown(boards: Iterable[Board], choice: Choice = Choice()) -> str:
    """Return leaderboards as Markdown: for each, a heading, a table and notes.

    Args:
        boards: Leaderboards to export.
        choice: Columns and other options of the tables.

    Raises:
        BenchError: If `choice` does not fit the leaderboards (see `build_tables`).
    """
    tables = build_tables(boards, choice, facts=("rank", "recipe"))
    return "\n\n".join(map(_section, tables)) + "\n"


def _markdown_escaped(text: str) -> str:
    """Escape a text for Markdown and HTML; the result is one line."""
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
