"""Import of scores that were measured elsewhere, from CSV or JSON files."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.published import (
    PublishedBlock,
    PublishedCell,
    PublishedRow,
    blocks_of,
)
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import (
    SUITE_ENDINGS,
    Cost,
    Evaluation,
    Measure,
    Result,
    RunRow,
    rule_name,
    score_name,
)
from benchharness.leaderboard.text import without_apostrophe
from benchharness.tasks.suites import RULES, SUITES, TASKS, title_of

# Reading of the files, which have the same layout as benchharness's own CSV and JSON exports.

_NEEDED = ("model", "task", "metric", "split", "score", "source")
_LARGEST = 64 * 2**20  # maximum size of a file in bytes; 100,000 rows need a quarter of this


@dataclass(frozen=True, kw_only=True)
class ImportedScore:
    """Score that was measured elsewhere, from one row of an imported file.

    Attributes:
        model: Name of the model.
        task: Name of the task, or of a suite for its average.
        metric: Name of the metric, or of the rule that computes the suite's average.
        split: Name of the split; "dev" or "test" for a suite.
        score: Score on the metric's scale, mostly from 0 to 1.
        source: Person or publication that measured the score.
        recipe: Description of the training; may be empty.
        precision: Numerical precision; may be empty.
        data: "mini" for the packaged mini data; empty for any other data.
        limit: Maximum number of rows per split; None if all rows were used.
        date: Date of the measurement, as in the file; may be empty.
        flags: Warnings about the score; may be empty.
    """

    model: str
    task: str
    metric: str
    split: str
    score: float
    source: str
    recipe: str = ""
    precision: str = ""
    data: str = ""
    limit: int | None = None
    date: str = ""
    flags: str = ""

    @property
    def name(self) -> tuple[object, ...]:
        """Fields that identify the score: all except the score itself, its date and its flags.

        A file may not contain two scores with equal values of these fields.
        """
        said = ("score", "date", "flags")
        return tuple(value for field, value in vars(self).items() if field not in said)


def read_rows(path: Path) -> Iterator[ImportedScore]:
    """Read a .csv or .json file and yield its scores.

    Raises:
        DataError: If the file cannot be read, or a row is incomplete, has an invalid number, names
            an unknown task, metric or split, or repeats a score. The message contains the number of
            the row.
    """
    text = _text(path)
    rows = _from_json(path, text) if path.suffix.lower() == ".json" else _from_csv(path, text)
    found: dict[tuple[object, ...], int] = {}
    for number, row in enumerate(rows, start=1):
        try:
            words = {name: _word(row, name) for name in _NEEDED if name != "score"}
            _check_names(words["task"], words["metric"], words["split"])
            score = ImportedScore(
                **words,
                score=_number(row, words["metric"]),
                recipe=_word(row, "recipe", needed=False),
                precision=_word(row, "precision", needed=False),
                data="mini" if row.get("data") == "mini" else "",
                limit=_limit(row.get("limit")),
                date=_word(row, "date", needed=False),
                flags=_word(row, "flags", needed=False),
            )
        except BenchError as error:
            raise DataError(f"row {number} of {path}: {error}") from error
        if score.name in found:
            raise DataError(
                f"rows {found[score.name]} and {number} of {path} describe the same score: remove "
                "one of them."
            )
        found[score.name] = number
        yield score


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise DataError(f"{path} is too large: a file of scores may have at most 64 MiB.")
        # utf-8-sig skips the byte order mark that Excel writes, which would otherwise be part of
        # the first column's name.
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def _from_json(path: Path, text: str) -> Iterator[Mapping[str, Any]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON ({error}).") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(
            f"{path} must be a JSON list of objects with the keys {', '.join(_NEEDED)}."
        )
    yield from rows


def _from_csv(path: Path, text: str) -> Iterator[Mapping[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        if missing := [name for name in _NEEDED if name not in (reader.fieldnames or ())]:
            raise DataError(
                f"{path} has no column {missing[0]!r}: the required columns are "
                f"{', '.join(_NEEDED)}."
            )
        for row in reader:
            # DictReader uses the key None for cells without a header, and the value None for
            # missing cells.
            if None in row or None in row.values():
                raise DataError(
                    f"line {reader.line_num} of {path} has a different number of cells than its "
                    "header."
                )
            yield {name: without_apostrophe(value) for name, value in row.items()}
    except csv.Error as error:
        raise DataError(
            f"{path} is not valid CSV after line {reader.line_num}: {error}."
        ) from error


def _word(row: Mapping[str, Any], name: str, *, needed: bool = True) -> str:
    value = row.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value.strip()):
        expected = "a non-empty text" if needed else "a text"
        raise BenchError(f"{name} must be {expected}, but is {value!r}.")
    return value


def _number(row: Mapping[str, Any], metric: str) -> float:
    value = row.get("score")
    try:
        # `float` would convert True to 1.0.
        score = math.nan if isinstance(value, bool | None) else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise BenchError(f"score must be a number, but is {value!r}.")
    # A threshold may be any number, because it is compared with no-answer scores.
    if abs(score) > 1 and "threshold" not in metric:
        raise BenchError(
            f"score must be a fraction such as 0.943 and not a percentage, but is {value!r}."
        )
    return score


def _limit(value: object) -> int | None:
    if value in (None, ""):
        return None
    if not isinstance(value, bool) and str(value).isdecimal() and int(str(value)) > 0:
        return int(str(value))
    raise BenchError(f"limit must be a number of rows or empty, but is {value!r}.")


def _check_names(task: str, metric: str, split: str) -> None:
    """Raise BenchError if the task, or suite, does not have this metric and split."""
    if task in TASKS:
        found = TASKS[task]
        metrics = [known.name for known in found.metrics + found.details]
        splits = [*found.dev_splits, *found.test_splits]
    elif task in SUITES:
        metrics, splits = [*RULES, SUITES[task].rule.name], [*SUITE_ENDINGS]
    else:
        raise BenchError(f"there is no task called {task!r}: `bench show tasks` lists all tasks.")
    for kind, name, known in (("metric", metric, metrics), ("split", split, splits)):
        if name not in known:
            raise BenchError(f"{task} has no {kind} {name!r}: it has {', '.join(known)}.")


# Imported scores are stored as results of kind "imported", which are never treated as local runs.


def to_result(score: ImportedScore) -> Result:
    """Convert an imported score to a result that can be stored.

    The job of the result has no fingerprints, because the evaluated rows are unknown. The job's key
    covers all fields that identify the score, but not the score itself. So a corrected score is a
    newer attempt at the same job, and lists show it instead of the old one. Equal scores give equal
    results.
    """
    name = score_name(score.task, Measure(score.split, score.metric))
    told: dict[str, str | int] = {
        "model": score.model,
        "metric": name,
        "recipe": score.recipe,
        "data": score.data,
        "limit": score.limit or 0,
    }
    job = Job(
        model=score.model,
        checkpoint="",
        weights=f"imported:{score.source}",
        task=score.task,
        task_version=0,
        data=score.data or "imported",
        fingerprints={},
        kind="imported",
        source=score.source,
        recipe=score.recipe or "imported",
        settings={
            field: Setting(value=value, source=score.source) for field, value in told.items()
        },
        seed=0,
        precision=score.precision or "unknown precision",
        limit=score.limit,
        method=0,
    )
    scores = {name: score.score}
    evaluation = Evaluation(
        task=score.task,
        split=score.split,
        fingerprint="",
        scores=scores,
        predictions=(),
        flags=(score.flags,) if score.flags else (),
    )
    return Result(
        job=job,
        evaluations=(evaluation,),
        curve=(),
        cost=Cost.without_network(0.0),
        provenance={"source": score.source},
        finished=score.date,
    )


def _metric_place(run: RunRow) -> int:
    """Return the place of a run's first metric among the metrics of its task."""
    task, name = TASKS.get(run.task), next(iter(run.scores[run.task]), "")
    names = [metric.name for metric in task.every_metric] if task else []
    return names.index(name) if name in names else len(names)


