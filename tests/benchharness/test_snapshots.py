"""Tests of the snapshots of a job: which are kept, and from which a job resumes."""

import json
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchharness import machine as conditions_module
from benchharness.kept_folders import MANIFEST, SnapshotFolder
from benchharness.machine import source_digest, what_differs
from benchharness.progress import SIGNALS, Interrupted, Progress
from benchharness.training import snapshots as snapshots_module
from benchharness.training.snapshots import (
    Snapshots,
    State,
    conditions,
    random_numbers,
    random_tensors,
    restore_random,
)

KEY = "a" * 64
PROVENANCE: dict[str, Any] = {
    "versions": {"python": "3.11", "torch": "2.13"},
    "machine": {"device": "cpu", "capability": "avx2", "threads": 2, "host": "x"},
    "model": {"tokenizer": "t"},
}


def state(step: int) -> State:
    tensors = {"weights": {"w": torch.full((3,), step / 3)}, "optimizer": {}, "random": {}}
    meter = {"step": step, "losses": [0.1 + 0.2]}
    return State(tensors=tensors, numbers={"meter": meter, "job": {"evaluations": []}})


def snapshots(folder: Path, said: list[str] | None = None, **changes: Any) -> Snapshots:
    notes: list[str] = [] if said is None else said

    def report(progress: Progress) -> None:
        if progress.note:
            notes.append(progress.note)

    options: dict[str, Any] = {
        "folder": folder / KEY,
        "key": KEY,
        "every": 60.0,
        "provenance": PROVENANCE,
        "accumulation": 1,
        "report": report,
    }
    return Snapshots(**options | changes)


def save(folder: Path, *steps: int, **changes: Any) -> list[Path]:
    kept = snapshots(folder, **changes)
    for step in steps:
        kept.save(partial(state, step))
    return sorted((folder / KEY).iterdir())


def newest_step(folder: Path, said: list[str] | None = None, **changes: Any) -> int | None:
    found = snapshots(folder, said, **changes).newest()
    return None if found is None else found.step


def test_a_snapshot_is_restored_bit_for_bit(tmp_path: Path):
    save(tmp_path, 7)
    said: list[str] = []
    found = snapshots(tmp_path, said).newest()
    assert found is not None
    assert torch.equal(found.tensors["weights"]["w"], state(7).tensors["weights"]["w"])
    assert found.numbers == state(7).numbers
    assert said == [f"resumes after step 7, from {tmp_path / KEY / 'step-0000000007'}"]


def test_the_newest_two_snapshots_are_kept(tmp_path: Path):
    names = [path.name for path in save(tmp_path, 5, 20, 100)]
    assert names == ["step-0000000020", "step-0000000100"]
    assert newest_step(tmp_path) == 100


def test_restored_snapshot_is_kept_together_with_the_first_new_one(tmp_path: Path):
    save(tmp_path, 5, 20)
    again = snapshots(tmp_path)
    assert again.newest()
    again.save(lambda: state(30))
    assert [path.name[-2:] for path in sorted((tmp_path / KEY).iterdir())] == ["20", "30"]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink, lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize(
    "name",
    ["weights.safetensors", "optimizer.safetensors", "random.safetensors", "numbers.json"],
)
def test_a_damaged_snapshot_is_skipped_with_a_note(
    tmp_path: Path, damage: Callable[[Path], None], name: str
):
    _, newest = save(tmp_path, 5, 20)
    damage(newest / name)
    said: list[str] = []
    assert newest_step(tmp_path, said) == 5
    assert said[0].startswith(f"skips the snapshot {newest}: it is ")
    assert name in said[0]


