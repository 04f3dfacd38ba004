"""Jobs of the tiny encoder that are stopped midway, here or in a separate process."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from benchharness.engines.fork_server import Fork, ForkServer
from benchharness.engines.process import WORKER
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Interrupted, Progress
from benchharness.worker.fork_server import modules_for
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job

EVERY_STEP = 0.0
"""Seconds between snapshots, so that each step saves one."""

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def small_job(task: str = "cola", limit: int = 16, **settings: str) -> Job:
    """Return a job of twelve steps, with evaluations after the sixth and the last."""
    return make_job(task, limit=limit, **{"epochs": "6", "batch_size": "8"} | settings)


class Reporter:
    """Interrupts a job as a signal does, at a step of a phase; keeps the notes."""

    def __init__(self, phase: str = "", step: int = 0) -> None:
        self.notes: list[str] = []
        self._moment = (phase, step)

    def __call__(self, progress: Progress) -> None:
        if progress.note:
            self.notes.append(progress.note)
        if (progress.phase, progress.step) == self._moment:
            self._moment = ("", 0)
            raise Interrupted(15)


def stop(job: Job, folder: Path, step: int = 3, phase: str = "training", **options: Any) -> None:
    """Run a job until it reports a step, and leave its snapshots in a folder."""
    try:
        run_job(job, Reporter(phase, step), snapshots=folder, **options)
    except Interrupted:
        return
    raise AssertionError(f"the job never came to {phase} step {step}")


def start(
    job: Job,
    result_file: Path,
    *options: object,
    pipe: bool = False,
    command: Sequence[str] = WORKER,
    environment: Mapping[str, str] = ENVIRONMENT,
) -> "subprocess.Popen[bytes]":
    """Start the job in a separate process, optionally with a pipe of its progress."""
    process = subprocess.Popen(
        (*command, str(result_file), *map(str, options)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if pipe else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | environment,
    )
    assert process.stdin
    with process.stdin as stdin:
        stdin.write(json.dumps(job.to_json()).encode())
    process.stdin = None
    return process


@contextmanager
def forked(
    forks: ForkServer, job: Job, result_file: Path, *options: object
) -> Iterator[tuple[Fork, IO[bytes]]]:
    """Run the job in a fork, which starts at once; yield it and its progress lines."""
    fork = forks.start([str(result_file), *map(str, options)], ENVIRONMENT, modules_for(job))
    assert fork.stdin
    assert fork.stdout
    assert fork.stderr
    with fork.stdin as stdin:
        stdin.write(json.dumps(job.to_json()).encode())
    with fork.stdout, fork.stderr:
        yield fork, fork.stdout


def wait_for_step(folder: Path, step: int, process: "subprocess.Popen[Any] | Fork") -> None:
    """Wait for a snapshot of that step or a later one."""
    while process.poll() is None:
        if any(int(path.name[5:]) >= step for path in folder.glob("step-??????????")):
            return
        time.sleep(0.005)
    raise AssertionError(f"the process ended with {process.returncode}")


def outcome_of(result_file: Path) -> Result | Failure:
    data = json.loads(result_file.read_text())
    return Result.from_json(data) if "evaluations" in data else Failure.from_json(data)


def deterministic(result: Result) -> Mapping[str, Any]:
    """Return the parts of a result that must not depend on interruptions."""
    return {
        "job": result.job.key,
        "evaluations": result.evaluations,
        "curve": result.curve,
        "steps": result.cost.steps,
        "tokens": result.cost.train_tokens,
        "recipe": result.provenance["recipe"],
        "selection": result.provenance.get("selection"),
    }
