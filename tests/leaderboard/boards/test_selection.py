"""Selection of leaderboard entries by name or by the prefix of a run key."""

import pytest

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import boards_with, select_entry, select_entry_or_run
from tests.helpers.boards import make_row, make_rows, one_board


def board():
    rows = [make_row("minilm", seed=seed, scores=0.5 + seed / 10) for seed in range(2)]
    keys = ("abcdef01" + "0" * 56, "abcdef02" + "0" * 56)
    named = [make_row("bert", seed=seed, key=key, scores=0.6) for seed, key in enumerate(keys)]
    return one_board([*rows, *named])


def test_name_selects_an_entry_and_run_key_prefix_a_single_run() -> None:
    found = board()
    assert select_entry_or_run(found, "minilm") == select_entry(found, "minilm")
    run = select_entry_or_run(found, "ABCDEF02")
    assert run is not None
    assert (run.model, run.cells["glue/rte"].values) == ("bert (run abcdef020000)", (0.6,))
    assert [row.seed for row in run.runs] == [1]


def test_run_key_prefix_must_be_unambiguous_and_long_enough() -> None:
    with pytest.raises(BenchError, match=r"keys that begin with .*: use abcdef01"):
        select_entry_or_run(board(), "abcdef")
    assert select_entry_or_run(board(), "abcde") is None
    assert select_entry_or_run(board(), "0123456789") is None


def test_run_key_prefix_selects_a_system_only_if_enabled() -> None:
    boards = [board()]
    ((_, entries),) = boards_with(boards, ("abcdef01", "minilm"), select_entry_or_run)
    assert [entry.model for entry in entries] == ["bert (run abcdef010000)", "minilm"]
    with pytest.raises(BenchError, match=r"no leaderboard has results of abcdef01\. There are"):
        boards_with(boards, ("abcdef01", "minilm"))


def test_error_blames_different_data_only_if_both_rows_exist() -> None:
    other = one_board(make_rows("minilm", [0.5], data="mini"))
    bert = one_board(make_rows("bert", [0.5]))
    with pytest.raises(BenchError, match="results of bert and minilm on the same data"):
        boards_with([bert, other], ("bert", "minilm"))
    with pytest.raises(BenchError, match=r"results of minilm:xyz\. There are results of minilm\."):
        boards_with([bert, other], ("minilm:paper", "minilm:xyz"))
    with pytest.raises(BenchError, match=r"results of bert:abc or minilm:xyz\. "):
        boards_with([bert, other], ("bert:abc", "minilm:xyz"))
