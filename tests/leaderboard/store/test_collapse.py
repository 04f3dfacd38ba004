from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.leaderboard.result import NEVER_FELL, CurvePoint, curve_flags
from benchharness.leaderboard.store.store import open_store
from tests.helpers.boards import make_row, make_rows, one_board
from tests.helpers.results import make_job, make_result

STUCK = [0.70, 0.695, 0.693, 0.694, 0.692, 0.693, 0.694, 0.693]


@pytest.mark.parametrize(
    ("losses", "flags"),
    [
        (STUCK, (NEVER_FELL,)),
        ([0.69, 0.9, 1.2, 1.5], (NEVER_FELL,)),
        ([0.70, 0.66, 0.60, 0.52], ()),
        ([0.70, 0.2, 0.71, 0.6], ()),
        ([0.0, 0.0, 0.0, 0.0], (NEVER_FELL,)),
        ([0.7, 0.7, 0.7], ()),
        ([], ()),
    ],
)
def test_flat_loss_curve_is_flagged_as_collapsed(losses: list[float], flags: object) -> None:
    assert curve_flags(losses) == flags


def test_collapse_flag_is_computed_from_the_stored_loss_curve(tmp_path: Path) -> None:
    curve = tuple(
        CurvePoint(step=step, epoch=step / 8, loss=loss, learning_rate=1e-5, scores={})
        for step, loss in enumerate(STUCK, start=1)
    )
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(replace(make_result(make_job(task="glue/mnli")), curve=curve))
        store.add_result(make_result(make_job(task="glue/rte")))
        rows = {row.task: row for row in store.runs()}
    assert rows["glue/mnli"].flags == {"glue/mnli": (NEVER_FELL,)}
    assert rows["glue/rte"].flags == {}


def test_collapsed_runs_are_counted_and_their_scores_retained() -> None:
    flags = {"glue/rte": (NEVER_FELL,)}
    rows = [make_row(seed=seed, scores=0.5, flags=flags if seed else {}) for seed in range(3)]
    cell = one_board(rows).entries[0].cells["glue/rte"]
    assert (cell.collapsed, len(cell.values)) == (2, 3)
    assert list(cell.notes) == [f"2 of 3 seeds collapsed ({NEVER_FELL})"]


def test_baseline_never_counts_as_collapsed() -> None:
    flags = {"glue/rte": ("constant predictions",)}
    rows = make_rows(
        "bag-of-words", kind="baseline", weights="baseline:bag-of-words@1", flags=flags
    )
    cell = one_board(rows).entries[0].cells["glue/rte"]
    assert cell.collapsed == 0
    assert list(cell.notes) == ["constant predictions"]
