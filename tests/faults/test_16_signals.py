"""Fault 16: SIGTERM and SIGINT: the state is kept first, nothing half trained is scored."""

import signal
from pathlib import Path

import pytest

from benchharness.leaderboard.result import Failure
from benchharness.worker.job import run_job
from tests.helpers.stopped_jobs import deterministic, outcome_of, small_job, start


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_16_the_state_is_kept_nothing_is_scored_and_the_job_goes_on(
    tmp_path: Path, number: int, code: int
):
    """The period is long, so what is kept is kept because of the signal."""
    job, kept = small_job(epochs="100"), tmp_path / "kept"
    process = start(job, tmp_path / "result.json", "--snapshots", kept, pipe=True)
    assert process.stdout
    with process.stdout as lines:
        next(line for line in lines if b'"training"' in line)
        process.send_signal(number)
        rest = lines.read()
    assert process.wait() == code
    assert b'"saving"' in rest, "the engine is told to wait"
    failure = outcome_of(tmp_path / "result.json")
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.exit_code) == ("interrupted", code)
    assert "evaluations" not in failure.to_json()
    (snapshot,) = kept.iterdir()
    assert 1 <= int(snapshot.name[5:]) < 200
    found = run_job(job, snapshots=kept)
    assert found.provenance["resumed"]["times"] == 1
    assert deterministic(found) == deterministic(run_job(job))
