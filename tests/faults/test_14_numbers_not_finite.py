"""Tests of fault 14: a loss that is not finite stops the job soon, which then has no score."""

import math
from pathlib import Path

import pytest
import torch

from benchharness.leaderboard.store.store import open_store
from benchharness.progress import Progress
from benchharness.training import meter
from benchharness.training.meter import DivergedError
from benchharness.training.snapshots import State, read_state
from benchharness.worker.__main__ import _failure as failure_of
from benchharness.worker.job import run_job
from tests.helpers.stopped_jobs import EVERY_STEP, small_job

DIVERGING = small_job(learning_rate="1e30", warmup_ratio="0", epochs="40")


@pytest.mark.parametrize("steps", [1, 16])
def test_14_diverging_job_stops_within_three_loss_reads(
    monkeypatch: pytest.MonkeyPatch, steps: int
):
    """Losses are read every 16 steps on a GPU."""
    monkeypatch.setitem(meter.STEPS_BETWEEN_READS, "cpu", steps)
    monkeypatch.setattr(meter, "CURVE_POINTS", 1)
    made: list[int] = []
    count = meter.Meter.count

    def note(self: meter.Meter, *args: object, **numbers: int) -> None:
        made.append(self.step)
        count(self, *args, **numbers)  # type: ignore[arg-type]

    monkeypatch.setattr(meter.Meter, "count", note)
    with pytest.raises(DivergedError, match=r"diverged: at step \d+ of 80"):
        run_job(DIVERGING)
    assert len(made) <= 3 * steps


def test_14_nan_loss_is_never_reported_as_progress(monkeypatch: pytest.MonkeyPatch):
    lines: list[Progress] = []
    monkeypatch.setattr(torch.Tensor, "detach", lambda self: self.data * math.nan)
    with pytest.raises(DivergedError, match="the loss is nan"):
        run_job(small_job(), lines.append)
    assert not [line for line in lines if line.phase == "training"]


def test_14_diverged_job_is_stored_without_scores_or_bad_snapshots(tmp_path: Path):
    with pytest.raises(DivergedError) as caught:
        run_job(DIVERGING, snapshots=tmp_path / "snapshots", checkpoint_every=EVERY_STEP)
    failure = failure_of(DIVERGING, caught.value)
    assert (failure.kind, failure.exit_code) == ("diverged", 1)
    with open_store(tmp_path / "leaderboard.sqlite") as store:
        store.add_failure(failure)
        (row,) = store.runs()
        assert (row.status, row.scores) == ("diverged", {})
        assert store.finished_keys([DIVERGING.key]) == set()
    for path in (tmp_path / "snapshots").glob("*"):
        assert is_finite(read_state(path)), "what has diverged is not kept"


def is_finite(state: State) -> bool:
    return all(bool(w.isfinite().all()) for w in state.tensors["weights"].values())
