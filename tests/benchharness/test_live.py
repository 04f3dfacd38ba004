"""Tests of the live files of a run: progress and remaining time for other processes."""

import json
import os
import random
from bisect import bisect
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

import pytest

from benchharness.driver.live import LIVE, Followed, LiveFile, LiveJob, RunState, live_files
from benchharness.progress import Progress, Watcher
from tests.helpers.fake_worker import make_failure, make_job, make_result
from tests.helpers.plans import schedule_of

JOBS = [make_job(seed=seed) for seed in range(3)]


def training(step, loss=0.5):
    return Progress(phase="training", step=step, steps=100, loss=loss)


def test_another_process_reads_the_progress_of_a_run(tmp_path):
    with ExitStack() as stack, LiveFile(Watcher(), schedule_of(*JOBS, at_once=2), tmp_path) as file:
        (path,) = live_files(tmp_path)
        run = stack.enter_context(closing(Followed(path)))
        assert [said["event"] for said in run.news()] == ["run"]
        assert (run.process, len(run.state.jobs), run.state.at_once) == (os.getpid(), 3, 2)
        for step in (1, 2, 100):
            file.report(JOBS[0], training(step, 1 / step))
        file.report(JOBS[1], Progress(phase="loading", note="skips a snapshot"))
        file.finish(make_result(JOBS[0]))
        file.leave_out(JOBS[2])
        told = [said["event"] for said in run.news()]
        assert told == ["progress", "progress", "progress", "end", "end"], "step 2 is no news"
        ended = run.state.ended[JOBS[0].key]
        assert (ended.text, ended.losses) == ("mcc 0.500 in 2 s", (1.0, 0.01))
        assert run.state.ended[JOBS[2].key].is_left_out
        assert list(run.state.running) == [JOBS[1].key]
        assert not run.is_over
        file.finish(make_failure(JOBS[1]))
        file.__exit__(None, None, None)
        told = [said["event"] for said in run.news()]
        assert told == ["end", "over"], "though its file is gone"
        assert (run.is_over, run.is_lost, run.state.failed) == (True, False, 1)
    assert not (tmp_path / LIVE).exists()


def test_live_files_are_ordered_by_the_start_of_their_runs(tmp_path):
    folder = tmp_path / LIVE
    folder.mkdir()
    for name in ("1-10", "2-9", "3-100", "4-odd"):
        (folder / f"{name}.jsonl").touch()
    assert [path.stem for path in live_files(tmp_path)] == ["4-odd", "2-9", "1-10", "3-100"]


def test_live_file_of_a_killed_run_is_detected_and_deleted_by_the_next_run(tmp_path):
    folder = tmp_path / LIVE
    folder.mkdir()
    head = {"event": "run", "at": 1.0, "jobs": [], "at_once": 1, "stored": 0, "process": 1}
    (folder / "1-1.jsonl").write_text(json.dumps({**head, "host": "elsewhere"}) + '\n{"event": "pr')
    with closing(Followed(folder / "1-1.jsonl")) as run:
        assert len(list(run.news())) == 1
    assert (run.is_over, run.is_lost) == (True, True)
    with LiveFile(Watcher(), schedule_of(*JOBS, at_once=2), tmp_path):
        assert len(live_files(tmp_path)) == 1
        assert not (folder / "1-1.jsonl").exists()


def test_run_without_jobs_deletes_live_files_of_killed_runs(tmp_path):
    """Another process may have finished all jobs of the killed run, so this run has none."""
    (tmp_path / LIVE).mkdir()
    (tmp_path / LIVE / "1-1.jsonl").write_text("{}\n")
    with LiveFile(Watcher(), schedule_of(at_once=2), tmp_path):
        assert not (tmp_path / LIVE).exists()


def test_a_run_whose_live_file_cannot_be_written_succeeds(tmp_path):
    (tmp_path / LIVE).write_text("no folder")
    with LiveFile(Watcher(), schedule_of(*JOBS, at_once=2), tmp_path) as file:
        file.report(JOBS[0], training(1))
        file.finish(make_result(JOBS[0]))


