from dataclasses import replace

from benchharness.leaderboard.boards.board import Board, best_of, top_of
from tests.helpers.boards import make_row, make_rows, one_board


def _board(models: int = 12) -> Board:
    """Make a board of ranked GLUE models, and of two models that lead one task each."""
    rows = [
        row
        for number in range(models)
        for row in make_rows(f"model {number:02}", values=(0.9 - number / 100,))
    ]
    rows += [make_row("odd", "glue/rte", 0, 0.99), make_row("odder", "glue/cola", 0, 0.98)]
    return one_board(rows)


def test_leaderboard_within_the_entry_limit_is_unchanged() -> None:
    board = _board(3)
    assert top_of(board, 5) is board
    assert top_of(_board(3), 0).entries == board.entries


def test_shortened_leaderboard_keeps_the_best_entry_of_each_column() -> None:
    board = _board()
    found = top_of(board, 2)
    assert found.entries[:2] == board.entries[:2]
    assert len(found.entries) < len(board.entries)
    assert {"odd", "odder"} <= {entry.model for entry in found.entries}
    assert found.entries[0].rank == 1
    for task in board.tasks:
        assert found.best(task) == board.best(task)


def test_shortened_leaderboard_keeps_the_best_trained_model() -> None:
    board = _board()
    odd = next(entry for entry in board.entries if entry.model == "odd")
    scored = replace(
        odd.runs[0],
        key=f"{odd.runs[0].key[:-1]}x",
        kind="scored",
        model="theirs",
        weights="theirs",
        scores={"glue/rte": {"accuracy": 0.995}},
    )
    board = one_board([*(run for entry in board.entries for run in entry.runs), scored])
    assert top_of(board, 2).best("glue/rte") == board.best("glue/rte") == "99.0"


def test_shortened_leaderboard_keeps_the_entries_of_requested_runs() -> None:
    board = _board()
    last = next(entry for entry in board.entries if entry.model == "model 11")
    assert last not in top_of(board, 2).entries
    assert last in top_of(board, 2, keep={last.runs[0].key}).entries


def test_leaderboard_is_reduced_to_fewer_entries_if_it_exceeds_the_run_limit() -> None:
    board = _board()
    runs = sum(len(entry.runs) for entry in board.entries)
    assert best_of([board], runs)[0] is board
    (found,) = best_of([board], runs // 4)
    assert 0 < sum(len(entry.runs) for entry in found.entries) < runs
