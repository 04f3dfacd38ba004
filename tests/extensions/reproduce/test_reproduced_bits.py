"""Tests that real runs of several heads and techniques are reproduced bit by bit.

With another number of threads, they are reproduced within the noise of seeds. The quick test runs a
few jobs; the others are soak tests.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.helpers.bench_process import BENCH, environment

MINI = ("--data", "mini", "--limit", "40", "--device", "cpu", "--precision", "fp32", "--seeds", "1")
QUICK = ("--set", "epochs=1", "--set", "batch_size=16")

KINDS = {
    "heads": (
        *("--task", "glue/rte", "--task", "glue/stsb", "--task", "superglue/copa"),
        *("--task", "squad/v1.1", "--task", "squad/v2.0", "--task", "superglue/multirc"),
        *("--task", "superglue/record", "--task", "superglue/wsc", "--task", "conll2003/ner"),
    ),
    "seeds": ("--task", "glue/mrpc", "--seeds", "4"),
    "sweep": ("--task", "glue/cola", "--set", "learning_rate=1e-3,2e-3,5e-4"),
    "start": ("--task", "glue/rte", "--start-from", "glue/mnli"),
    "multi-task": ("--multi-task", "glue/rte,glue/mrpc,glue/cola"),
    "frozen": ("--task", "glue/sst2", "--recipe", "features"),
    "adapters": ("--task", "glue/sst2", "--set", "lora_rank=4"),
    "teacher": ("--task", "glue/wnli", "--teacher", "tiny"),
    "shots": ("--task", "glue/sst2", "--shots", "8,16"),
    "zero-shot": ("--task", "glue/sst2", "--shots", "0"),
    "text": ("--task", "glue/qnli", "--set", "evaluations=4", "--set", "best_checkpoint=true"),
    "kept": ("--task", "glue/qqp", "--keep-models"),
    "bf16": ("--task", "glue/rte", "--precision", "bf16"),
    "more": ("--task", "snli/snli", "--task", "race/all", "--task", "swag/regular", "--test"),
}
"""Options of `bench run` for each kind of runs."""


def call(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*BENCH, *words),
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def run(folder: Path, *kinds: str) -> None:
    for kind in kinds:
        settings = () if {"--set", "--recipe"} & {*KINDS[kind]} else QUICK
        done = call(folder, "run", "--model", "tiny", *MINI, *settings, *KINDS[kind])
        assert done.returncode == 0, (kind, done.stderr)


def reproduced(folder: Path, *words: str, **variables: str) -> list[dict]:
    done = call(folder, "reproduce", "--json", *words, **variables)
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout)["outcomes"]


def test_span_model_and_baseline_are_reproduced_bit_by_bit(bench):
    tasks = ("--task", "squad/v2.0")
    ended = bench("run", "--model", "tiny", "--model", "majority", *MINI, *QUICK, *tasks,
                  "--no-baselines")  # fmt: skip
    assert ended.code == 0, ended.err
    ended = bench("reproduce", "--json")
    assert ended.code == 0, ended.out
    found = json.loads(ended.out)["outcomes"]
    assert [each["verdict"]["kind"] for each in found] == ["bits"] * 2, found


@pytest.mark.soak
def test_job_that_starts_from_another_run_is_repeated_together_with_that_run(bench):
    start = ("--task", "glue/wnli", "--start-from", "glue/rte", "--no-baselines")
    assert bench("run", "--model", "tiny", *MINI, *QUICK, *start).code == 0
    runs = {each["task"]: each for each in json.loads(bench("show", "runs", "--json").out)}
    ended = bench("reproduce", runs["glue/wnli"]["key"], "--json")
    (found,) = json.loads(ended.out)["outcomes"]
    assert found["verdict"]["kind"] == "bits", found


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_forty_runs_of_all_kinds_are_reproduced_bit_by_bit_and_with_other_threads_within_noise(
    tmp_path,
):
    run(tmp_path, *KINDS)
    found = reproduced(tmp_path, "--jobs", "2")
    assert len(found) >= 40
    wrong = [each for each in found if not each["verdict"] or each["verdict"]["kind"] != "bits"]
    assert not wrong, wrong
    elsewhere = (
        reproduced(tmp_path, "--threads", "3"),
        reproduced(tmp_path, ATEN_CPU_CAPABILITY="default"),
    )
    for outcomes in elsewhere:
        good = ("bits", "answers", "within")
        wrong = [each for each in outcomes if each["verdict"]["kind"] not in good]
        assert not wrong, wrong
    listed = json.loads(call(tmp_path, "reproduce", "--list", "--json").stdout)
    assert len(listed) == 3 * len(found)
    # Only lock files are left.
    assert not [p for p in (tmp_path / "results" / "reproductions").iterdir() if p.is_dir()]
