"""Tests of fault 1 (soak): fifty kills at random moments change neither results nor weights."""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from benchharness.engines.fork_server import Fork, ForkServer
from benchharness.extensions.kept_models.load import load_trained
from benchharness.extensions.kept_models.predict import predict
from benchharness.kept_folders import is_whole
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result, to_row
from benchharness.leaderboard.store.store import open_store
from benchharness.splits import read_split
from benchharness.worker.fork_server import modules_for
from tests.helpers.mini_jobs import make_shared_job
from tests.helpers.stopped_jobs import (
    ENVIRONMENT,
    EVERY_STEP,
    deterministic,
    outcome_of,
    small_job,
)
from tests.helpers.struck_runs import results_of

KILLS = 50
SEED = 20261121

DELAY = 0.1
"""Maximum seconds between a step and the kill; a step and its snapshot take as long."""

PIPE_BYTES = 2**20

SWEEP = (
    *(sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()", "run"),
    *("--model", "tiny", "--data", "mini", "--seeds", "3", "--no-baselines", "--precision", "fp32"),
    *("--task", "glue/cola", "--task", "glue/rte", "--task", "glue/stsb"),
    *("--start-from", "glue/mnli", "--keep-models", "--device", "cpu", "--jobs", "2"),
    *("--limit", "24", "--set", "epochs=36", "--set", "batch_size=8"),
    *("--checkpoint-every", "0.001"),
)
"""Twelve jobs of 108 steps: nine of three tasks, and three of MNLI that they start from."""


def sweep(folder: Path) -> "subprocess.Popen[bytes]":
    folder.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "BENCH_DB"}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            SWEEP, cwd=folder, env=environment | ENVIRONMENT, stdout=log, stderr=log
        )


def descendants_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except FileNotFoundError:
        return []
    children = [int(word) for word in text.split()]
    return [*children, *(below for child in children for below in descendants_of(child))]


def check_kept(folder: Path) -> None:
    """Check that every kept model folder is complete."""
    for model in (folder / "results" / "models").glob("[0-9a-f]*"):
        assert "." in model.name or is_whole(model, model.name), model


def check_predictions(folder: Path) -> None:
    """Check that each stored run has a kept model that reproduces its predictions."""
    models = folder / "results" / "models"
    with open_store(folder / "results" / "leaderboard.sqlite", create=False) as store:
        rows = store.runs()
        assert {path.name for path in models.iterdir()} == {row.key for row in rows}
        for row in rows:
            result, model = store.result(row.key), load_trained(models / row.key)
            assert isinstance(result, Result)
            for each in result.evaluations:
                found = predict(model, read_split(result.job, each.name).examples).predictions
                assert [to_row(one) for one in found] == list(each.predictions)


def weights_of(folder: Path) -> dict[str, bytes]:
    files = (folder / "results" / "models").glob("*/model.safetensors")
    return {file.parent.name: file.read_bytes() for file in files}


def faults_of(folder: Path) -> list[str]:
    database = folder / "results" / "leaderboard.sqlite"
    if not database.exists():
        return []
    with open_store(database, create=False) as store:
        return list(store.faults())


def is_over(process: "subprocess.Popen[bytes]", seconds: float | None) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def kill_at_random(
    folder: Path, seconds: float, chance: random.Random, most: int
) -> Iterator[None]:
    """Run the sweep to its end and yield after each kill, at most `most` times.

    Each kill hits the driver or one of its descendants.
    """
    kills = 0
    while True:
        process = sweep(folder)
        if is_over(process, chance.uniform(0.0, seconds) if kills < most else None):
            if process.returncode == 0:
                return
            continue  # a worker was killed before, so its job has no result yet
        kills += 1
        victim = chance.choice([process.pid, process.pid, *descendants_of(process.pid)])
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        if victim == process.pid or chance.random() < 0.5:
            process.kill()
        process.wait()
        yield


@pytest.mark.soak
def test_01_sweep_killed_fifty_times_gives_identical_results_and_weights(tmp_path: Path):
    began = time.monotonic()
    whole = sweep(tmp_path / "whole")
    assert whole.wait() == 0, (tmp_path / "whole" / "log").read_text()
    seconds = time.monotonic() - began
    expected, weights = results_of(tmp_path / "whole"), weights_of(tmp_path / "whole")
    assert (len(expected), len(weights)) == (12, 12)
    chance, kills, sweeps, resumed = random.Random(SEED), 0, 0, 0
    while kills < KILLS:
        sweeps += 1
        folder = tmp_path / f"killed{sweeps}"
        for _ in kill_at_random(folder, seconds / 2, chance, KILLS - kills):
            kills += 1
            assert faults_of(folder) == []
            check_kept(folder)
        check_predictions(folder)
        assert results_of(folder) == expected
        assert weights_of(folder) == weights
        assert not (folder / "results" / "snapshots").exists()
        resumed += (folder / "log").read_text().count("resumes after step")
    sys.stdout.write(f"{kills} kills in {sweeps} sweeps; {resumed} times a job went on\n")
    assert resumed > 0


