"""Scores of selected checkpoints are labelled on the leaderboard, in the report and in exports."""

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console

from benchharness.extensions.exports.cards import (
    to_eval_results,
    to_model_index,
)
from benchharness.extensions.exports.latex import to_latex
from benchharness.extensions.exports.lines import COLUMNS, score_lines, to_csv, to_json
from benchharness.extensions.exports.table import to_markdown
from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.boards.terminal import render
from benchharness.leaderboard.report.run import build_run
from benchharness.leaderboard.report.table import build_table
from benchharness.leaderboard.result import Result, RunRow, Selection, selection_labels
from benchharness.leaderboard.store.store import open_store
from benchharness.loggers import curve_of
from tests.helpers.boards import GLUE, make_job, make_row, make_rows, one_board
from tests.helpers.results import make_result

BEST = Selection(evaluations=10, step=120, is_best=True)
SENTENCE = "best of 10 evaluations on dev"


def rows_with(
    selection: Selection | None, values: Sequence[float] = (0.5, 0.6), model: str = "minilm"
) -> list[RunRow]:
    return make_rows(model, values, selection=selection, data="hub")


@pytest.fixture
def board() -> Board:
    return one_board([*rows_with(BEST), *rows_with(None, model="plain")])


@pytest.mark.parametrize(
    ("selections", "labels"),
    [
        ([BEST], (SENTENCE,)),
        ([BEST, replace(BEST, evaluations=3), BEST], ("best of 3 to 10 evaluations on dev",)),
        ([replace(BEST, held_out=0.1)], ("best of 10 evaluations on 10 % of train",)),
        ([replace(BEST, is_best=False)], ("stopped after 10 evaluations on dev",)),
        ([], ()),
    ],
)
def test_checkpoint_selection_label_states_evaluation_count_and_split(
    selections: list[Selection], labels: tuple[str, ...]
):
    assert selection_labels(selections) == labels


def test_score_of_a_selected_checkpoint_states_the_number_of_evaluations(board: Board):
    chosen, plain = (next(e for e in board.entries if e.model == m) for m in ("minilm", "plain"))
    assert {cell.selection for cell in chosen.cells.values()} == {SENTENCE}
    assert {cell.selection for cell in plain.cells.values()} == {""}
    assert (chosen.selection_labels, plain.selection_labels) == ((SENTENCE,), ())


def test_selection_label_shows_a_range_if_evaluation_counts_differ():
    rows = [
        make_row(seed=seed, selection=replace(BEST, evaluations=made))
        for seed, made in enumerate((4, 2, 7))
    ]
    (entry,) = one_board(rows).entries
    assert entry.cells["glue/rte"].selection == "best of 2 to 7 evaluations on dev"


def test_selection_label_names_the_task_if_only_some_tasks_select_checkpoints():
    rows = [make_row(task="glue/rte", selection=BEST), make_row(task="glue/cola")]
    (entry,) = one_board(rows).entries
    assert entry.selection_labels == (f"RTE: {SENTENCE}",)


def test_diagnostic_set_does_not_get_the_checkpoint_selection_label_of_mnli():
    run = make_row(task="glue/mnli", selection=BEST)
    run = replace(run, scores={**run.scores, "glue/ax": {"mcc": 0.2}})
    (entry,) = one_board([run]).entries
    assert (entry.cells["glue/mnli"].selection, entry.cells["glue/ax"].selection) == (SENTENCE, "")
    assert entry.selection_labels == (SENTENCE,)


def test_terminal_shows_checkpoint_selection_once_below_the_model(board: Board):
    file = io.StringIO()
    render(board, Console(file=file, width=200))
    assert file.getvalue().count(SENTENCE) == 1
    assert "!" not in file.getvalue()


