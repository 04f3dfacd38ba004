"""Convert stored runs, leaderboards, predictions and published scores to pandas data frames.

All scores are in the unit of their metric (mostly 0 to 1), as in exported files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import pandas as pd

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import score_names
from benchharness.leaderboard.boards.published import PublishedRow
from benchharness.leaderboard.comparing.contrast import Contrast
from benchharness.leaderboard.result import Evaluation, Failure, Result, RunRow, with_lists
from benchharness.leaderboard.sharing import shared_row
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Example
from benchharness.tasks.suites import SUITES, find_task, title_of

RUN_TYPES = {
    "key": "str",
    "model": "str",
    "recipe": "str",
    "suite": "str",
    "task": "str",
    "seed": "int64",
    "status": "str",
    "score": "float64",
    "flags": "str",
    "kind": "str",
    "data": "str",
    "limit": "Int64",
    "precision": "str",
    "seconds": "float64",
    "parameters": "int64",
    "finished": "datetime64[us, UTC]",
    "error": "str",
}
"""Types (dtypes) of the columns that every frame of `runs_frame` has, in the order of the columns.
These are followed by one column per score."""


def runs_frame(rows: Iterable[RunRow]) -> pd.DataFrame:
    """Return a frame with one row per run and scored task; a run without scores has one row.

    The column `status` is "finished" or the kind of failure. `score` is the score of the task on
    the leaderboard of the suite. `flags` contains warnings about the run, such as "constant
    predictions", or is "". `kind` is the origin of the run, such as "model" (fine-tuned here),
    "baseline" or "imported". `data` is the data source, and `limit` is the maximum number of rows
    per split, or <NA> if there is none. `seconds` is the time of the whole job (0 for a failed
    run), and `parameters` is the number of parameters of the model. Local paths are removed from
    `data` and `error`. After `error`, there is one float64 column for each score that any run has,
    such as "accuracy" or "f1_mm"; it is NaN for tasks that do not have this score.
    """
    lines = [line for row in map(shared_row, rows) for line in _run_lines(row)]
    found = pd.DataFrame(lines, columns=list(dict.fromkeys([*RUN_TYPES, *_names(lines)])))
    found["finished"] = pd.to_datetime(found["finished"], utc=True)
    return found.astype({**dict.fromkeys(_names(lines), "float64"), **RUN_TYPES})


def _run_lines(row: RunRow) -> Iterable[dict[str, Any]]:
    named = [name for name in RUN_TYPES if name not in ("recipe", "task", "score", "flags")]
    shared = {name: getattr(row, name) for name in named} | {"recipe": row.shown_recipe}
    for task, scores in row.scores.items() or [(row.task, dict[str, float]())]:
        name, score = task.partition("/")[0], None
        if scores and (suite := SUITES.get(name)):
            if task in suite.rule.cells:
                score = suite.rule.task_score(task, scores)
            else:
                score = scores.get(*score_names(task, suite.rule))
        flags = "; ".join(row.flags.get(task, ()))
        yield {**shared, "suite": name, "task": task, "score": score, "flags": flags, **scores}


def _names(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for line in lines for name in line if name not in RUN_TYPES]


def board_frame(board: Board) -> pd.DataFrame:
    """Return a frame with one row per leaderboard entry, the best entry first.

    The column `rank` is <NA> for entries that are not ranked, and `name` is the name of the entry
    on the leaderboard. `model`, `recipe` and `precision` describe the runs of the entry, and
    `seeds` is the number of seeds on the task with the fewest seeds. `score` is the score of the
    suite. Each task has a column, named by its title, with the median of its scores over seeds (not
    rounded). `flags` contains warnings, such as "RTE: 2 of 2 seeds collapsed (constant
    predictions)", or is "". Score columns without any value are left out.
    """
    lines = [
        {
            "rank": entry.rank,
            "name": entry.name,
            "model": entry.model,
            "recipe": entry.recipe_label,
            "precision": entry.precision,
            "seeds": entry.seeds[0],
            "score": entry.score,
            **{title_of(task): cell.median for task, cell in entry.cells.items()},
            "flags": "; ".join(entry.notes(entry.cells)),
        }
        for entry in board.entries
    ]
    titles = [title_of(task) for task in board.tasks]
    shown = ["score", *titles] if board.has_score else titles
    scores = [name for name in shown if any(line.get(name) is not None for line in lines)]
    names = ["rank", "name", "model", "recipe", "precision", "seeds", *scores, "flags"]
    types = {"rank": "Int64", "seeds": "int64", **dict.fromkeys(scores, "float64")}
    return pd.DataFrame(lines, columns=names).astype(types)


def predictions_frame(result: Result, examples: Mapping[str, Sequence[Example]]) -> pd.DataFrame:
    """Return a frame with one row per example of every split that a run predicted.

    The columns `task`, `split` and `id` identify the example. `gold` is the correct answer, and its
    form depends on the task: a label, a number, several labels, the index of an option, tags,
    clusters, or the list of all correct answers to a question (empty for a question without an
    answer). If any example of the split has several correct options, `gold` is a list of indices.
    `gold` is None if the label is hidden or unknown. `predicted` is the predicted answer. Some
    tasks have further columns, such as `scores` (a list with the probability of each class or
    option) and `no_answer_score` (a difference of logits).

    Args:
        result: Run with the predictions.
        examples: Examples with the correct answers, keyed by "task:split". Examples may be missing.
    """
    return pd.DataFrame(
        [
            {"task": each.task, "split": each.split, "id": row["id"], "gold": gold}
            | {("predicted" if name == answer else name): value for name, value in row.items()}
            for each in result.evaluations
            # In every prediction class, the first field after `id` is the predicted answer.
            for answer in [fields(answer_type(find_task(each.task)).prediction)[1].name]
            for row, gold in zip(
                each.predictions, _golds(each, examples.get(each.name, ())), strict=True
            )
        ]
    )


def _golds(evaluation: Evaluation, examples: Sequence[Example]) -> Iterable[object]:
    """Return the correct answer of each predicted example; None where it is unknown."""
    kind = answer_type(find_task(evaluation.task))
    several = any(len(kind.golds(example)) > 1 for example in examples)
    known = {
        e.id: None if e.is_hidden else with_lists(kind.gold_value(e, several=several))
        for e in examples
    }
    return [known.get(row["id"]) for row in evaluation.predictions]


def curve_frame(result: Result | Failure) -> pd.DataFrame:
    """Return the learning curve of a run as a frame, with the training step as its index.

    The column `epoch` is the number of epochs until the step, including the fraction of the current
    epoch. `loss` is the mean loss since the previous row, and `learning_rate` is the learning rate
    at the step. Each score that was measured during training has a column, which is NaN at steps
    without an evaluation. A failed run has no rows.
    """
    points = result.curve if isinstance(result, Result) else ()
    names = ["step", "epoch", "loss", "learning_rate"]
    scores = dict.fromkeys(name for point in points for name in point.scores)
    lines = [{**{name: getattr(point, name) for name in names}, **point.scores} for point in points]
    return pd.DataFrame(lines, columns=[*names, *scores]).set_index("step")


def published_frame(rows: Iterable[PublishedRow]) -> pd.DataFrame:
    """Return a frame with one row per published score, with its source.

    Scores are published in percent; the column `score` is the published score divided by 100. For
    an average over tasks, `task` is the name of the suite. `metric` is the name of the score. If
    the source does not state which metric it reports, `metric` contains all metrics that it may be,
    joined by " or ". The other columns are explained in `PublishedRow`.
    """
    named = ["suite", "split", "system", "by", "protocol", "parameters", "date", "source", "place"]
    lines = [
        {
            **{name: getattr(row, name) for name in named},
            "task": cell.task,
            "metric": " or ".join(cell.scores),
            "score": cell.value / 100,
        }
        for row in rows
        for cell in row.cells
    ]
    columns = ["suite", "task", "metric", "score", *named[1:]]
    return pd.DataFrame(lines, columns=columns).astype({"score": "float64"})


def contrasts_frame(contrasts: Iterable[Contrast]) -> pd.DataFrame:
    """Return a frame with one row per task on which two systems were compared.

    The columns `one` and `other` are the scores of the two systems (means over the seeds that both
    have), and `difference` is `one` minus `other`. `low` and `high` are the ends of the 95 %
    confidence interval of the difference. `test` is the name of the significance test, `p_value` is
    its uncorrected p-value, and `corrected` is the p-value after Holm's correction for
    `corrected_for` tests. `is_shown` is true if the difference is significant. `examples` and
    `seeds` are the numbers of examples and seeds. `reason` explains why there is no test, or is "".
    Without a test, the p-values and the interval are NaN. However, if the reason is that the
    examples could not be read, and there are several seeds, there is an interval, which covers only
    the variation over seeds. `flags` and `other_flags` contain warnings about the runs of the first
    and the second system, or are "".
    """
    lines = [
        {
            "task": found.task,
            "one": found.scores[0],
            "other": found.scores[1],
            **dict(zip(("flags", "other_flags"), map("; ".join, found.flags), strict=True)),
            "difference": found.difference,
            "low": found.interval.low if found.interval else None,
            "high": found.interval.high if found.interval else None,
            "test": found.test,
            "p_value": found.p_value,
            "corrected": found.corrected,
            "corrected_for": found.corrected_for,
            "is_shown": found.is_shown,
            "examples": found.examples,
            "seeds": len(found.seeds),
            "reason": found.reason,
        }
        for found in contrasts
    ]
    numbers = ["one", "other", "difference", "low", "high", "p_value", "corrected"]
    return pd.DataFrame(lines).astype(dict.fromkeys(numbers, "float64"))


def examples_frame(examples: Sequence[Example]) -> pd.DataFrame:
    """Return a frame with one row per example and one column per field of the examples' class.

    A column `answers` has the format of SQuAD, {"text": [...], "answer_start": [...]}; it is None
    if the answers are hidden. The fields `oddities` (known irregularities of the data) and
    `document` (the text that surrounds a sentence) are left out.

    Args:
        examples: Examples of one split; at least one.
    """
    names = [field.name for field in fields(examples[0]) if field.compare]
    return pd.DataFrame([_columns_of(example) for example in examples], columns=names)


def _columns_of(example: Any) -> dict[str, Any]:
    if hasattr(example, "document"):
        example = replace(example, document=None)  # the whole document is too large for a frame
    columns = asdict(example)
    answers = getattr(example, "answers", None)
    if answers is not None:
        places = {"text": [text for text, _ in answers], "answer_start": [at for _, at in answers]}
        columns["answers"] = places
    return columns
