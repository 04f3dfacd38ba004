"""Tests of fault 3: kill -9 while a model is written leaves the complete model or none."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

from benchharness.engines.fork_server import ForkServer
from benchharness.kept_folders import check_checkpoint, delete_drafts, is_whole
from benchharness.worker.job import run_job
from tests.helpers.stopped_jobs import EVERY_STEP, forked, small_job

KILLS = 4


def test_03_model_of_a_job_killed_while_writing_it_is_complete_or_absent(
    tmp_path: Path, shared_forks: ForkServer
) -> None:
    job, folder, chance = small_job(), tmp_path / "models" / "kept", random.Random(1)
    run_job(job, keep=tmp_path / "whole")
    options = ("--snapshots", tmp_path / "snapshots", "--checkpoint-every", EVERY_STEP)
    hit = 0
    for number in range(KILLS):
        result = tmp_path / f"{number}.json"
        with forked(shared_forks, job, result, *options, "--keep", folder) as (process, _):
            while process.poll() is None and not any(folder.parent.glob("kept*")):
                time.sleep(0.0005)
            time.sleep(chance.uniform(0.0, 0.01))
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
        hit += any(folder.parent.glob("kept.*"))
        assert is_whole(folder, job.key) or not folder.exists()
        assert folder.exists() or not result.exists(), "a result says that its model is there"
        delete_drafts(folder)
        assert not any(folder.parent.glob("kept.*"))
    assert hit, "no kill fell into the writing, so nothing was tested"
    run_job(job, snapshots=tmp_path / "snapshots", keep=folder)
    written = check_checkpoint(tmp_path / "whole", job.key)
    assert check_checkpoint(folder, job.key) == written
