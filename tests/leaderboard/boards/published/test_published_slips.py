"""A slip of another site's board, as a test named after it."""

import pytest

from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.boards.published import published, published_blocks
from benchharness.tasks.suites import SUITES
from tests.helpers.boards import make_row

SCORES = {"em": 0.890, "f1": 0.915}


@pytest.fixture
def board() -> Board:
    rows = [make_row(task="squad/v2.0", data="hub", scores=SCORES)]
    (board,) = build_boards(rows, SUITES["squad"])
    return board


def test_codesota_squad_2_hidden_test_and_dev_rows_are_in_no_one_ranking(board: Board) -> None:
    """It ranks rows of the hidden test set, of dev and of few-shot models in one list."""
    blocks = published_blocks(board)
    assert [block.split for block in blocks] == ["dev", "test"]
    assert all(row.split == block.split for block in blocks for row in block.rows)
    assert all(block.rows for block in blocks)
    assert [entry.model for entry in board.entries] == ["minilm"], "published rows have no rank"


def test_codesota_squad_2_numbers_are_their_sources() -> None:
    """It prints 88.4 and 91.4 for DeBERTa-v3-large, whose card has 89.0 and 91.5, of dev."""
    (row,) = (
        row
        for row in published("squad")
        if row.system == "DeBERTa-v3-large" and row.of("squad/v2.0") and row.split == "dev"
    )
    cells = {cell.scores: cell.printed for cell in row.of("squad/v2.0")}
    assert cells == {("em",): "89.0", ("f1",): "91.5"}
    assert row.source.startswith("microsoft/DeBERTa")
