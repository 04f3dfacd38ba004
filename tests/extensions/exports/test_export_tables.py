"""Tests of exported score tables, each read back by a third-party parser of its format."""

import csv
import io
import json
import re
from html import unescape

import pytest
from markdown_it import MarkdownIt

from benchharness.errors import BenchError
from benchharness.extensions.exports.lines import (
    COLUMNS,
    narrowed,
    score_lines,
    the_model,
    to_csv,
    to_json,
)
from benchharness.extensions.exports.table import to_markdown
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.text import visible
from tests.helpers.boards import make_row, make_rows, one_board
from tests.helpers.hostile import HOSTILE_CELLS


@pytest.fixture(scope="module")
def board() -> Board:
    rows = make_rows("first", [0.7, 0.8, 0.9], data="hub")
    rows += make_rows("second", [0.6], data="hub")
    rows += make_rows("majority", [0.95], data="hub", kind="baseline", weights="baseline:majority")
    scores = {"accuracy": 0.99, "accuracy_test": 0.4}
    return one_board([*rows, make_row("third", "glue/rte", scores=scores, data="hub")])


def _hostile_board(name: str) -> Board:
    return one_board(make_rows(name, [0.5], data="hub") + make_rows("plain", [0.4], data="hub"))


def test_exported_score_lines_are_complete_and_unrounded(board: Board) -> None:
    lines = {
        (line.model, line.task, line.metric, line.split): line for line in score_lines([board])
    }
    average = lines["first", "glue", board.rule.name, "dev"]
    assert (average.score, average.seeds, average.rank) == (pytest.approx(0.8), 3, 1)
    assert average.spread == pytest.approx(0.1)
    mm = lines["first", "glue/mnli", "accuracy", "dev_mm"]
    assert (mm.score, mm.low, mm.high) == (0.8, 0.7, 0.9)
    assert lines["second", "glue/rte", "accuracy", "dev"].spread is None
    assert lines["third", "glue/rte", "accuracy", "test"].score == 0.4
    floor = lines["majority", "glue/rte", "accuracy", "dev"]
    assert (floor.kind, floor.rank) == ("baseline", None)
    assert ("third", "glue", board.rule.name, "dev") not in lines


def test_exported_csv_scores_are_read_back_equal(board: Board) -> None:
    lines = list(score_lines([board]))
    rows = list(csv.DictReader(io.StringIO("".join(to_csv(lines))), strict=True))
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines, strict=True):
        assert (*row,) == COLUMNS
        assert float(row["score"]) == line.score
        assert row["spread"] == ("" if line.spread is None else repr(line.spread))
        assert (row["model"], row["task"]) == (line.model, line.task)


@pytest.mark.parametrize("name", HOSTILE_CELLS)
def test_exported_json_with_hostile_names_is_read_back_equal(name: str) -> None:
    lines = list(score_lines([_hostile_board(name)]))
    text = to_json(lines)
    assert text.isascii()
    seldom = {"selection": "", "truncated": None, "parity": ""}
    assert [row | seldom for row in json.loads(text)] == [vars(line) for line in lines]


def _markdown_rows(text: str) -> list[list[str]]:
    """Return the cells of the tables as GitHub renders their Markdown to HTML."""
    html = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]


def test_markdown_table_has_the_leaderboard_scores_with_the_best_in_bold(board: Board) -> None:
    head, *rows = _markdown_rows(to_markdown([board]))
    by_model = {row[1]: dict(zip(head, row, strict=True)) for row in rows}
    assert head[:5] == ["#", "model", "recipe", "score", "CoLA"]
    assert by_model["first"]["score"] == "<strong>80.0</strong> ± 10.0"
    assert by_model["first"]["#"] == "1"
    assert by_model["third"]["RTE"] == "<strong>99.0</strong>"
    assert by_model["third"]["score"] == by_model["third"]["CoLA"] == "–"
    # A baseline has no rank, even if it is better than every model.
    assert (by_model["majority"]["#"], by_model["majority"]["CoLA"]) == ("–", "95.0")


@pytest.mark.parametrize("name", HOSTILE_CELLS)
def test_markdown_table_shows_hostile_names_unchanged(name: str) -> None:
    head, first, second = _markdown_rows(to_markdown([_hostile_board(name)]))
    assert len(first) == len(second) == len(head)
    assert unescape(first[1]).strip() == visible(name).strip()
    assert "<" not in first[1]


def test_exported_leaderboards_can_be_filtered_by_model_and_task(board: Board) -> None:
    (part,) = narrowed([board], ["second", "first"], ["glue/rte", "glue/mnli"])
    assert [entry.model for entry in part.entries] == ["first", "second"]
    assert set(part.tasks) == {"glue/rte", "glue/mnli"}
    assert {line.task for line in score_lines([part])} == {"glue/rte", "glue/mnli"}
    assert "score" not in _markdown_rows(to_markdown([part]))[0]
    (third,) = narrowed([board], ["third:paper:fp32"], [])
    assert the_model([third])[0].model == "third"
    with pytest.raises(BenchError, match="no stored results of nobody, only of first"):
        narrowed([board], ["nobody"], [])
    with pytest.raises(BenchError, match="no stored results of nobody, only of first"):
        narrowed([board], ["first", "nobody"], [])
    with pytest.raises(BenchError, match="Select one with --model: first, second"):
        the_model([board])
    with pytest.raises(BenchError, match="Select one with --model"):
        the_model([third, *narrowed([board], ["first"], [])])
