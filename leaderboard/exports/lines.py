"""Scores as lines of a table for other programs: one line per system, split and metric."""

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
    """Score over its seeds, in the unit of the metric (mostly 0 to 1).

    `score` is the median. For a suite's score, `task` is the suite and `metric` its rule; `score`
    is then computed from the medians of the tasks, as on the board, and `mean`, `spread`, `low` and
    `high` from the scores of single seeds. `truncated` is the largest number of truncated rows of
    the split in a run, None if it was not counted. `spread` is the sample standard deviation, None
    for one seed.

    `kind` is "model", "ensemble" or "baseline", `source` names who measured the score, `date` is
    the end of its newest run. `selection` describes the selection of checkpoints, empty if there
    was none. `parity` is the verdict of the parity certificate on the runs, if the board has it.
    `flags` are warnings about the score.
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
    """Return every score of the boards, entry by entry; a complete suite's score comes first."""
    return (line for board in boards for entry in board.entries for line in _lines(board, entry))


def _lines(board: Board, entry: Entry) -> Iterator[ScoreLine]:
    # A board that was reduced to some tasks has no suite score, which covers all of them.
    if entry.score is not None and set(board.rule.cells) <= set(board.tasks):
        scores, name = entry.seed_scores or (entry.score,), (board.suite, "dev", board.rule.name)
        finished = [run for run in entry.runs if run.status == "finished"]
        yield replace(_line(board, entry, name, finished, scores), score=entry.score)
    for task in board.tasks:
        runs = entry.cells[task].runs if task in entry.cells else ()
        # Every score that a run of the task has, even if it does not count in the suite's score.
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
    """Return the line of a task, split and metric."""
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


# Scores as CSV in which a spreadsheet finds text and numbers, but no formula.

COLUMNS = tuple(field.name for field in fields(ScoreLine))

_SELDOM = ("selection", "truncated", "parity")
"""Columns that a JSON export contains only if some line has a value for them."""


def to_csv(lines: Iterable[ScoreLine], columns: Sequence[str] = ()) -> Iterator[str]:
    """Yield a header and a line per score; numbers have all their digits, None is an empty cell.

    The header is yielded before the first score is read, so it always contains every column.
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
            f"--columns: no line has {' or '.join(map(repr, unknown))}: the columns are "
            f"{', '.join(COLUMNS)}."
        )


def to_json(lines: Iterable[ScoreLine], columns: Sequence[str] = ()) -> str:
    """Return a JSON list with an object per score, keyed by the fields of ScoreLine, in ASCII."""
    _check_columns(columns)
    rows = [vars(line) for line in lines]
    left_out = {name for name in _SELDOM if not any(row[name] for row in rows)}
    names = columns or [name for name in COLUMNS if name not in left_out]
    shown = [{name: row[name] for name in names} for row in rows]
    return json.dumps(shown, indent=2, allow_nan=False) + "\n"


def narrowed(boards: Iterable[Board], models: Sequence[str], tasks: Sequence[str]) -> list[Board]:
    """Return the boards reduced to these models and tasks; an empty list of names keeps all.

    A model is named as on the command line (see `naming.is_called`), a task by its full name.
    Boards without a remaining entry or task are left out.

    Raises:
        BenchError: Nothing remains, or a model is on no board.
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
        f"nothing stored matches{' ' + wanted if wanted else ''}: stored are "
        f"{', '.join(known) or 'no runs'}; `bench show runs` shows what there is."
    )


def the_model(boards: Iterable[Board]) -> tuple[Entry, ...]:
    """Return the only entry of each board; all entries are of one model.

    Raises:
        BenchError: A board has several entries, or there are several models; the message explains
            how to select one.
    """
    entries: list[Entry] = []
    for board in boards:
        names = [short_name(entry, board.entries) for entry in board.entries]
        if len(names) != 1:
            some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise BenchError(
                f"this format describes one row of {board.title}, and {len(names)} fit: choose "
                f"one with --model: {some}."
            )
        entries += board.entries
    models = list(dict.fromkeys(entry.model for entry in entries))
    if len(models) > 1:
        raise BenchError(
            f"this format describes one model, and {len(models)} fit: choose one with --model: "
            f"{', '.join(models)}."
        )
    return tuple(entries)
