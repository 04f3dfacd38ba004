import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchharness.engines.fork_server import ForkServer
from benchharness.engines.process import WORKER
from benchharness.errors import DataError, ForeignCodeError, JobError, ModelError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.worker import job as job_module
from benchharness.worker.__main__ import _failure
from benchharness.worker.job import run_job
from tests.helpers.bench_process import all_gone
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.mini_jobs import make_job
from tests.helpers.stopped_jobs import forked

AX = find_task("ax")


def test_result_of_a_job_has_evaluations_a_curve_cost_and_provenance():
    job = make_job("cola")
    lines: list[Progress] = []
    result = run_job(job, lines.append)
    assert result.job == job
    assert [(e.task, e.split) for e in result.evaluations] == list(job.predicted_splits)
    assert [e.fingerprint for e in result.evaluations] == list(job.fingerprints.values())[1:]
    assert [point.step for point in result.curve] == [1, 2, 3]
    assert result.cost.steps == 3
    assert result.cost.train_tokens > 48 * 3
    assert result.cost.parameters > 300_000
    assert result.cost.seconds > result.cost.train_seconds > 0
    assert result.cost.predict_seconds > 0
    assert result.cost.peak_memory_bytes > 50e6
    assert result.provenance["data"]["glue/cola:train"]["rows"] == 48
    assert result.provenance["machine"]["device"] == "cpu"
    phases = list(dict.fromkeys(line.phase for line in lines))
    assert phases == ["loading", "encoding", "training", "predicting"]
    assert Result.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False))) == result


def test_training_time_excludes_predictions_after_training(monkeypatch):
    predict = job_module.predict

    def slowly(*given: Any) -> Any:
        time.sleep(0.5)
        return predict(*given)

    monkeypatch.setattr(job_module, "predict", slowly)
    cost = run_job(make_job("cola", limit=16, evaluations="1")).cost
    assert cost.predict_seconds > 1.0 > 2 * cost.train_seconds, "dev and test"


def test_job_stores_predictions_of_all_rows_and_scores_only_public_labels():
    result = run_job(make_job("cola"))
    dev, test = result.evaluations
    task = find_task("cola")
    rows = read(task, "dev", parse_data("mini"), 48)
    assert [row["id"] for row in dev.predictions] == [example.id for example in rows.examples]
    assert dev.scores == result.curve[-1].scores
    right = [row["label"] == e.label for row, e in zip(dev.predictions, rows.examples, strict=True)]
    assert 0 < sum(right) < len(right) or dev.flags
    assert test.scores == {}, "the labels of the test split are hidden"
    assert len(test.predictions) == 48


def test_mnli_job_also_predicts_the_glue_diagnostic():
    result = run_job(make_job("mnli"))
    names = [(e.task, e.split) for e in result.evaluations]
    assert ("glue/ax", "test") in names
    ax = result.evaluations[names.index(("glue/ax", "test"))]
    assert set(ax.scores) == {m.name for m in AX.metrics + AX.details}
    assert {row["label"] for row in ax.predictions} <= set(find_task("mnli").labels)
    assert "accuracy_mm" in result.evaluations[names.index(("glue/mnli", "dev_mm"))].scores


def test_regression_job_stores_numeric_predictions():
    dev = run_job(make_job("stsb")).evaluations[0]
    assert {"pearson", "spearman"} <= set(dev.scores)
    assert all(isinstance(row["label"], float) for row in dev.predictions)


def test_job_run_twice_has_identical_results():
    job = make_job("glue/rte")
    assert run_job(job).evaluations == run_job(job).evaluations


def test_data_changed_since_planning_are_an_error_in_a_worker():
    job = make_job("cola")
    changed = replace(job, fingerprints={**job.fingerprints, "glue/cola:train": "0" * 64})
    with pytest.raises(DataError, match=r"glue/cola train .mini. has changed since"):
        run_job(changed)