def test_live_file_of_a_long_job_has_a_limited_number_of_lines(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("benchharness.driver.live.time.monotonic", lambda: now[0])
    with LiveFile(Watcher(), schedule_of(*JOBS, at_once=2), tmp_path) as file:
        for step in range(1, 36_000):  # ten hours, with one step per second
            now[0] += 1.0
            file.report(JOBS[0], replace(training(step), steps=36_000))
        assert 500 < len(live_files(tmp_path)[0].read_bytes().splitlines()) < 1500


# Accuracy of the estimated remaining time in simulated runs.


@dataclass
class Sweep:
    """GLUE on a machine `speed` times as fast as the estimates; `tokens` are per task."""

    speed: float
    at_once: int
    rough: bool = True
    seeds: int = 3

    def times(self):
        """Yield a job per seed with its startup and work time in seconds, longest first."""
        draw = random.Random(f"{self.speed} {self.at_once}")
        sizes = (("mnli", 392, 39), ("qqp", 364, 31), ("qnli", 105, 51), ("sst2", 67, 25))
        sizes += (("cola", 9, 11), ("stsb", 6, 31), ("mrpc", 4, 53), ("rte", 3, 70))
        for task, rows, tokens in sizes:
            for seed in range(self.seeds):
                estimate = 5.0 + rows * 50 / 30
                work = rows * tokens / 30 / self.speed * draw.uniform(0.9, 1.1)
                seconds = estimate if self.rough else 5.0 + rows * tokens / 30
                job = LiveJob(
                    key=f"{task} {seed}",
                    name="",
                    group=task,
                    task=task,
                    kind="model",
                    seconds=seconds,
                )
                yield job, draw.uniform(1, 4), work

    def error_after(self, count):
        """Return the relative error of the remaining time after a number of jobs have ended."""
        jobs = list(self.times())
        state = RunState((job for job, _, _ in jobs), self.at_once)
        slots = [0.0] * self.at_once
        events, end = [], 0.0
        for job, start, work in jobs:
            slot = min(range(self.at_once), key=slots.__getitem__)
            since = slots[slot]
            events.append((since, job.key, Progress(phase="loading")))
            for step in range(1, 101):
                at = since + start + 0.93 * work * step / 100
                events.append((at, job.key, training(step)))
            slots[slot] = since + start + work
            events.append((slots[slot], job.key, None))
            end = max(end, slots[slot])
        for at, key, progress in sorted(events, key=lambda event: event[0]):
            if progress is not None:
                state.report(key, progress, at)
                continue
            state.end(key, "", at)
            if len(state.ended) == count:
                return abs(state.seconds_left(at) / (end - at) - 1)
        raise AssertionError(count)


@pytest.mark.parametrize("rough", [True, False])
@pytest.mark.parametrize("at_once", [1, 2, 4])
@pytest.mark.parametrize("speed", [0.05, 0.3, 1.0, 3.0, 10.0])
def test_remaining_time_estimate_is_off_by_less_than_a_third_after_two_jobs(speed, at_once, rough):
    sweep = Sweep(speed=speed, at_once=at_once, rough=rough)
    assert sweep.error_after(2) < 1 / 3
    assert sweep.error_after(12) < 1 / 3


def shared_machine(draw):
    """Return a function for when work ends on a machine that is slowed down on and off."""
    now, speed, phases = 0.0, draw.choice([0.25, 1.0]), []
    while now < 30_000:
        now += draw.expovariate(1 / 8)
        speed = 1.25 - speed
        phases.append((now, speed))

    def after(now, work):
        for until, speed in phases[bisect(phases, (now, 2.0)) :]:
            if (until - now) * speed >= work:
                return now + work / speed
            work, now = work - (until - now) * speed, until
        raise AssertionError(now)

    return after


def ratio_after(seconds, work, guess, seed):
    """Return the estimated remaining time of ten jobs divided by the actual one.

    A job takes `work` seconds on an idle machine, and `guess` is the factor by which the estimate
    is wrong.
    """
    draw = random.Random(seed)
    after, slots, events = shared_machine(draw), [0.0, 0.0], []
    names = [(task, f"{task} {n}") for task in "ab" for n in range(5)]
    jobs = [
        LiveJob(key=key, name="", group=task, task=task, kind="model", seconds=5 + guess * work)
        for task, key in names
    ]
    for job in jobs:
        slot = slots.index(min(slots))
        events.append((slots[slot], job.key, Progress(phase="loading")))
        now = after(slots[slot], 1.0 if slots[slot] else 3.0)
        for step in range(1, 101):
            now = after(now, 0.01 * work * draw.uniform(0.8, 1.2))
            events.append((now, job.key, training(step)))
        slots[slot] = now
    state = RunState(jobs, at_once=2)
    for at, key, progress in sorted(events, key=lambda event: event[0]):
        if at > seconds:  # the first report after the time of the estimate
            return state.seconds_left(seconds) / (max(slots) - seconds)
        state.report(key, progress, at)
    raise AssertionError(seconds)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("seconds", "work", "guess", "least"),
    [
        (10.0, 20.0, 1.0, 88),
        (10.0, 60.0, 1.0, 92),
        (10.0, 60.0, 3.0, 75),
        (10.0, 60.0, 1 / 3, 60),
        (20.0, 60.0, 1 / 3, 88),
        (40.0, 300.0, 1 / 3, 96),
    ],
)
def test_remaining_time_estimate_is_off_by_less_than_a_factor_of_2_on_a_busy_machine(
    seconds, work, guess, least
):
    ratios = [ratio_after(seconds, work, guess, seed) for seed in range(100)]
    assert sum(1 / 2 < ratio < 2 for ratio in ratios) >= least


