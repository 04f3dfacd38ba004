"""Export of scores as CSV or JSON, with one line per system, task, split and metric."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from statistics import fmean, median

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import spread_of
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.naming import called, short_name
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.text import inert, visible


@dataclass(frozen=True, kw_only=True)
class ScoreLine:
    """Line of an export: one score of a leaderboard entry, summarized over its seeds.

    Scores have the unit of their metric, mostly 0 to 1.

    Attributes:
        model: Name of the model.
        task: Name of the task; for a suite's score, name of the suite.
        metric: Name of the metric; for a suite's score, name of its rule.
        split: Name of the split.
        score: Median over seeds. A suite's score is computed from the medians of its tasks.
        source: Name of the tool that measured the score: always "benchharness".
        kind: Kind of entry, e.g. "model", "ensemble" or "baseline".
        recipe: Label of the recipe.
        precision: Numerical precision.
        data: Sources of the data.
        limit: Maximum number of rows per split; None for all rows.
        rank: Rank of the entry; None if it has none.
        seeds: Number of seeds.
        mean: Mean over seeds.
        spread: Sample standard deviation over seeds; None for one seed.
        low: Lowest score of all seeds.
        high: Highest score of all seeds.
        date: Time at which the newest run ended.
        flags: Warnings about the score.
        selection: How the weights were selected, e.g. "best of 10 evaluations on dev"; empty if the
            last weights were used.
        truncated: Number of truncated rows in the split, the maximum over runs; None if there are
            none.
        parity: Result of the parity certificate, which proves that runs like these train as in
            transformers; empty if it was not requested.
    """

    model: str
    task: str
    metric: str
    split: str
    score: float
    source: str
    kind: str
    recipe: str
    precision: str
    data: str
    limit: int | None
    rank: int | None
    seeds: int
    mean: float
    spread: float | None
    low: float
    high: float
    date: str
    flags: str = ""
    selection: str = ""
    truncated: int | None = None
    parity: str = ""


def score_lines(boards: Iterable[Board]) -> Iterator[ScoreLine]:
    """Yield a line for each score on the leaderboards, entry by entry.

    If an entry has a score for the whole suite, this score is the first one of the entry. It is
    left out if the leaderboard was reduced to some of the suite's tasks.
    """
    return (line for board in boards for entry in board.entries for line in _lines(board, entry))


def _lines(board: Board, entry: Entry) -> Iterator[ScoreLine]:
    # Leave out the suite's score if the leaderboard was reduced to some of the suite's tasks.
    if entry.score is not None and set(board.rule.cells) <= set(board.tasks):
        scores, name = entry.seed_scores or (entry.score,), (board.suite, "dev", board.rule.name)
        finished = [run for run in entry.runs if run.status == "finished"]
        yield replace(_line(board, entry, name, finished, scores), score=entry.score)
    for task in board.tasks:
        runs = entry.cells[task].runs if task in entry.cells else ()
        # Yield all scores of the task's runs, including those that do not count in the suite's
        # score.
        for measure in dict.fromkeys(m for run in runs for m in run.measures[task].values()):
            found = {run.key: run.score_of(task, measure) for run in runs}
            values = [value for value in found.values() if value is not None]
            scored = [run for run in runs if found[run.key] is not None]
            yield _line(board, entry, (task, *measure), scored, values)


def _line(
    board: Board,
    entry: Entry,
    name: tuple[str, str, str],
    runs: Sequence[RunRow],
    values: Sequence[float],
) -> ScoreLine:
    """Create the line for a score; `name` is (task, split, metric)."""
    task, split, metric = name
    where = f"{task}:{split}"
    return ScoreLine(
        model=entry.model,
        task=task,
        metric=metric,
        split=split,
        score=median(values),
        source="benchharness",
        kind=entry.shown_kind,
        recipe=entry.recipe_label,
        precision=entry.precision,
        data=" and ".join(board.data),
        limit=board.limit,
        rank=entry.rank,
        seeds=len(values),
        mean=fmean(values),
        spread=spread_of(values),
        low=min(values),
        high=max(values),
        date=max(run.finished for run in runs),
        selection=entry.cells[task].selection
        if task in entry.cells
        else ", ".join(entry.selection_labels),
        truncated=max(
            (run.truncated[where][0] for run in runs if where in run.truncated), default=None
        ),
        parity=board.parity_of(runs),
        flags="; ".join(entry.cells[task].notes if task in entry.cells else entry.score_notes),
    )


# Output as JSON, and as CSV in which text that spreadsheets would evaluate as formulas is escaped.

COLUMNS = tuple(field.name for field in fields(ScoreLine))

_SELDOM = ("selection", "truncated", "parity")
"""Fields that a JSON export contains only if they have a value in at least one line."""


def to_csv(lines: Iterable[ScoreLine], columns: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a CSV file: a header, then one line per score.

    Numbers are not rounded, and None becomes an empty cell. Columns without values are not left
    out, because the header is yielded before any score is read.

    Args:
        lines: Scores to export.
        columns: Names of the columns (fields of ScoreLine), in order; empty for all.

    Raises:
        BenchError: If `columns` contains an unknown name.
    """
    _check_columns(columns)
    names, text = columns or COLUMNS, io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in chain([names], ([getattr(line, name) for name in names] for line in lines)):
        writer.writerow([inert(visible(v)) if isinstance(v, str) else v for v in row])
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def _check_columns(columns: Sequence[str]) -> None:
    if unknown := [name for name in columns if name not in COLUMNS]:
        raise BenchError(
            f"--columns: there is no column {' or '.join(map(repr, unknown))}. The columns are "
            f"{', '.join(COLUMNS)}."
        )


