"""Benchmark runs of benchharness and of the Trainer script: options, and reported measurements."""

import argparse
import json
from dataclasses import replace

import pytest

from benchmarks.__main__ import _chosen, _turns
from benchmarks.figures import Comparison
from benchmarks.sample import draw_sample
from benchmarks.shapes import MINI
from benchmarks.sides import SIDES, USUAL, machine
from benchmarks.workloads import Values, find_workload
from tests.helpers.checkpoints import save_checkpoint

pytest.importorskip("accelerate")

FEW = replace(
    find_workload("glue/rte"), train_rows=16, dev_rows=8, values=Values(epochs=1, max_tokens=40)
)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", [[1], pytest.param([1, 2], marks=pytest.mark.soak)])
@pytest.mark.soak
def test_both_benchmark_programs_report_scores_costs_and_speed(tmp_path, seeds):
    checkpoint = save_checkpoint(tmp_path / "model")
    data = draw_sample(FEW, MINI, tmp_path / "data")
    runs = [SIDES[side](FEW, str(checkpoint), data, seeds) for side in ("ours", "best")]
    assert [run.side for run in runs] == ["ours", "best"]
    assert {tuple(scores) for run in runs for scores in run.scores} == {("accuracy",)}
    assert {len(run.scores) for run in runs} == {len(seeds)}
    assert all(run.seconds > run.train_seconds > 0 for run in runs)
    assert all(run.peak_bytes > 100e6 for run in runs)
    ours, best = runs
    assert ours.details["train_tokens"] == best.details["train_tokens"]
    entry = {"name": "RTE", "task": FEW.task, "runs": [vars(run) for run in runs]}
    sizes = json.loads((checkpoint / "config.json").read_text())
    record = {"model": sizes, "peak_gflops": [{"fp32": 1.0, "bf16": 1.0}]}
    comparison = Comparison.of(entry, record)
    assert comparison.ratio("best") > 0
    assert comparison.share_of_peak("ours") > 0


def test_benchmark_samples_are_reproducible(tmp_path):
    texts = [
        (draw_sample(FEW, MINI, tmp_path / name) / "RTE" / "train.tsv").read_text()
        for name in ("first", "second")
    ]
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) == 1 + 16


def make_options(**changes):
    options = {"task": None, "limit": None, "side": None, "default_rounds": None}
    return argparse.Namespace(**options | changes)


def test_benchmark_row_limit_applies_to_every_task():
    chosen = _chosen(make_options(limit=8, task=["glue/rte", "race/all"]))
    assert [(w.task, w.train_rows, w.dev_rows) for w in chosen] == [
        ("glue/rte", 8, 2),
        ("race/all", 8, 2),
    ]


def test_benchmark_rounds_of_the_slow_program_can_be_limited():
    options = make_options(default_rounds=1)
    assert [tuple(_turns(options, seed)) for seed in (1, 2)] == [USUAL, ("ours", "best")]
    assert tuple(_turns(make_options(), 2)) == USUAL


def test_machine_description_has_no_identifying_names():
    told = machine()
    assert told["cores"] >= 1
    assert set(told) == {
        "processor",
        "cores",
        "matrix_units",
        "load_before",
        "threads",
        "versions",
    }