@pytest.mark.parametrize("text", ["", "[]", '{"files": {}}', '{"run": 1, "files": []}', "\x00"])
def test_a_snapshot_with_a_damaged_manifest_is_skipped(tmp_path: Path, text: str):
    _, newest = save(tmp_path, 5, 20)
    (newest / MANIFEST).write_text(text)
    said: list[str] = []
    assert newest_step(tmp_path, said) == 5
    assert said[0].startswith(f"skips the snapshot {newest}: it ")


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "a library": ({"versions": {"python": "3.11", "torch": "2.14"}}, "torch (2.13 then, 2.14 now)"),
    "threads": (
        {"machine": {**PROVENANCE["machine"], "threads": 4}},
        "threads (2 then, 4 now)",
    ),
    "device": (
        {"machine": {**PROVENANCE["machine"], "device": "NVIDIA H200"}},
        "device (cpu then, NVIDIA H200 now)",
    ),
    "tokenizer": ({"model": {"tokenizer": "u"}}, "the tokenizer (t then, u now)"),
    "start": (
        {"started_from": {"sha256": "abc"}},
        "the encoder it starts from (None then, abc now)",
    ),
}


@pytest.mark.parametrize(("change", "told"), CHANGES.values(), ids=CHANGES)
def test_change_of_code_versions_or_hardware_restarts_the_job(
    tmp_path: Path, change: dict[str, Any], told: str
):
    save(tmp_path, 5)
    said: list[str] = []
    assert newest_step(tmp_path, said, provenance={**PROVENANCE, **change}) is None
    (note,) = said
    assert note.startswith("starts over, because")
    assert note.endswith(f"changed: {told}")


def test_job_can_resume_on_another_host_with_the_same_hardware(tmp_path: Path):
    save(tmp_path, 5)
    moved = {**PROVENANCE, "machine": {**PROVENANCE["machine"], "host": "y"}}
    assert newest_step(tmp_path, provenance=moved) == 5


def test_snapshot_that_cannot_be_used_is_deleted_after_a_new_one_is_saved(tmp_path: Path):
    save(tmp_path, 500)
    other = {**PROVENANCE, "versions": {}}
    again = snapshots(tmp_path, provenance=other)
    assert again.newest() is None
    again.save(lambda: state(3))
    assert [path.name for path in (tmp_path / KEY).iterdir()] == ["step-0000000003"]


def test_job_resumed_after_out_of_memory_keeps_its_smaller_micro_batches(tmp_path: Path):
    save(tmp_path, 5, accumulation=4)
    after = snapshots(tmp_path, accumulation=1)
    assert after.newest()
    assert after.accumulation == 4
    assert newest_step(tmp_path, accumulation=8) is None


