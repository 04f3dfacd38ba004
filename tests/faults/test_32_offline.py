"""Tests of fault 32: `bench` processes with and without a hub, and after the hub went away."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.glue import COLA
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.hub_files import write_embedded
from tests.helpers.hub_server import serve_hub, silent_hub
from tests.helpers.soak import in_part

BENCH = (sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()")
CHOICE = ("--model", "org/name", "--task", "cola")
QUICK = ("--limit", "16", "--seeds", "1", "--no-baselines", "--set", "epochs=1", "--device", "cpu")
RUN = ("run", *CHOICE, *QUICK, "--db", "x.sqlite")
COMMIT = "ab" * 20


def bench(folder, endpoint, *words):
    """Run a command; return the finished process and its wall-clock seconds."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and k != "BENCH_DB"}
    home = {"HF_HOME": str(folder / "home"), "HF_ENDPOINT": endpoint, "OMP_NUM_THREADS": "1"}
    start = time.monotonic()
    ended = subprocess.run(
        (*BENCH, *words),
        cwd=folder,
        env=kept | home,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return ended, time.monotonic() - start


@pytest.fixture
def repositories(tmp_path):
    """Return a folder with a small BERT and CoLA's Parquet rows in the layout of the hub."""
    root = tmp_path / "repositories"
    save_checkpoint(root / "models" / "org" / "name" / COMMIT)
    write_embedded(root, COLA.source)
    return root


@pytest.mark.soak
def test_32_fetched_model_and_task_run_offline(tmp_path, repositories):
    with serve_hub(repositories) as server:
        fetched, fetching = bench(tmp_path, server.endpoint, "fetch", *CHOICE, "--json")
        endpoint = server.endpoint
    assert fetched.returncode == 0, fetched.stderr
    model, task = json.loads(fetched.stdout)["fetched"]
    assert model["revision"] == COMMIT
    assert task["task"] == "glue/cola"

    ran, seconds = bench(tmp_path, endpoint, *RUN)
    assert ran.returncode == 0, ran.stderr
    assert "1 of 1 job is finished." in ran.stdout
    # The libraries would retry for half a minute or more. The time of `fetch` accounts for slow
    # machines.
    assert seconds < 15 + 3 * fetching

    with open_store(tmp_path / "x.sqlite", create=False) as store:
        (row,) = store.runs()
        job = store.result(row.key).job
    assert (job.model, job.data, job.limit) == ("org/name", "hub", 16)
    assert job.weights == f"hub:org/name@{COMMIT}"


UNREACHABLE = {
    "data": ("--model", "tiny", "--task", "cola"),
    "known model": ("--model", "roberta", "--task", "cola", "--data", "mini"),
    "any model": ("--model", "org/name", "--task", "cola", "--data", "mini"),
}


@pytest.mark.parametrize("name", in_part(UNREACHABLE, ["known model"]))
def test_32_unreachable_hub_is_reported_in_one_sentence_after_one_request(tmp_path, name):
    with silent_hub() as silent:
        ended, _ = bench(tmp_path, silent.endpoint, "run", *UNREACHABLE[name], "--db", "x.sqlite")
        assert silent.count_connections() == 1, "the libraries would try again for minutes"
    assert ended.returncode == 4
    assert ended.stdout == ""
    assert ended.stderr.startswith("bench: ")
    assert ended.stderr.count("\n") == 1
    assert "--data DIR" in ended.stderr
    assert "--data mini" in ended.stderr
    assert not Path(tmp_path / "x.sqlite").exists()
