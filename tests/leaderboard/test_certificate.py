"""Parity statement of runs, in reports and exports."""

from dataclasses import replace
from typing import Any

import pytest

from benchharness.extensions.exports.cards import (
    to_eval_results,
    to_model_index,
)
from benchharness.extensions.exports.lines import score_lines, to_csv
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.reproduction import certificate, made_by, parity_of
from benchharness.leaderboard.job import METHOD, Stage
from benchharness.leaderboard.report.write import render_report
from benchharness.leaderboard.result import Result
from benchharness.version import release_of
from tests.helpers.boards import make_rows, one_board
from tests.helpers.results import make_failure, make_job, make_result

VALUES = {"learning_rate": 2e-5, "epochs": 3}


def trained(family: str = "bert", device: str = "cpu", **fields: Any) -> Result:
    """Make a run of this code on a CPU, as a worker leaves it."""
    job = make_job(**{"precision": "fp32", "settings": VALUES, **fields})
    provenance = {
        "code": {"version": certificate()["version"], "method": METHOD},
        "model": {"family": family} if family else {},
        "machine": {"device": device},
    }
    return make_result(job, provenance=provenance)


def test_parity_statement_depends_on_family_head_and_precision() -> None:
    assert parity_of(trained()) == "proved, fp32 CPU"
    assert parity_of(trained(precision="bf16")) == "proved, bf16 CPU"
    # DeBERTa's class in transformers cannot compute in bf16, so there is no comparison in bf16.
    assert parity_of(trained("deberta", precision="bf16")) == "not proved, bf16 CPU"
    assert parity_of(trained("t5")) == "none for this family's pair head"
    assert parity_of(trained("mamba")) == "none for this family"


def test_parity_statement_names_what_the_certificate_does_not_cover() -> None:
    assert parity_of(trained(device="NVIDIA H200")) == "none on a GPU (proved, fp32 CPU)"
    tuned = VALUES | {"layer_decay": 0.8, "lora_rank": 8}
    assert parity_of(trained(settings=tuned)) == "none with layer_decay, lora_rank"
    assert parity_of(trained("")) == "none because the run does not state its family"
    assert parity_of(make_result()).startswith("none")  # the run does not come from this version


def test_parity_statement_for_runs_of_another_version_names_the_certified_version() -> None:
    of = f"proved, fp32 CPU of benchharness {certificate()['version']}"
    assert parity_of(trained(method=METHOD + 1)).startswith(of)
    newer = trained()
    newer = replace(newer, provenance={**newer.provenance, "code": {"version": "99.0"}})
    assert parity_of(newer).startswith(of)
    # Development versions of the same release are distinguished by their METHOD.
    code = {"version": f"{release_of(certificate()['version'])}.dev9+g8d437e88"}
    assert parity_of(replace(newer, provenance={**newer.provenance, "code": code})) == (
        "proved, fp32 CPU"
    )


def test_failures_baselines_and_untrained_runs_have_no_parity_statement() -> None:
    assert parity_of(make_failure()) == ""
    assert parity_of(trained(kind="baseline")) == ""
    asked = trained()
    assert parity_of(replace(asked, cost=replace(asked.cost, steps=0))) == ""


def test_parity_statement_of_a_pretraining_checkpoint_uses_the_recorded_model_family() -> None:
    stage = Stage(run="mine", step=100, tokens=None, family="roberta")
    assert parity_of(trained("", stage=stage)) == "proved, fp32 CPU"


def test_parity_statement_of_a_run_with_malformed_provenance_begins_with_none() -> None:
    for said in ({"model": 3}, {"machine": []}, {"code": None}):
        assert parity_of(make_result(provenance=said)).startswith("none")


def test_parity_certificate_has_the_current_training_method_version() -> None:
    """Require a new certificate, by `make parity`, after METHOD was raised."""
    assert certificate()["method"] == METHOD
    assert certificate()["measured"] in made_by()


@pytest.fixture
def board() -> Board:
    board = one_board(make_rows("minilm", [0.5, 0.943, 0.6], data="hub"))
    keys = [run.key for entry in board.entries for run in entry.runs]
    return replace(board, parity=dict.fromkeys(keys, "proved, fp32 CPU"))


def test_exports_have_the_parity_statement(board: Board) -> None:
    assert {line.parity for line in score_lines([board]) if "/" in line.task} == {
        "proved, fp32 CPU"
    }
    for certified in (board, replace(board, parity={})):
        header, *rows = to_csv(score_lines([certified]))
        assert header.endswith(",parity\n")
        assert any("proved" in row for row in rows) == (certified is board)
    assert "parity: proved, fp32 CPU" in to_eval_results([board])
    assert "parity: proved, fp32 CPU" in to_model_index([board])


def test_report_has_the_parity_statement_in_cells_and_runs() -> None:
    board = one_board(make_rows("minilm", [0.5], data="hub"))
    run = board.entries[0].runs[0]
    result = trained(task=run.task, model=run.model)
    vars(result.job)["key"] = run.key  # the key of the run in the table
    page = render_report([board], [result], "now")
    assert "parity: proved, fp32 CPU" in page  # a note of a cell in the table
    assert "<dt>parity</dt><dd>proved, fp32 CPU</dd>" in page