def test_edited_source_file_changes_the_source_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for package in ("benchharness", "benchharness.leaderboard", "benchharness.tasks"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(conditions_module, "files", tmp_path.joinpath)
    monkeypatch.setattr(conditions_module, "LOADED", 1e12)
    before = source_digest()
    assert source_digest() == before
    (tmp_path / "benchharness.tasks" / "a.py").write_text("x = 2\n")
    assert source_digest() != before
    (tmp_path / "benchharness.tasks" / "a.py").write_text("x = 1\n")
    assert source_digest() == before
    monkeypatch.setattr(conditions_module, "LOADED", 0.0)
    assert source_digest() != before, "edited since it was loaded: nobody knows what runs"


def test_snapshot_conditions_include_versions_and_hardware_and_changes_are_named():
    found = conditions(PROVENANCE)
    assert {"the code", "python", "torch", "device", "capability", "threads"} < set(found)
    assert what_differs(found, found) == ""
    assert what_differs({}, {"torch": "2"}) == "torch (None then, 2 now)"


def test_snapshot_is_saved_when_the_interval_has_passed(tmp_path: Path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(snapshots_module.time, "monotonic", lambda: now)
    kept = snapshots(tmp_path, saved=now)
    kept.save_when_due(lambda: state(1))
    assert not (tmp_path / KEY).exists(), "a job shorter than the period writes nothing"
    now += 60.0
    kept.save_when_due(lambda: state(2))
    kept.save_when_due(lambda: state(3))
    assert [path.name[-1] for path in (tmp_path / KEY).iterdir()] == ["2"]


def interrupt(kept: Snapshots) -> None:
    with kept.saved_at_a_signal(lambda: state(9), lambda: None):
        raise Interrupted(signal.SIGTERM)


def test_signal_saves_a_snapshot_before_the_job_ends(tmp_path: Path):
    with pytest.raises(Interrupted):
        interrupt(snapshots(tmp_path))
    assert newest_step(tmp_path) == 9


def test_a_snapshot_of_the_same_step_is_not_saved_again(tmp_path: Path):
    (only,) = save(tmp_path, 9)
    written = (only / MANIFEST).stat().st_mtime_ns
    again = snapshots(tmp_path)
    assert again.newest()
    with pytest.raises(Interrupted):
        interrupt(again)
    assert (only / MANIFEST).stat().st_mtime_ns == written


def test_signal_while_saving_takes_effect_after_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def write_and_be_told(folder: Path, kept: State) -> None:
        SIGNALS.take(signal.SIGTERM)
        write_state(folder, kept)

    write_state = snapshots_module.write_state
    monkeypatch.setattr(snapshots_module, "write_state", write_and_be_told)
    with pytest.raises(Interrupted):
        snapshots(tmp_path).save(lambda: state(5))
    assert newest_step(tmp_path) == 5


def test_only_one_process_of_a_job_writes_snapshots(tmp_path: Path):
    snapshots(tmp_path, is_writer=False).save(lambda: state(5))
    assert list(tmp_path.iterdir()) == []


def test_full_disk_for_snapshots_does_not_stop_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(folder: Path, state: State) -> None:
        (folder / "weights.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    said: list[str] = []
    kept = snapshots(tmp_path, said)
    with monkeypatch.context() as full:
        full.setattr(snapshots_module, "write_state", fail)
        for step in (4, 5, 6):
            kept.save(lambda step=step: state(step))
    begins = "continues, but its state cannot be saved: [Errno 28] No space left on device"
    assert said == [begins], "once, not at every try"
    assert list((tmp_path / KEY).iterdir()) == [], "nothing half written is left"
    kept.save(lambda: state(7))
    kept.save(lambda: state(8))
    assert said == [begins, "saves its state again"]
    assert newest_step(tmp_path) == 8


def test_snapshot_folder_lists_and_deletes_the_snapshots_of_jobs(tmp_path: Path):
    assert SnapshotFolder.of(tmp_path, 0) is None
    folder = SnapshotFolder.of(tmp_path, 60)
    assert folder is not None
    assert folder.keys() == set()
    save(folder.root, 5)
    assert folder.keys() == {KEY}
    assert folder.options(KEY)[1] == str(folder.root / KEY)
    folder.delete_all([KEY, "never there"])
    assert list(tmp_path.iterdir()) == []
    relative = replace(folder, root=Path("x")).options(KEY)
    assert Path(relative[1]).is_absolute()


def test_states_of_all_random_generators_are_restored():
    def draw() -> list[float]:
        return [random.random(), random.gauss(0, 1), np.random.normal(), float(torch.rand(()))]

    draw()
    tensors, numbers = random_tensors(), json.loads(json.dumps(random_numbers()))
    expected = [draw() for _ in range(3)]
    restore_random(tensors, numbers)
    assert [draw() for _ in range(3)] == expected


def test_only_the_random_generator_of_the_jobs_own_gpu_is_stored(monkeypatch: pytest.MonkeyPatch):
    """A job can then resume if fewer GPUs are visible, or if its GPU has another number."""
    made = torch.Generator().manual_seed(5)
    own = made.get_state()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", made.get_state)
    monkeypatch.setattr(torch.cuda, "set_rng_state", made.set_state)
    tensors, numbers = random_tensors(), random_numbers()
    assert sorted(tensors) == ["cpu", "cuda"]
    torch.rand(3, generator=made)
    restore_random(tensors, numbers)
    assert torch.equal(made.get_state(), own)
