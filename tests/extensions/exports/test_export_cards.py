"""Tests of scores for model cards and records, read back by the consumers' own classes."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from huggingface_hub.repocard_data import model_index_to_eval_results

from benchharness.errors import BenchError
from benchharness.extensions.exports.cards import (
    to_eval_results,
    to_model_index,
)
from benchharness.extensions.exports.lines import score_lines
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.text import visible
from benchharness.tasks.suites import TASKS
from tests.helpers.boards import make_rows, one_board
from tests.helpers.hostile import HOSTILE_CELLS

NOW = datetime(2026, 8, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def board() -> Board:
    return one_board(make_rows("minilm", [0.5, 0.943, 0.6], data="hub"))


def test_exported_model_index_is_valid_for_the_hub_library(board: Board) -> None:
    text = to_model_index([board])
    name, results = model_index_to_eval_results(yaml.safe_load(text)["model-index"])
    assert name == "minilm"
    lines = {
        (line.task.partition("/")[2], line.metric, line.split): line.score
        for line in score_lines([board])
        if "/" in line.task
    }
    assert len(results) == len(lines)
    mm = next(r for r in results if r.dataset_split == "validation_mismatched")
    assert (mm.dataset_type, mm.dataset_config, mm.metric_type) == (
        "nyu-mll/glue",
        "mnli",
        "accuracy",
    )
    assert mm.metric_value == lines["mnli", "accuracy", "dev_mm"] == 0.6
    assert mm.metric_args == {"seeds": 3}
    assert len(mm.dataset_revision or "") == 40
    assert {r.metric_type for r in results} >= {"matthews_correlation", "pearsonr", "f1"}


@pytest.mark.parametrize("name", HOSTILE_CELLS)
def test_model_card_is_valid_with_hostile_names(name: str) -> None:
    text = to_model_index([one_board(make_rows(name, data="hub"))])
    card = ModelCard(f"---\n{text}---\n# A model\n")
    assert card.data.model_name == visible(name)
    assert len(card.data.eval_results or ()) > 9


def test_exported_eval_results_are_valid_for_the_parser_of_the_hub(board: Board) -> None:
    entries = parse_eval_result_entries(yaml.safe_load(to_eval_results([board])))
    # MNLI has a task on the hub per split.
    assert [entry.task_id for entry in entries] == [
        name
        for task in board.rule.cells
        for name in {"glue/mnli": ("mnli", "mnli_mm")}.get(task, (task.partition("/")[2],))
    ]
    assert all(entry.dataset_id == "nyu-mll/glue" for entry in entries)
    rte = next(entry for entry in entries if entry.task_id == "rte")
    assert (rte.value, rte.date) == (60.0, "2026-08-01T12:00:00Z")
    assert "the median of 3 seeds" in rte.notes


def test_model_card_for_synthetic_or_limited_data_is_an_error() -> None:
    for fields in ({"data": "mini"}, {"data": "hub", "limit": 50}):
        cut = one_board(make_rows(**fields))  # type: ignore[arg-type]
        for write in (to_model_index, to_eval_results):
            with pytest.raises(BenchError, match="scores on the complete official data"):
                write([cut])


def test_model_card_for_data_that_are_not_on_the_hub_is_an_error(
    board: Board, monkeypatch: Any
) -> None:
    task = TASKS["glue/rte"]
    files = replace(task, source=replace(task.source, hub="", config=""))
    place = "benchharness.extensions.exports.cards.TASKS"
    monkeypatch.setattr(place, {**TASKS, "glue/rte": files})
    for write in (to_model_index, to_eval_results):
        with pytest.raises(BenchError, match="GLUE is not on the hub"):
            write([board])


def test_model_card_for_several_models_is_an_error(board: Board) -> None:
    two = one_board(make_rows("one", data="hub") + make_rows("two", data="hub"))
    for write in (to_model_index, to_eval_results):
        with pytest.raises(
            BenchError, match=r"leaderboard GLUE, but 2 entries match\. Select one with"
        ):
            write([two])
