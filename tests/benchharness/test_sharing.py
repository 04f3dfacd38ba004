"""Tests of several jobs on one GPU, as far as its memory allows, with a fake nvidia-smi."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.driver.plan import Plan
from benchharness.driver.schedule import schedule
from benchharness.driver.start_checkpoints import StartCheckpoints
from benchharness.engines import slots
from benchharness.engines.local import ALONE, LocalEngine
from benchharness.engines.process import Orders
from benchharness.engines.slots import SETTLING_SECONDS, Sharing, Slot, memory_of
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress
from tests.helpers.fake_worker import COMMAND, make_job

SLOT = Slot(device="cuda:0", environment={}, is_shared=True)
IDLE, FULL = (2000.0, 78_000.0), (50_000.0, 30_000.0)
"""Used and free memory of a GPU."""


def test_gpu_memory_is_read_from_nvidia_smi(
    nvidia_smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(
        "[ $# = 3 ] && [ $3 = --format=csv,noheader,nounits ] || exit 9\n"
        "[ $2 = --query-gpu=memory.used,memory.free ] || exit 9\n"
        'case $1 in --id=0|--id=GPU-1) echo 2000, 78000;; *) echo "[N/A], [N/A]";; esac'
    )
    assert memory_of("cuda:0") == memory_of("cuda:GPU-1") == IDLE
    assert memory_of("cuda:MIG-1") is None
    monkeypatch.setenv("PATH", "")
    assert memory_of("cuda:0") is None


@pytest.mark.parametrize(
    ("memory", "running", "has_room"),
    [
        (IDLE, 1, True),
        (IDLE, 8, True),
        ((30_000.0, 46_000.0), 1, True),
        ((30_000.0, 44_000.0), 1, False),
        ((60_000.0, 46_000.0), 2, True),
        ((60_000.0, 44_000.0), 2, False),
        (None, 1, False),
    ],
)
def test_job_starts_on_a_shared_gpu_if_1_5_times_the_memory_per_job_is_free(
    monkeypatch: pytest.MonkeyPatch,
    memory: tuple[float, float] | None,
    running: int,
    has_room: bool,
) -> None:
    monkeypatch.setattr(slots, "memory_of", lambda _: memory)
    assert Sharing().has_room(SLOT, [True] * running) is has_room


def test_gpu_memory_is_read_periodically_once_all_its_jobs_are_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds, read = 0.0, list[float]()

    def full(_: str) -> tuple[float, float]:
        read.append(seconds)
        return FULL

    monkeypatch.setattr(slots, "memory_of", full)
    monkeypatch.setattr(slots, "monotonic", lambda: seconds)
    sharing = Sharing()
    assert sharing.has_room(SLOT, []), "the first one begins alone"
    assert sharing.has_room(Slot(device="cpu", environment={}), [True, True])
    for settled in ([False], [True, False], *([True, True] for _ in range(6))):
        assert not sharing.has_room(SLOT, settled)
        seconds += SETTLING_SECONDS / 2
    assert read == [1.5 * SETTLING_SECONDS, 2.5 * SETTLING_SECONDS, 3.5 * SETTLING_SECONDS]
    monkeypatch.setattr(slots, "memory_of", lambda _: read.append(seconds))
    unknown = Sharing()
    for _ in range(6):
        assert not unknown.has_room(SLOT, [True])
        assert not unknown.has_room(SLOT, [False])
        seconds += SETTLING_SECONDS
    assert len(read) == 4, "what cannot be read is not read again"


def engine_of(monkeypatch: pytest.MonkeyPatch, memory: tuple[float, float] = IDLE) -> LocalEngine:
    """Return an engine whose clock lets jobs settle between two checks."""
    monkeypatch.setattr(slots, "memory_of", lambda _: memory)
    monkeypatch.setattr(slots, "monotonic", itertools.count(step=SETTLING_SECONDS).__next__)
    return LocalEngine([SLOT] * 4, Orders(), COMMAND)


def test_an_idle_gpu_runs_several_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use jobs that end only when all of them run."""
    go, begun = tmp_path / "go", set[str]()

    def hear(job: Job, _: Progress) -> None:
        begun.add(job.key)
        if len(begun) == 4:
            go.touch()

    jobs = iter([make_job(f"wait-for:{go}", seed=seed) for seed in range(4)])
    outcomes = list(engine_of(monkeypatch).run(jobs, hear))
    assert [type(outcome) for outcome in outcomes] == [Result] * 4


def test_a_full_gpu_runs_one_job_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def hear(job: Job, progress: Progress) -> None:
        if progress.phase == "loading":
            begun.append(job.seed)

    jobs = iter([make_job("slow:0.5", seed=seed) for seed in range(2)])
    ends = engine_of(monkeypatch, FULL).run(jobs, hear)
    assert next(ends).job.seed == 0
    assert begun == [0]
    assert next(ends).job.seed == 1
    assert not list(ends)


def test_job_out_of_memory_on_a_shared_gpu_runs_again_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go, events = tmp_path / "go", list[tuple[str, int]]()

    def hear(job: Job, progress: Progress) -> None:
        events.append((progress.note or progress.phase, job.seed))
        if progress.note == ALONE:
            go.touch()

    recipes = (f"wait-for:{go}", f"memory-once:{tmp_path / 'tried'}")
    jobs = [make_job(recipe, seed=seed) for seed, recipe in enumerate(recipes, 1)]
    for outcome in engine_of(monkeypatch).run(iter(jobs), hear):
        assert isinstance(outcome, Result)
        events.append(("done", outcome.job.seed))
    assert [event for event in events if event[0] in ("loading", ALONE, "done")] == [
        *(("loading", 1), ("loading", 2), (ALONE, 2)),
        *(("done", 1), ("loading", 2), ("done", 2)),
    ]


def test_schedule_assumes_one_job_at_a_time_on_a_shared_gpu(
    tmp_path: Path,
) -> None:
    plan = Plan(jobs=tuple(make_job(seed=seed) for seed in range(3)), rows={})
    places = StartCheckpoints.of(plan.jobs, str(tmp_path / "runs.sqlite"), keep=False)
    shared = schedule(plan, [SLOT] * 4, places)
    assert shared.at_once == 1
    assert "1 at once on GPU 0, or more" in shared.sentence()
    sure = schedule(plan, [replace(SLOT, is_shared=False)] * 2, places)
    assert sure.at_once == 2
    assert "3 to run, 2 at once on GPU 0, about" in sure.sentence()


def test_job_out_of_memory_alone_on_a_gpu_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs = iter([make_job(f"memory-once:{tmp_path / 'tried'}")])
    (outcome,) = engine_of(monkeypatch).run(jobs, lambda *_: None)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "memory"
