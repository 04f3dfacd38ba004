"""Tests of `bench run` with jobs that start from another job's encoder.

They train for real, and kill a real process.
"""

import json
import signal
import sys

import pytest

from benchharness.leaderboard.store.store import open_store
from tests.helpers import bench_process
from tests.helpers.bench_process import all_gone, start, table, wait_for_line, workers_of

CHAIN = """
[glue.rte]
start_from = { value = "glue/mnli", source = "a paper" }

[glue.mrpc]
start_from = { value = "glue/mnli", source = "a paper" }

[superglue.rte]
start_from = { value = "glue/mnli", source = "a paper" }
"""
COMMAND = (
    *("run", "--model", "tiny", "--data", "mini", "--limit", "32", "--set", "epochs=1"),
    *("--task", "glue/rte", "--task", "mrpc", "--task", "axb", "--task", "axg"),
    *("--recipe", "chain.toml", "--seeds", "1", "--no-baselines", "--device", "cpu", "--jobs", "1"),
)


def prepare(folder):
    folder.mkdir(exist_ok=True)
    (folder / "chain.toml").write_text(CHAIN)
    return folder


def stored(folder):
    """Return the stored run of each task, and its number of attempts."""
    with open_store(folder / "results" / "leaderboard.sqlite", create=False) as store:
        return {row.task: (row, len(store.attempts(row.key))) for row in store.runs()}


@pytest.fixture
def finished(bench, tmp_path):
    """Folder of `bench`, in which the chain ran without a stop, and the output of the run."""
    return prepare(tmp_path), bench(*COMMAND)


def test_start_task_is_trained_once_for_all_jobs_that_start_from_it(finished, bench):
    folder, (code, out, err) = finished
    assert code == 0, err
    sentence = "MNLI is trained first, as the starting point for RTE, MRPC, SuperGLUE RTE"
    assert sentence in out
    ended = [line for line in err.splitlines() if line.startswith("[")]
    assert ended[0].startswith("[1/4] tiny MNLI")
    rows = stored(folder)
    assert [number for _, number in rows.values()] == [1, 1, 1, 1]
    mnli, _ = rows.pop("glue/mnli")
    assert mnli.start_from is None
    assert {task: row.start_from for task, (row, _) in rows.items()} == dict.fromkeys(
        ("glue/rte", "glue/mrpc", "superglue/rte"), mnli.key
    )
    assert set(rows["superglue/rte"][0].scores) >= {"superglue/axb", "superglue/axg"}
    assert list((folder / "results" / "models").iterdir()) == [], "nobody needs it any more"
    run = f"(run {mnli.key[:12]})"
    assert f"glue/mnli {run}" in bench("show", rows["glue/rte"][0].key).out
    page = (folder / "results" / "leaderboard.html").read_text(encoding="utf-8")
    assert f"started from MNLI {run}" in page
    found = json.loads(bench("leaderboard", "--json").out)
    boards = {board["suite"]: board["entries"][0] for board in found}
    assert boards["glue"]["started_from"] == dict.fromkeys(("glue/mrpc", "glue/rte"), "glue/mnli")
    assert boards["superglue"]["started_from"]["superglue/axb"] == "glue/mnli"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends the workers on Linux")
@pytest.mark.soak
def test_killed_chain_is_resumed_without_repeating_finished_jobs(finished, tmp_path):
    folder = prepare(tmp_path / "killed")
    process = start(folder, *COMMAND)
    wait_for_line(process, "[2/4]")
    workers = workers_of(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert all_gone(workers)
    kept = folder / "results" / "models"
    assert len(list(kept.iterdir())) == 1, "two jobs still need it"
    code, out, err = bench_process.bench(folder, *COMMAND)
    assert code == 0, err
    assert "2 stored already, 2 to run" in out
    assert "The trained encoder of MNLI exists already" in out
    assert "mnli" not in err, "it was not trained again"
    assert [number for _, number in stored(folder).values()] == [1, 1, 1, 1]
    assert table(folder) == table(finished[0])
    assert list(kept.iterdir()) == []