HEADS = {
    "pair": ("cola", {}),
    "number": ("stsb", {}),
    "options": ("copa", {}),
    "spans": ("squad/v2.0", {}),
    "ends beside beginnings": ("squad/v2.0", {"answerable_weight": "0.5", "beam_size": "4"}),
    "tags": ("conll2003/ner", {}),
}

ENDINGS = {
    "best": {"best_checkpoint": "true", "early_stopping": "8"},
    "average": {"average_last": "6"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """Fork server, as in a run: a kill then costs the time of a job, not of the imports."""
    with closing(ForkServer()) as server:
        yield server


@pytest.mark.soak
def test_01_single_job_killed_fifty_times_gives_identical_result(
    server: ForkServer, tmp_path: Path
):
    kill_jobs(server, small_job(epochs="60", evaluations="4"), KILLS, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(("task", "settings"), HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_01_best_and_averaged_checkpoints_survive_ten_kills_for_every_head(
    server: ForkServer, task: str, settings: dict[str, str], ending: str, tmp_path: Path
):
    settings = {**settings, **ENDINGS[ending]}
    if (task, ending) == ("stsb", "best"):
        settings["select_on"] = "train:0.25"
    kill_jobs(server, small_job(task, epochs="15", evaluations="10", **settings), 10, tmp_path)


@pytest.mark.soak
def test_01_multitask_job_killed_ten_times_gives_identical_result(
    server: ForkServer, tmp_path: Path
):
    tasks = ("stsb", "cola", "copa", "squad/v2.0", "conll2003/ner")
    settings = {"batch_size": "8", "evaluations": "4", "best_checkpoint": "true"}
    job = make_shared_job(*tasks, limit=16, epochs="8", sampling_power="0.5", **settings)
    kill_jobs(server, job, 10, tmp_path)


def kill_jobs(server: ForkServer, job: Job, most: int, folder: Path) -> None:
    """Run a job to its end, killed at random, until there were `most` kills.

    Each kill comes after a random number of the remaining steps. The results and the kept encoders
    equal those of a run that was never killed.
    """
    with forked(server, job, folder / "whole.json", "--keep", folder / "whole") as whole:
        assert whole.wait() == 0
    expected = outcome_of(folder / "whole.json")
    assert isinstance(expected, Result)
    chance, kills, jobs, steps = random.Random(f"{SEED} {job.key}"), 0, 0, []
    while kills < most:
        jobs += 1
        again = folder / f"job{jobs}"
        status = -signal.SIGKILL
        while status:
            more = chance.randint(0, expected.cost.steps // 3) if kills < most else sys.maxsize
            with forked(
                server,
                job,
                folder / f"{jobs}.json",
                *("--snapshots", again / "snapshots", "--checkpoint-every", EVERY_STEP),
                *("--keep", again / "kept"),
            ) as process:
                if not is_over_before(process, again / "snapshots", more):
                    time.sleep(chance.uniform(0.0, DELAY))
                    with suppress(ProcessLookupError):  # the process may have ended meanwhile
                        os.kill(process.pid, signal.SIGKILL)
                status = process.wait()
            kills += status == -signal.SIGKILL
            assert status in (0, -signal.SIGKILL)
        found = outcome_of(folder / f"{jobs}.json")
        assert isinstance(found, Result)
        assert deterministic(found) == deterministic(expected)
        kept = [path / "model.safetensors" for path in (again / "kept", folder / "whole")]
        assert kept[0].read_bytes() == kept[1].read_bytes()
        steps += found.provenance.get("resumed", {"steps": []})["steps"]
    sys.stdout.write(f"{kills} kills in {jobs} jobs, which went on after the steps {steps}\n")
    assert steps


@contextmanager
def forked(server: ForkServer, job: Job, result_file: Path, *options: object) -> Iterator[Fork]:
    """Start the job in a process forked from one that has imported its modules."""
    words = [str(result_file), *map(str, options)]
    fork = server.start(words, os.environ | ENVIRONMENT, modules_for(job))
    pipes = (fork.stdin, fork.stdout, fork.stderr)
    for pipe in pipes:
        assert pipe
        # A large buffer, because nobody reads the output.
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with closing(pipes[0]), closing(pipes[1]), closing(pipes[2]):
        pipes[0].write(json.dumps(job.to_json()).encode())
        pipes[0].close()
        while not fork.has_begun:
            time.sleep(0.002)
        yield fork


def is_over_before(process: Fork, snapshots: Path, more: int) -> bool:
    """Return whether the process ends within `more` steps after its newest snapshot."""
    first = newest_step(snapshots)
    while process.poll() is None:
        if newest_step(snapshots) >= first + more:
            return False
        time.sleep(0.002)
    return True


def newest_step(snapshots: Path) -> int:
    return max((int(path.name[5:]) for path in snapshots.glob("step-??????????")), default=0)