def test_a_job_trains_a_checkpoint_folder(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "small")
    result = run_job(make_job("glue/rte", model=str(folder), max_tokens="40"))
    assert result.job.weights.startswith("sha256:")
    assert result.evaluations[0].scores


# The worker process.


def start(job: Job, file: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        (*WORKER, str(file)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert process.stdin
    with process.stdin as stdin:
        stdin.write(json.dumps(job.to_json()).encode())
    process.stdin = None
    return process


def test_the_worker_prints_progress_and_writes_a_result(tmp_path: Path):
    job = make_job("cola")
    process = start(job, tmp_path / "result.json")
    output, errors = process.communicate(timeout=60)
    lines = [json.loads(line) for line in output.splitlines()]
    assert (process.returncode, errors) == (0, b"")
    assert Progress(**lines[0]).phase == "loading"
    assert {"training", "predicting"} <= {line["phase"] for line in lines}
    result = Result.from_json(json.loads((tmp_path / "result.json").read_text()))
    assert result.job.key == job.key
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


def test_forked_worker_writes_a_failure_if_training_diverges(
    tmp_path: Path, shared_forks: ForkServer
):
    job = make_job("cola", learning_rate="1e30", warmup_ratio="0", epochs="20")
    with forked(shared_forks, job, tmp_path / "result.json") as (fork, _):
        status = fork.wait(60)
    failure = Failure.from_json(json.loads((tmp_path / "result.json").read_text()))
    assert (status, failure.kind, failure.exit_code) == (1, "diverged", 1)
    assert failure.error.startswith("the training diverged: at step")
    assert failure.job == job


def test_forked_worker_terminated_by_a_signal_writes_an_interrupted_failure(
    tmp_path: Path, shared_forks: ForkServer
):
    job = make_job("cola", limit=None, epochs="500")
    with forked(shared_forks, job, tmp_path / "result.json") as (fork, lines):
        next(line for line in lines if json.loads(line)["phase"] == "training")
        os.kill(fork.pid, signal.SIGTERM)
        status = fork.wait(60)
    failure = Failure.from_json(json.loads((tmp_path / "result.json").read_text()))
    assert (status, failure.kind, failure.exit_code) == (143, "interrupted", 143)
    assert failure.error == "stopped by SIGTERM"


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")
def test_worker_ends_if_its_parent_process_is_killed(tmp_path: Path):
    job = tmp_path / "job.json"
    job.write_text(json.dumps(make_job("cola", limit=None, epochs="500").to_json()))
    program = (
        "import subprocess, sys\n"
        f"worker = subprocess.Popen({[*WORKER, str(tmp_path / 'r.json')]!r}, stdout=sys.stderr,"
        f" stdin=open({str(job)!r}))\n"
        "print(worker.pid, flush=True)\n"
        "worker.wait()\n"
    )
    parent = subprocess.Popen(
        (sys.executable, "-c", program), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert parent.stdout
    assert parent.stderr
    worker = int(parent.stdout.readline())
    parent.stderr.readline()  # after the first line, the worker will end with its parent
    parent.kill()
    parent.communicate()
    assert all_gone([worker])


@pytest.mark.parametrize(
    ("error", "kind", "exit_code", "sentence"),
    [
        (ModelError("no weights."), "failed", 4, "no weights."),
        (JobError("lost."), "failed", 1, "lost."),
        # Exit code 4 would also skip the other jobs of the model, which did not cause this error.
        (DataError("changed."), "failed", 1, "changed."),
        (ForeignCodeError("not loaded."), "failed", 1, "not loaded."),
        (ZeroDivisionError("by zero"), "failed", 1, "ZeroDivisionError: by zero"),
    ],
)
def test_exception_in_a_worker_becomes_a_failure_with_kind_and_exit_code(
    error: Exception, kind: str, exit_code: int, sentence: str
):
    failure = _failure(make_job("cola"), error)
    assert (failure.kind, failure.exit_code, failure.error) == (kind, exit_code, sentence)
    assert type(error).__name__ in failure.details