def to_json(lines: Iterable[ScoreLine], columns: Sequence[str] = ()) -> str:
    """Return scores as a JSON list with one object per score.

    Args:
        lines: Scores to export.
        columns: Names of the keys (fields of ScoreLine), in order. If it is empty, all fields are
            used, except `selection`, `truncated` and `parity` if no score has a value for them.

    Raises:
        BenchError: If `columns` contains an unknown name.
    """
    _check_columns(columns)
    rows = [vars(line) for line in lines]
    left_out = {name for name in _SELDOM if not any(row[name] for row in rows)}
    names = columns or [name for name in COLUMNS if name not in left_out]
    shown = [{name: row[name] for name in names} for row in rows]
    return json.dumps(shown, indent=2, allow_nan=False) + "\n"


def narrowed(boards: Iterable[Board], models: Sequence[str], tasks: Sequence[str]) -> list[Board]:
    """Reduce leaderboards to some models and tasks.

    Leaderboards without remaining entries or tasks are left out.

    Args:
        boards: Leaderboards to reduce.
        models: Models to keep, as they are named on the command line (see `naming.is_called`);
            empty for all.
        tasks: Full names of the tasks to keep, such as "glue/rte"; empty for all.

    Raises:
        BenchError: If nothing remains, or if a model is not on any leaderboard.
    """
    listed = list(boards)
    missing = [n for n in models if not any(called(board.entries, n) for board in listed)]
    kept = []
    for board in listed if not missing else ():
        named = {id(entry) for name in models for entry in called(board.entries, name)}
        entries = [entry for entry in board.entries if not models or id(entry) in named]
        columns = tuple(task for task in board.tasks if not tasks or task in tasks)
        if tasks:
            entries = [entry for entry in entries if set(columns) & entry.cells.keys()]
        if entries and columns:
            extras = tuple(task for task in board.extras if task in columns)
            kept.append(replace(board, entries=tuple(entries), tasks=columns, extras=extras))
    if kept:
        return kept
    known = dict.fromkeys(entry.model for board in listed for entry in board.entries)
    wanted = " on ".join(" or ".join(names) for names in (missing or models, tasks) if names)
    raise BenchError(
        f"there are no stored results{' of ' + wanted if wanted else ''}"
        f"{', only of ' + ', '.join(known) if known else ''}. `bench show runs` lists all runs."
    )


def the_model(boards: Iterable[Board]) -> tuple[Entry, ...]:
    """Return the only entry of each leaderboard; all entries must have the same model.

    Raises:
        BenchError: If a leaderboard has several entries, or if there are several models. The
            message explains how to select one.
    """
    entries: list[Entry] = []
    for board in boards:
        names = [short_name(entry, board.entries) for entry in board.entries]
        if len(names) != 1:
            some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise BenchError(
                f"this format describes a single entry of the leaderboard {board.title}, but "
                f"{len(names)} entries match. Select one with --model: {some}."
            )
        entries += board.entries
    models = list(dict.fromkeys(entry.model for entry in entries))
    if len(models) > 1:
        raise BenchError(
            f"this format describes a single model, but {len(models)} models match. Select one "
            f"with --model: {', '.join(models)}."
        )
    return tuple(entries)
