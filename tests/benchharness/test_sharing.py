"""As many jobs on a GPU as fill it: by readings of a made nvidia-smi, and in the engine."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.driver.plan import Plan
from benchharness.driver.schedule import schedule
from benchharness.driver.start_checkpoints import StartCheckpoints
from benchharness.engines import local
from benchharness.engines.local import ALONE, LocalEngine
from benchharness.engines.slots import READINGS, Load, Sharing, Slot, load_of, read_loads
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress
from tests.helpers.fake_worker import COMMAND, make_job

LISTED = """0, GPU-11aa, 31, 2000, 78000
1, GPU-22bb, [N/A], [N/A], [N/A]
"""
SLOT = Slot(device="cuda:0", environment={}, is_shared=True)


def loads(busy: float, used: float = 2000.0, free: float = 78_000.0) -> Mapping[str, Load]:
    return {"0": Load(busy=busy, used=used, free=free)}


def made(*answers: Mapping[str, Load]) -> Sharing:
    """Sharing by these readings, the last of them for ever, one a second."""
    left, seconds = list(answers), iter(range(10_000))
    return Sharing(
        read=lambda: left.pop(0) if len(left) > 1 else left[0], clock=lambda: float(next(seconds))
    )


def asked(sharing: Sharing, running: int, times: int = READINGS) -> bool:
    """Whether another job may begin, asked so often."""
    return [sharing.has_room(SLOT, [True] * running) for _ in range(times)][-1]


def test_readings_of_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    (tmp_path / "listed").write_text(LISTED)
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/listed\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    found, first = read_loads(), Load(busy=0.31, used=2000.0, free=78_000.0)
    assert found == {"0": first, "GPU-11aa": first}
    assert load_of("cuda:0", found) == load_of("cuda:GPU-11", found) == first
    assert load_of("cuda:1", found) is load_of("cuda:MIG-1", found) is None
    monkeypatch.setenv("PATH", "")
    assert read_loads() == {}


def test_the_first_job_begins_alone_and_is_measured_while_it_makes_steps() -> None:
    sharing = made(loads(0.2))
    assert sharing.has_room(SLOT, [])
    assert not sharing.has_room(SLOT, [False])
    assert not asked(sharing, 1, READINGS - 1)
    assert asked(sharing, 1, 1)


@pytest.mark.parametrize(
    ("busy", "running", "most"),
    [(0.1, 1, 2), (0.1, 4, 8), (0.45, 1, 2), (0.5, 1, 1), (0.6, 3, 4), (0.95, 3, 3), (1.0, 3, 3)],
)
def test_as_many_as_its_time_suffices_for_and_never_more_than_twice_as_many(
    busy: float, running: int, most: int
) -> None:
    sharing = made(loads(busy))
    assert asked(sharing, running) is (most > running)
    assert sharing.most["cuda:0"] == most


def test_memory_bounds_how_many() -> None:
    sharing = made(loads(0.1, used=30_000.0, free=50_000.0))
    assert asked(sharing, 1)
    assert sharing.most["cuda:0"] == 2
    assert not asked(made(loads(0.1, used=40_000.0, free=40_000.0)), 1)


def test_what_was_measured_holds_for_later_jobs_as_long_as_memory_is_free() -> None:
    sharing = made(*[loads(0.2)] * READINGS, loads(0.9), loads(0.9, free=1000.0))
    assert asked(sharing, 1)
    assert asked(sharing, 1, 1), "without measuring its time again"
    assert not asked(sharing, 1, 1), "its memory is taken"


def test_a_changed_number_is_measured_anew_and_what_cannot_be_read_stays_alone() -> None:
    sharing = made(loads(0.2))
    assert not asked(sharing, 1, READINGS - 1)
    assert not asked(sharing, 2, READINGS - 1)
    assert asked(sharing, 2, 1)
    assert not asked(made({}), 1, 3 * READINGS)
    assert Sharing(read=dict).has_room(Slot(device="cpu", environment={}), [True, True])


def engine_of(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Mapping[str, Load]], slots: int = 4
) -> LocalEngine:
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(
        local, "Sharing", lambda: Sharing(read=read, clock=lambda: float(next(seconds)))
    )
    return LocalEngine([SLOT] * slots, command=COMMAND)


def test_an_idle_gpu_takes_more_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They end only when all of them run."""
    go, begun = tmp_path / "go", set[str]()

    def hear(job: Job, _: Progress) -> None:
        begun.add(job.key)
        if len(begun) == 4:
            go.touch()

    jobs = iter([make_job(f"wait-for:{go}", seed=seed) for seed in range(4)])
    outcomes = list(engine_of(monkeypatch, lambda: loads(0.1)).run(jobs, hear))
    assert [type(outcome) for outcome in outcomes] == [Result] * 4


def test_a_full_gpu_takes_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def hear(job: Job, progress: Progress) -> None:
        if progress.phase == "loading":
            begun.append(job.seed)

    jobs = iter([make_job("slow:0.5", seed=seed) for seed in range(2)])
    ends = engine_of(monkeypatch, lambda: loads(1.0)).run(jobs, hear)
    assert next(ends).job.seed == 0
    assert begun == [0]
    assert next(ends).job.seed == 1
    assert not list(ends)


def test_a_job_that_lacks_memory_beside_others_runs_again_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go, events = tmp_path / "go", list[tuple[str, int]]()

    def hear(job: Job, progress: Progress) -> None:
        events.append((progress.note or progress.phase, job.seed))
        if progress.note == ALONE:
            go.touch()

    recipes = (f"wait-for:{go}", f"memory-once:{tmp_path / 'tried'}")
    jobs = [make_job(recipe, seed=seed) for seed, recipe in enumerate(recipes, 1)]
    for outcome in engine_of(monkeypatch, lambda: loads(0.1)).run(iter(jobs), hear):
        assert isinstance(outcome, Result)
        events.append(("done", outcome.job.seed))
    assert [event for event in events if event[0] in ("loading", ALONE, "done")] == [
        *(("loading", 1), ("loading", 2), (ALONE, 2)),
        *(("done", 1), ("loading", 2), ("done", 2)),
    ]


def test_a_schedule_counts_one_job_on_each_shared_gpu_and_says_that_more_may_run(
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


def test_one_that_lacks_memory_alone_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jobs = iter([make_job(f"memory-once:{tmp_path / 'tried'}")])
    (outcome,) = engine_of(monkeypatch, lambda: loads(0.1)).run(jobs, lambda *_: None)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "memory"