def test_report_shows_checkpoint_selection_per_entry_and_score(board: Board):
    rows = {row.name: row for group in build_table(board, 1).groups for row in group.rows}
    assert rows["minilm"].details.endswith(SENTENCE)
    notes = [cell.note for cell in rows["minilm"].cells if cell.order]
    assert len(notes) == len(board.tasks)
    assert all(SENTENCE in note for note in notes)
    assert SENTENCE not in rows["plain"].details
    assert not any("evaluations" in cell.note for cell in rows["plain"].cells)


def test_every_export_format_has_the_checkpoint_selection(board: Board):
    lines = list(score_lines([board]))
    rows = list(csv.DictReader(io.StringIO("".join(to_csv(lines))), strict=True))
    # Columns that are empty in every line of this test.
    shown = [name for name in COLUMNS if name not in ("truncated", "parity")]
    assert tuple(rows[0]) == COLUMNS
    assert {row["selection"] for row in rows if row["model"] == "minilm"} == {SENTENCE}
    assert {row["selection"] for row in rows if row["model"] == "plain"} == {""}
    assert json.loads(to_json(lines)) == [{n: getattr(x, n) for n in shown} for x in lines]
    for text in (to_markdown([board]), to_latex([board])):
        assert text.count(SENTENCE) == 1


def test_model_card_has_the_checkpoint_selection_at_each_score():
    board = one_board(rows_with(BEST))
    assert f"(median of 2 seeds, {SENTENCE})" in to_model_index([board])
    assert SENTENCE in to_eval_results([board]).replace("\n", " ").replace("  ", " ")


def test_exported_selection_is_empty_for_runs_without_checkpoint_selection():
    lines = list(score_lines([one_board(rows_with(None))]))
    assert {row["selection"] for row in csv.DictReader(to_csv(lines), strict=True)} == {""}
    assert not any("selection" in line for line in json.loads(to_json(lines)))


# Stored runs.


def chosen(**fields: object) -> Result:
    result = make_result(make_job())
    return replace(result, provenance={**result.provenance, "selection": fields})


def test_checkpoint_selection_of_a_run_is_stored_and_passes_the_integrity_check(tmp_path: Path):
    with open_store(tmp_path / "s.sqlite") as store:
        store.add_result(chosen(**asdict(BEST)))
        store.add_result(make_result(make_job(seed=1)))
        first, second = sorted(store.runs(), key=lambda row: row.seed)
        assert (first.selection, second.selection) == (BEST, None)
        assert list(store.faults()) == []
        assert build_boards([first], GLUE)[0].entries[0].selection_labels == (SENTENCE,)


@pytest.mark.parametrize(
    "fields",
    [{}, {"evaluations": "<b>"}, {**asdict(BEST), "held_out": "x"}, {**asdict(BEST), "step": None}],
)
def test_malformed_checkpoint_selection_record_is_not_shown(
    fields: dict[str, object], tmp_path: Path
):
    with open_store(tmp_path / "s.sqlite") as store:
        store.add_result(chosen(**fields))
        assert [row.selection for row in store.runs()] == [None]
    assert "evaluations on" not in build_run(chosen(**fields)).summary


def test_learning_curve_on_held_out_training_rows_is_titled_held_out():
    settings = {"learning_rate": 2e-5, "select_on": "train:0.1"}
    held, plain = (
        # A curve of one point is not drawn.
        replace(run, curve=(*run.curve, replace(run.curve[-1], step=30)))
        for run in (make_result(make_job(settings=settings)), make_result(make_job()))
    )
    titles = [re.findall("<b>(.*?)</b>", build_run(run).charts) for run in (held, plain)]
    assert titles[0] == ["training loss", "held-out score"]
    assert titles[1] == ["training loss", "dev score"]
    logged = [{name for _, values in curve_of(run) for name in values} for run in (held, plain)]
    assert {name.partition("/")[0] for name in logged[0]} == {"train", "held-out"}
    assert {name.partition("/")[0] for name in logged[1]} == {"train", "dev"}


def test_run_section_of_the_report_shows_the_checkpoint_selection():
    assert SENTENCE in build_run(chosen(**asdict(BEST))).summary
