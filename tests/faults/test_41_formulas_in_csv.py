"""Tests of fault 41: names that a spreadsheet would evaluate as formulas."""

import csv
import io
import re

import pytest

from benchharness.extensions.exports.lines import score_lines, to_csv
from benchharness.leaderboard.text import inert, visible, without_apostrophe
from tests.helpers.boards import make_rows, one_board

FORMULAS = (
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\uff1d1+1",
    " '=1",
    "'=1",
    "\t=1",
    "\r=1",
    "line\n=1",
    '"quoted", with comma',
    "a name",
)


@pytest.mark.parametrize("name", FORMULAS)
def test_41_no_csv_cell_is_a_formula(name: str) -> None:
    board = one_board(make_rows(name, [0.5], data="hub", recipe=name))
    text = "".join(to_csv(score_lines([board])))
    rows = list(csv.DictReader(io.StringIO(text), strict=True))
    for row in rows:
        for column in ("model", "recipe", "source", "data", "task"):
            assert not re.match(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r]", row[column])
    assert visible(name) in {without_apostrophe(row["model"]) for row in rows}


@pytest.mark.parametrize("text", [*FORMULAS, "", "'", "''", "'a", "''=1", " -", "=", "x=1"])
def test_41_escaping_apostrophe_can_be_removed_again(text: str) -> None:
    assert without_apostrophe(inert(text)) == text


def test_41_negative_numbers_are_not_escaped() -> None:
    text = "".join(to_csv(score_lines([one_board(make_rows(values=[-0.25], data="hub"))])))
    assert {row["score"] for row in csv.DictReader(io.StringIO(text))} == {"-0.25"}
