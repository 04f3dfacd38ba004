"""Tests of fault 17: only the same job resumes; another recipe, other data or code start over."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.leaderboard.job import Job
from benchharness.training import snapshots
from benchharness.training import snapshots as conditions
from benchharness.worker.job import run_job
from tests.helpers.stopped_jobs import Reporter, deterministic, small_job, stop

JOB = small_job()

OTHERS: dict[str, Job] = {
    "learning rate": small_job(learning_rate="0.0007"),
    "batch": small_job(batch_size="4"),
    "data": small_job("glue/rte"),
    "rows": replace(JOB, fingerprints={**JOB.fingerprints, "glue/cola:train": "0" * 64}),
    "seed": replace(JOB, seed=2),
    "weights": replace(JOB, weights="builtin:tiny@other"),
    "method": replace(JOB, method=JOB.method + 1),
    "precision": replace(JOB, precision="bf16"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_17_any_change_of_a_job_changes_its_key(other: Job):
    assert other.key != JOB.key


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "snapshots"
    stop(JOB, folder)
    return folder


def test_17_snapshot_copied_from_another_job_is_not_used(tmp_path: Path, kept: Path):
    folder = Path(shutil.copytree(kept, tmp_path / "snapshots"))
    other, reporter = small_job(learning_rate="0.0007"), Reporter()
    found = run_job(other, reporter, snapshots=folder)
    assert "it belongs to another run" in reporter.notes[0]
    assert "resumed" not in found.provenance
    assert deterministic(found) == deterministic(run_job(other))


@pytest.mark.parametrize("changed", ["the code", "torch", "threads"])
def test_17_job_starts_over_if_code_versions_or_threads_change(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, changed: str
):
    def changed_conditions(provenance: object) -> dict[str, str]:
        return {**now(provenance), changed: "another"}  # type: ignore[arg-type]

    now = conditions.conditions
    monkeypatch.setattr(snapshots, "conditions", changed_conditions)
    folder, reporter = Path(shutil.copytree(kept, tmp_path / "snapshots")), Reporter()
    found = run_job(JOB, reporter, snapshots=folder)
    (note,) = reporter.notes
    assert f"snapshot changed: {changed} (" in note
    assert note.endswith("then, another now)")
    assert "resumed" not in found.provenance
