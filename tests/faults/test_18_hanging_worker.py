"""Tests of fault 18: the watchdog ends a worker that hangs, and its job is tried again."""

from pathlib import Path

import pytest

from benchharness.engines import process
from benchharness.engines.local import LocalEngine
from benchharness.engines.process import Orders
from benchharness.engines.slots import Slot
from benchharness.leaderboard.result import Failure, Result
from tests.helpers.fake_worker import COMMAND, make_job


def run(recipe: str, **options):
    notes: list[str] = []

    def report(job, progress):
        if progress.note:
            notes.append(progress.note)

    engine = LocalEngine([Slot(device="cpu", environment={})], Orders(**options), COMMAND)
    (outcome,) = engine.run([make_job(recipe)], report)
    return outcome, notes


@pytest.fixture(autouse=True)
def little_grace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)


def test_18_job_that_hangs_once_is_restarted_and_finishes(tmp_path: Path):
    outcome, notes = run(f"hang-once:{tmp_path / 'pids'}", timeout=3.0)
    assert isinstance(outcome, Result)
    assert outcome.provenance["hung"] == 1
    assert notes == ["printed no progress for 3 seconds and is started again"]


@pytest.mark.soak
def test_18_job_that_hangs_twice_fails_with_timeout(tmp_path: Path):
    outcome, notes = run(f"hang:{tmp_path / 'pids'}", timeout=3.0)
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.exit_code, len(notes)) == ("timeout", 1, 1)
    assert "printed no progress for 3 seconds" in outcome.error
    assert outcome.error.endswith("It hung before and was started again.")


def test_18_killed_job_is_not_retried():
    """A retry would be killed too if memory ran out; the error names a setting that needs less."""
    outcome, notes = run("die", timeout=30.0)
    assert (outcome.kind, notes) == ("killed", [])
    assert "--set accumulation=2" in outcome.error