def imported_cell(task: str, measure: Measure, score: float) -> PublishedCell:
    """Return an imported score as a cell, in percent with at most four decimals.

    Args:
        task: Name of the task.
        measure: Split and metric of the score.
        score: The score, mostly from 0 to 1.
    """
    printed = f"{100 * score:.4f}".rstrip("0").removesuffix(".")
    return PublishedCell(task=task, scores=(rule_name(measure),), printed=printed)


def imported_blocks(board: Board) -> tuple[PublishedBlock, ...]:
    """Return the imported scores on a leaderboard in one block per split, dev before test.

    A block has one row per model, recipe, precision and source. Empty if the leaderboard has no
    imported scores.
    """
    # Create one row per model, recipe, precision, source and split.
    rows = []
    groups: dict[tuple[str, ...], list[RunRow]] = {}
    for run in board.imported:
        # The split of a row is "dev" or "test". Scores on a second dev or test split are in the
        # same row, and have a suffix in their names, e.g. "accuracy_mm".
        (measure,) = run.measures[run.task].values()
        tests = TASKS[run.task].test_splits if run.task in TASKS else ("test",)
        split = "test" if measure.split in tests else "dev"
        key = (run.model, run.recipe, run.precision, run.source, split)
        groups.setdefault(key, []).append(run)
    for (model, recipe, precision, source, split), runs in groups.items():
        noted = (
            f"{title_of(t)}: {f}" for run in runs for t, flags in run.flags.items() for f in flags
        )
        row = PublishedRow(
            table="imported",
            suite=board.suite,
            split=split,
            system=model,
            by="",
            protocol=", ".join((recipe, *dict.fromkeys(noted))),
            parameters="" if precision == "unknown precision" else precision,
            date=max(run.finished for run in runs),
            source=source,
            place="",
            cells=tuple(
                imported_cell(run.task, run.measures[run.task][name], score)
                for run in sorted(runs, key=_metric_place)
                for name, score in run.scores[run.task].items()
            ),
        )
        rows.append(row)
    return blocks_of(board, rows, "imported")
