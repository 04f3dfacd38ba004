"""A model's scores as JSON of Every Eval Ever, the shared schema of evaluation results.

Fields are those of its schema 0.3.0 (github.com/evaleval/every_eval_ever, in the package's
every_eval_ever/schemas/eval.schema.json).
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from leaderboard.boards.board import Board
from leaderboard.boards.entry import Entry
from leaderboard.exports.lines import ScoreLine
from leaderboard.exports.narrow import the_model
from leaderboard.exports.official import METRICS, counted_lines, hub_revision
from leaderboard.job import SCORED_HERE
from tasks.errors import BenchError
from tasks.suites import TASKS

__all__ = ["SCHEMA_VERSION", "to_every_eval_ever"]

SCHEMA_VERSION = "0.3.0"

CORRELATIONS = ("mcc", "pearson", "spearman")
"""Their scale begins at -1."""


def to_every_eval_ever(boards: Iterable[Board], made: datetime, library_version: str) -> str:
    """The record of one model's scores, made at that time by that version of benchharness.

    Raises BenchError where the boards hold several models or boards of one suite.
    """
    listed = list(boards)
    if len({board.suite for board in listed}) < len(listed):
        titles = "; ".join(f"{board.title} on {board.data_label}" for board in listed)
        raise BenchError(f"this format describes one board of a suite: say --data for {titles}.")
    entries = the_model(listed)
    stamp = str(int(made.timestamp()))
    model = _model(entries[0])
    record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{'+'.join(board.suite for board in listed)}/{model['id']}/{stamp}",
        "evaluation_timestamp": max(run.finished for entry in entries for run in entry.runs),
        "retrieved_timestamp": stamp,
        "source_metadata": {
            "source_name": "benchharness",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "benchharness", "version": library_version},
        "model_info": model,
        "evaluation_results": [
            _result(board, line) for board in listed for line in counted_lines(board)
        ],
    }
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def _model(entry: Entry) -> dict[str, Any]:
    ran_here = entry.recipe != SCORED_HERE
    return {
        "name": entry.model,
        "id": entry.model,
        "additional_details": {
            "deployment_type": "self_deployed" if ran_here else "unknown",
            # A checkpoint of a folder may be anybody's, and open or not.
            "model_availability": "unknown",
            "weights": entry.runs[0].weights,
            "recipe": entry.recipe_label,
            "precision": entry.precision,
        },
    }


def _result(board: Board, line: ScoreLine) -> dict[str, Any]:
    return {
        "evaluation_result_id": f"{line.task}/{line.split}/{line.metric}",
        "evaluation_name": line.task,
        "evaluation_timestamp": line.date,
        "source_data": _source(board, line),
        "metric_config": _metric(line),
        "score_details": {
            "score": line.score,
            "details": _details(line),
        },
    }


def _source(board: Board, line: ScoreLine) -> dict[str, Any]:
    """The hub's data set, or for mini and cut data a private one."""
    source = TASKS[line.task].source
    split = source.splits[line.split].hub
    if not board.is_whole:
        details = {"rows": board.data_label, "split": split}
        return {"dataset_name": line.task, "source_type": "other", "additional_details": details}
    revision = hub_revision(TASKS[line.task], board)
    return {
        "dataset_name": line.task,
        "source_type": "hf_dataset",
        "hf_repo": source.hub,
        "hf_split": split,
        "additional_details": {
            "config": source.config,
            **({"revision": revision} if revision else {}),
        },
    }


def _metric(line: ScoreLine) -> dict[str, Any]:
    return {
        "metric_id": METRICS.get(line.metric, line.metric),
        "metric_name": line.metric,
        "metric_kind": METRICS.get(line.metric, line.metric),
        "metric_unit": "proportion",
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": -1.0 if line.metric.startswith(CORRELATIONS) else 0.0,
        "max_score": 1.0,
    }


def _details(line: ScoreLine) -> dict[str, str]:
    """What is known of the seeds; the schema's own uncertainty is one over examples."""
    details = {"what": "the median over seeds", "seeds": str(line.seeds), "mean": repr(line.mean)}
    if line.spread is not None:
        details["standard_deviation_over_seeds"] = repr(line.spread)
    return details
