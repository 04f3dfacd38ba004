"""Imported scores are read, stored and shown, but never ranked."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchharness.errors import DataError
from benchharness.extensions.exports.lines import score_lines, to_csv, to_json
from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.boards.imported import (
    ImportedScore,
    imported_blocks,
    read_rows,
    to_result,
)
from benchharness.leaderboard.boards.terminal import render, render_published
from benchharness.leaderboard.report.write import render_report
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store
from tests.helpers.boards import GLUE, make_job, make_rows, one_board, row_of
from tests.helpers.hostile import HOSTILE_CELLS
from tests.helpers.results import make_result

ROW: dict[str, Any] = {
    "model": "theirs",
    "task": "glue/rte",
    "metric": "accuracy",
    "split": "dev",
    "score": 0.943,
    "source": "their blog",
}


def _json(path: Path, *rows: object) -> Path:
    path = path / "rows.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def _bring(store: Store, *rows: dict[str, Any]) -> int:
    scores = [ImportedScore(**{**ROW, **row}) for row in rows]
    return store.add_results(map(to_result, scores))


def test_imported_score_is_valid_with_the_six_required_fields(tmp_path: Path) -> None:
    assert list(read_rows(_json(tmp_path, ROW))) == [ImportedScore(**ROW)]
    path = tmp_path / "rows.csv"
    path.write_text("\ufeffsource,score,split,metric,task,model\nx,1,dev,accuracy,glue/rte,m\n")
    (score,) = read_rows(path)
    assert (score.model, score.score, score.source) == ("m", 1.0, "x")


@pytest.mark.parametrize("name", ["minilm", *HOSTILE_CELLS])
def test_exported_scores_can_be_imported(tmp_path: Path, name: str) -> None:
    board = one_board(
        make_rows(name, [0.5, 0.7], data="hub")
        + make_rows("both", [0.6], data="hub", kind="ensemble", weights="ensemble:x")
    )
    lines = list(score_lines([board]))
    (tmp_path / "a.json").write_text(to_json(lines), encoding="utf-8")
    (tmp_path / "a.csv").write_text("".join(to_csv(lines)), encoding="utf-8")
    from_json, from_csv = (list(read_rows(tmp_path / name)) for name in ("a.json", "a.csv"))
    assert [score.score for score in from_json] == [line.score for line in lines]
    assert [score.model for score in from_json] == [line.model for line in lines]
    assert [vars(score) | {"model": ""} for score in from_csv] == [
        vars(score) | {"model": ""} for score in from_json
    ]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": " "}, "model must be a non-empty text, but is ' '"),
    "no source": ({"source": None}, "source must be a non-empty text"),
    "unknown task": ({"task": "glue/nope"}, "there is no task called 'glue/nope'"),
    "unknown metric": ({"metric": "mcc"}, "glue/rte has no metric 'mcc': it has accuracy"),
    "train split": ({"split": "train"}, "glue/rte has no split 'train': it has dev, test"),
    "a list": ({"task": ["glue/rte"]}, "task must be a non-empty text"),
    "percent": (
        {"score": 94.3},
        "score must be a fraction such as 0.943 and not a percentage, but is 94.3",
    ),
    "nan": ({"score": "nan"}, "score must be a number, but is 'nan'"),
    "true": ({"score": True}, "score must be a number, but is True"),
    "words": ({"score": "high"}, "score must be a number, but is 'high'"),
    "a limit": ({"limit": -3}, "limit must be a number of rows or empty"),
    "a rule": ({"task": "glue", "metric": "mean"}, "glue has no metric 'mean'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_imported_row_is_an_error_that_names_row_and_cause(
    tmp_path: Path, wrong: str
) -> None:
    fields, sentence = WRONG[wrong]
    with pytest.raises(DataError, match=rf"row 2 of .*: {re.escape(sentence)}") as raised:
        list(read_rows(_json(tmp_path, ROW, {**ROW, **fields})))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.json", b"{", "is not valid JSON"),
        ("a.json", b"{}", "must be a JSON list"),
        ("a.json", b"[1]", "must be a JSON list"),
        ("a.json", b"[" * 10**5, "is not valid JSON"),
        ("a.csv", b"", "has no column 'model'"),
        ("a.csv", b"model,task\n", "has no column 'metric'"),
        ("a.csv", b"model,task,metric,split,score,source\na,b\n", "a different number of cells"),
        (
            "a.csv",
            b'model,task,metric,split,score,source\n"a"b,c\n',
            "is not valid CSV after line 1",
        ),
        ("a.csv", b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_invalid_or_missing_import_file_is_a_one_line_error(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        list(read_rows(tmp_path / name))
    with pytest.raises(DataError, match="cannot be read"):
        list(read_rows(tmp_path / "missing.csv"))


def test_duplicate_imported_rows_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows 1 and 2 of .* describe the same score"):
        list(read_rows(_json(tmp_path, ROW, {**ROW, "score": 0.5})))


def test_reimported_score_replaces_the_stored_one(store: Store) -> None:
    assert _bring(store, {}, {"split": "test"}, {"source": "another"}) == 3
    assert _bring(store, {}, {"split": "test"}) == 0
    assert _bring(store, {"score": 0.5}) == 1
    found = {(row.weights, name): value for row in store.runs() for name, value in _scores(row)}
    assert found == {
        ("imported:their blog", "accuracy"): 0.5,
        ("imported:their blog", "accuracy_test"): 0.943,
        ("imported:another", "accuracy"): 0.943,
    }
    assert {row.kind for row in store.runs()} == {"imported"}
    (first, *_) = store.runs()
    assert isinstance(store.result(first.key), Result)


def _scores(row: Any) -> list[tuple[str, float]]:
    return list(row.scores[row.task].items())


@pytest.fixture
def board(store: Store) -> Board:
    """Board of two measured models and an imported one that would be the best of all."""
    for model, value in (("one", 0.5), ("two", 0.6)):
        for row in make_rows(model, [value], data="hub"):
            job = make_job(model=model, task=row.task, seed=0, data="hub")
            store.add_result(make_result(job))
    perfect = [
        {"task": task, "metric": name.removesuffix("_mm"), "split": split, "score": 1.0}
        for task, names in GLUE.rule.cells.items()
        for name in names
        for split in ["dev_mm" if name.endswith("_mm") else "dev"]
    ]
    _bring(store, *perfect, {"task": "glue", "metric": "GLUE-9", "score": 1.0})
    _bring(store, {"split": "test", "score": 0.875, "model": "on test"})
    (board,) = build_boards(store.runs(), GLUE)
    return board


def test_imported_scores_are_listed_per_split_without_a_rank(board: Board) -> None:
    assert {entry.model for entry in board.entries} == {"one", "two"}
    assert all("theirs" not in run.model for entry in board.entries for run in entry.runs)
    dev, test = imported_blocks(board)
    assert [row.system for row in dev.rows] == ["theirs"]
    assert [row.system for row in test.rows] == ["on test"]
    (row,) = dev.rows
    assert [cell.scores for cell in row.of("glue/mnli")] == [("accuracy",), ("accuracy_mm",)]
    assert [cell.printed for cell in row.of(dev.suite)] == ["100"]
    assert [cell.printed for cell in test.rows[0].of(test.tasks[0])] == ["87.5"]


def test_imported_scores_are_never_the_best_of_a_column(board: Board) -> None:
    assert "100.0" not in {board.best(task) for task in board.tasks}


def test_terminal_and_report_label_imported_scores(board: Board) -> None:
    file = io.StringIO()
    render(board, Console(file=file, width=200))
    assert "theirs" not in file.getvalue()
    for block in imported_blocks(board):
        render_published(block, Console(file=file, width=200))
    assert "GLUE, imported (dev)" in file.getvalue()
    assert "imported scores in percent" in file.getvalue()
    html = render_report([board], [], "2026-08-01")
    table, _, rest = html.partition('id="board-1-imported-dev"')
    assert "theirs" not in table.partition("<tbody>")[2]
    assert "theirs" in rest
    assert "their blog" in rest
    assert "benchharness has neither their runs nor their data" in rest


@pytest.mark.parametrize("fields", [{"data": "mini"}, {"limit": 50}, {}])
def test_leaderboard_can_consist_of_imported_scores_only(
    store: Store, fields: dict[str, Any]
) -> None:
    _bring(store, fields)
    (board,) = build_boards(store.runs(), GLUE)
    assert board.entries == ()
    assert board.is_whole == (not fields)
    assert len(imported_blocks(board)) == 1
    file = io.StringIO()
    render(board, Console(file=file))
    assert "no results on this leaderboard" in file.getvalue()
    assert "theirs" in render_report([board], [], "2026-08-01")


def test_imported_scores_are_shown_only_with_runs_on_equal_data_and_limit(store: Store) -> None:
    _bring(store, {"data": "mini"}, {"limit": 50})
    imported = store.runs()
    measured = [row_of(make_result(make_job(task="glue/rte", data="hub")))]
    boards = build_boards([*measured, *imported], GLUE)
    assert len(boards) == 3
    assert [len(board.imported) for board in boards if board.entries] == [0]


def test_hostile_names_and_sources_of_imported_scores_are_escaped(store: Store) -> None:
    fields = ("model", "source", "recipe", "date")
    assert _bring(store, *(dict.fromkeys(fields, name) for name in HOSTILE_CELLS)) == len(
        HOSTILE_CELLS
    )
    (board,) = build_boards(store.runs(), GLUE)
    html = render_report([board], [], "2026-08-01")
    assert "<script>alert" not in html
    assert "\u202e" not in html
    (block,) = imported_blocks(board)
    assert len(block.rows) == len(HOSTILE_CELLS)
    file = io.StringIO()
    render_published(block, Console(file=file, width=300))
    assert "\u202e" not in file.getvalue()
    assert "\0" not in file.getvalue()


def test_warnings_about_scores_are_kept_by_an_export_and_import(
    tmp_path: Path, store: Store
) -> None:
    flags = {"glue/rte": ("constant predictions",)}
    board = one_board(make_rows("stuck", data="hub", flags=flags))
    path = tmp_path / "rows.csv"
    lines = (line for line in score_lines([board]) if line.task == "glue/rte")
    path.write_text("".join(to_csv(lines)))
    store.add_results(map(to_result, read_rows(path)))
    (found,) = build_boards(store.runs(), GLUE)
    (block,) = imported_blocks(found)
    said = "RTE: 1 of 1 seed collapsed (constant predictions)"
    assert said in block.rows[0].said_protocol
    console = Console(file=io.StringIO(), width=100)
    render_published(block, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert said in " ".join(shown.split())


def test_imported_metrics_are_in_the_order_of_the_task(store: Store) -> None:
    pearson, spearman = (
        {"task": "glue/stsb", "metric": metric, "split": "dev", "score": score}
        for metric, score in (("pearson", 0.91), ("spearman", 0.89))
    )
    for model, both in (("one", (pearson, spearman)), ("two", (spearman, pearson))):
        for each in both:
            _bring(store, {**each, "model": model})
    (board,) = build_boards(store.runs(), GLUE)
    (block,) = imported_blocks(board)
    for row in block.rows:
        assert [cell.scores for cell in row.of("glue/stsb")] == [("pearson",), ("spearman",)]
