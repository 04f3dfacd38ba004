"""Baselines, ensembles, scored prediction files and collapsed runs in the report."""

from dataclasses import replace

from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.boards.entry import Intervals, Uncertainty
from benchharness.leaderboard.job import Setting, Trust
from benchharness.leaderboard.report.addition import Background
from benchharness.leaderboard.report.run import build_run, command_of
from benchharness.leaderboard.report.table import build_table
from benchharness.leaderboard.report.write import render_report
from benchharness.leaderboard.result import CurvePoint
from benchharness.models import MODELS
from benchharness.stored.report import known_sizes
from tests.helpers.boards import GLUE, make_job, make_row, make_rows, one_board
from tests.helpers.results import make_result

FLOOR = {"kind": "baseline", "weights": "baseline:majority@1", "recipe": "baseline"}
ENSEMBLE = {"kind": "ensemble", "weights": "ensemble:minilm x3", "recipe": "ensemble"}
SCORED = {"weights": "predictions", "recipe": "scored here", "kind": "scored"}


def test_baselines_ensembles_and_external_scores_are_unranked_in_the_report() -> None:
    rows = [
        *make_rows("majority", [0.99], **FLOOR),
        *make_rows("minilm x3", [0.95], **ENSEMBLE),
        *make_rows("theirs", [0.97], **SCORED),
        *make_rows("minilm", [0.7, 0.8, 0.9]),
        *make_rows("tiny", [0.4]),
    ]
    table = build_table(one_board(rows), 1)
    rows_of = {group.kind: group.rows for group in table.groups}
    assert {kind: [(row.rank, row.name) for row in rows_of[kind]] for kind in rows_of} == {
        "measured": [("1", "minilm"), ("2", "tiny")],
        "scored": [("", "theirs")],
        "ensemble": [("", "minilm x3")],
        "baseline": [("", "majority")],
    }
    assert list(rows_of) == ["measured", "scored", "ensemble", "baseline"]
    assert [rows_of[kind][0].details for kind in ("ensemble", "baseline")] == [
        "ensemble",
        "baseline",
    ]
    listed = [row for group in table.groups for row in group.rows]
    assert [all(cell.best for cell in row.cells) for row in listed] == [True, *[False] * 4]
    assert table.seeds == "1 to 3 seeds"
    html = render_report(build_boards(rows, GLUE), [], "today")
    assert '<tbody id="board-1-baseline" class="baseline"' in html
    assert '<tbody id="board-1-ensemble" class="ensemble"' in html
    assert "averaged from stored predictions; unranked" in html


def test_note_of_the_suite_score_has_mean_and_range_over_seeds() -> None:
    (group,) = build_table(one_board(make_rows(values=[0.5, 0.61, 0.9])), 1).groups
    (row,) = group.rows
    assert row.score.text == "61.0"
    assert row.score.note == "over 3 seeds: mean 67.0, from 50.0 to 90.0"


def test_only_models_whose_weights_are_from_the_hub_link_to_a_model_card_and_paper() -> None:
    rows = make_rows("roberta-base", [0.9], weights="hub:FacebookAI/roberta-base@e2da8e2")
    rows += make_rows("minilm", [0.8], weights="sha256:" + "ab" * 32)
    rows += make_rows("x", [0.7], weights='hub:we/a b"c?#@1')
    board = one_board(rows)
    (group,) = build_table(board, 1, known_sizes()).groups
    assert [(row.card, row.cite) for row in group.rows] == [
        ("https://huggingface.co/FacebookAI/roberta-base", MODELS["roberta-base"].cite),
        ("", ""),
        ("https://huggingface.co/we/a%20b%22c%3F%23", ""),
    ]
    html = render_report([board], [], "today", Background(sizes=known_sizes()))
    assert 'href="https://huggingface.co/FacebookAI/roberta-base"' in html
    assert (
        html.count('href="https://arxiv.org/abs/1907.11692" rel="noopener noreferrer" title') == 1
    )


def test_rank_range_is_shown_only_if_it_covers_several_ranks() -> None:
    board = one_board(make_rows("a", [0.9]) + make_rows("b", [0.8]) + make_rows("c", [0.7]))
    unsure = Uncertainty(cells={t: Intervals() for t in board.tasks}, score=Intervals())
    ranks = [(1, 3), (2, 2), None]
    entries = [
        replace(entry, uncertainty=replace(unsure, ranks=each))
        for entry, each in zip(board.entries, ranks, strict=True)
    ]
    (group,) = build_table(replace(board, entries=tuple(entries)), 1).groups
    assert [row.ranks for row in group.rows] == ["1 to 3", "", ""]


def test_collapsed_models_are_never_the_best_of_a_column() -> None:
    rows = [
        make_row(model, task, scores=score, flags={task: ("constant predictions",)})
        for task in GLUE.rule.cells
        for model, score in (("a", 0.9), ("b", 0.8), ("c", 0.7))
    ]
    table = build_table(one_board(rows), 1)
    (group,) = table.groups
    cells = [cell for row in group.rows for cell in (row.score, *row.cells)]
    assert not any(cell.best or cell.heat for cell in cells)
    assert not table.has_best
    assert not table.has_heat


def test_score_note_counts_collapsed_runs() -> None:
    flags = {"glue/rte": ("constant predictions",)}
    rows = [make_row(seed=seed, flags=flags if seed < 2 else {}) for seed in range(5)]
    table = build_table(one_board(rows), 1)
    (cell,) = (cell for cell in table.groups[0].rows[0].cells if cell.text != "–")
    assert cell.flags == "2 of 5 seeds collapsed (constant predictions)"
    assert cell.note.endswith("2 of 5 seeds collapsed (constant predictions)")


def test_learning_curve_of_a_collapsed_run_is_flagged() -> None:
    curve = tuple(
        CurvePoint(step=step, epoch=1.0, loss=0.69, learning_rate=1e-5, scores={})
        for step in range(1, 9)
    )
    section = build_run(make_result(make_job(), curve=curve))
    assert section.curve_flags == ("the training loss never fell",)
    html = render_report((), [make_result(make_job(), curve=curve)], "today")
    assert "! the training loss never fell" in html


def test_report_shows_the_command_that_repeats_a_baseline_ensemble_or_trusted_checkpoint() -> None:
    job = replace(make_job(model="majority", limit=None), **FLOOR)
    assert command_of(job) == (
        "bench run --model majority --suite glue --task rte --data mini --no-baselines"
    )
    members = {
        f"member_{n}": Setting(value="f" * 64, source=source)
        for n, source in enumerate(("minilm:paper:fp32", "minilm:paper:fp32", "bert:paper:fp32"))
    }
    both = replace(make_job(model="both"), settings=members, **ENSEMBLE)
    assert command_of(both) == (
        "bench ensemble minilm:paper:fp32 bert:paper:fp32 --suite glue --task rte "
        "--data mini --name both"
    )
    trusted = replace(make_job(), trust=Trust(remote_code=True, pickle=True))
    assert command_of(trusted).endswith(" --trust-remote-code --allow-pickle")