def test_remaining_time_follows_the_planned_estimate_until_the_first_step():
    jobs = [replace(job, group="a", seconds=25.0) for job, _, _ in Sweep(1.0, 1).times()][:2]
    state = RunState(jobs)
    assert state.seconds_left(0.0) == pytest.approx(50.0)
    state.report(jobs[0].key, Progress(phase="loading"), 0.0)
    assert state.seconds_left(4.0) == pytest.approx(46.0)
    # A long download before step 1 does not count as the speed of steps.
    state.report(jobs[0].key, training(1), 100.0)
    state.report(jobs[0].key, training(50), 100.0 + 4.9)
    assert state.running[jobs[0].key].work == pytest.approx(10.0 / 0.9)
    assert state.remaining(104.9)(jobs[0]) == pytest.approx(6.1, abs=0.1)


def test_remaining_time_includes_waiting_for_the_job_that_another_job_starts_from():
    first, second = (job for job, _, _ in Sweep(1.0, 1, seeds=2).times() if job.task == "mnli")
    alone = RunState([first, second], at_once=2).seconds_left(0.0)
    chained = RunState([first, replace(second, after=(first.key,))], at_once=2).seconds_left(0.0)
    assert chained == pytest.approx(2 * alone)


@pytest.mark.parametrize("resumed", [0, 40])
def test_loading_of_a_restarted_job_does_not_count_as_training_time(resumed):
    """Regression test: ten jobs of four seconds had "about 5 h left" after a restart of workers."""
    jobs = [
        LiveJob(key=f"{n}", name="", group="a", task="a", kind="model", seconds=9.0)
        for n in range(10)
    ]
    state, now = RunState(jobs), 0.0
    for job in jobs[:4]:
        state.report(job.key, Progress(phase="loading"), now)
        for step in range(1, 101):
            state.report(job.key, training(step), now + 1.0 + step * 0.03)
        now += 4.0
        state.end(job.key, "", now)
    state.report("4", Progress(phase="loading"), now)
    state.report("4", training(1), now + 1.03)
    for step in range(2, 2 + resumed):
        state.report("4", training(step), now + 1.0 + step * 0.03)
    now += 60.0  # the worker hangs, is killed and is started again
    state.report("4", Progress(phase="loading"), now)
    assert state.seconds_left(now) == pytest.approx(24.0, rel=0.3), "as the four jobs that ended"
    assert state.seconds_left(now + 1.0) == pytest.approx(23.0, rel=0.3)
    for step in (resumed + 1, resumed + 2):
        state.report("4", training(step), now + 1.0 + (step - resumed) * 0.03)
    assert state.seconds_left(now + 1.1) == pytest.approx(23.0, rel=0.3)
