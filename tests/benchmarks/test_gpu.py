"""GPU benchmark: it resumes, and its tables name the measured device."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from benchharness.tiny import folder
from benchmarks import gpu, tables
from benchmarks.gpu_tables import NOTHING, PIECES, TRIAL, gpu_page
from benchmarks.record import begin
from tests.helpers.measured import make_run

SIZES = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 256}


def record(steps: dict[str, Any], device: str = "cuda") -> dict[str, Any]:
    return begin(str(folder()), "") | {"device": device, "gpu": "", "steps": steps}


def side(name: str, seconds: float) -> dict[str, Any]:
    run = make_run(name, 1, seconds, seconds / 2)
    run["details"] |= {"device_bytes": 2e9, "train_rows": 3668}
    workload = {"name": "MRPC", "task": "glue/mrpc", "train_rows": 9000, "head": "pair"}
    workload["values"] = {"batch_size": 32, "epochs": 1}
    return {"shape": "base", "model": SIZES, "workload": workload, "run": run}


@pytest.fixture
def two_steps(monkeypatch: pytest.MonkeyPatch) -> tuple[Mock, Mock]:
    """Replace the steps of a piece by two, the second of which fails at first."""
    first = Mock(return_value={"seconds": 1.0})
    second = Mock(side_effect=[RuntimeError("out of luck"), *[{"seconds": 2.0}] * 2])
    steps = [("one seed", first), ("five seeds", second)]
    monkeypatch.setattr(gpu, "PIECES", {"together": lambda _: steps})
    return first, second


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Call the program on a machine without a GPU; its records go to the temporary folder."""

    def main(*words: str) -> int:
        # Variables that the program sets.
        for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
            monkeypatch.setenv(name, "")
        options = ("--device", "cpu", "--out", str(tmp_path), *words)
        monkeypatch.setattr(sys, "argv", ["gpu", *options])
        return gpu.main()

    return main


def test_gpu_benchmark_resumes_with_failed_steps_only(
    two_steps: tuple[Mock, Mock], call: Callable[..., int], tmp_path: Path
) -> None:
    assert call("--seconds", "1e-9") == 3
    assert [step.call_count for step in two_steps] == [0, 0], "after its seconds no step begins"
    page, records = tmp_path / "tables.md", tmp_path / "together.json"
    assert call() == 1
    kept = json.loads(records.read_text())
    assert kept["steps"]["one seed"] == {"seconds": 1.0}
    assert kept["device"] == "cpu"
    assert "five seeds: `RuntimeError: out of luck`" in page.read_text()
    assert call() == 0
    assert [step.call_count for step in two_steps] == [1, 2]
    assert "| five seeds | 2.0 | 2.0 |" in page.read_text()
    assert page.read_text().startswith(TRIAL)


@pytest.fixture
def at(tmp_path: Path) -> gpu.Setting:
    return gpu.Setting(device="cuda", model=tmp_path, data=tmp_path, scratch=tmp_path)


def test_gpu_benchmark_parts_have_unique_step_names(
    at: gpu.Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tuple(gpu.PIECES) == PIECES
    monkeypatch.setattr(gpu.Setting, "drawn", lambda *_: "")
    for device in gpu.SCALES:
        for piece in gpu.PIECES.values():
            steps = [step for step, _ in piece(replace(at, device=device))]
            assert len(steps) == len(set(steps)) > 0


def test_gpu_benchmark_alternates_programs_and_runs_cpu_steps_last(at: gpu.Setting) -> None:
    for shape, first in (("base", ["default"]), ("large", [])):
        steps = [step for step, _ in gpu.peer(at) if step.startswith(f"{shape} glue/mrpc")]
        sides = ["ours", "best-gpu", *first, "ours", "best-gpu"]
        assert [step.split()[2].strip(",") for step in steps] == sides
    assert list(gpu.PIECES)[-1] == "scores"
    assert [step.split()[-1] for step, _ in gpu.scores(at)] == ["device"] * 4 + ["CPU"] * 4


def test_gpu_test_modules_are_found_without_importing_them(
    at: gpu.Setting,
) -> None:
    files = [step.rpartition("/")[2] for step, _ in gpu.tests(at)]
    assert files == ["test_fused.py", "test_gpu.py", "test_on_gpu.py", "test_15_out_of_memory.py"]


@pytest.mark.usefixtures("two_steps")
def test_gpu_benchmark_record_lists_every_commit_and_refuses_another_device(
    call: Callable[..., int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for commit in ("one", "other+", "other+"):
        monkeypatch.setattr("benchmarks.record._commit", lambda told=commit: told)
        call()
    path = tmp_path / "together.json"
    kept = json.loads(path.read_text())
    assert kept["commit"] == "one, other+"
    path.write_text(json.dumps({**kept, "gpu": "NVIDIA H100", "steps": {}}))
    assert call() == 0, "without a GPU what needs none goes on"
    assert json.loads(path.read_text())["gpu"] == "NVIDIA H100"
    for name, other in (("device", "cuda"), ("model", {"model_type": "bert"}), ("gpu", "H100")):
        path.write_text(json.dumps({**kept, name: other}))
        monkeypatch.setattr(gpu, "_name_of", lambda _, told=name: "H200" if told == "gpu" else "")
        with pytest.raises(SystemExit, match="results of another device"):
            call()


def test_gpu_section_of_the_page_shows_no_cpu_measurements() -> None:
    trial = {"together": record({"one seed": {"seconds": 1.0}}, "cpu")}
    assert gpu_page(trial, trial=False) == [NOTHING]
    assert gpu_page(trial)[0] == TRIAL
    assert gpu_page(dict.fromkeys(PIECES)) == [NOTHING]
    page = tables.PAGE.read_text(encoding="utf-8")
    assert re.match(r"# Performance\n\n(.+\n)+\n## On a GPU\n\n<!-- gpu -->\n", page)


def test_gpu_speed_ratio_is_relative_to_the_fastest_flags_of_transformers() -> None:
    peaks = {"fp32": 1.0, "bf16": 10.0, "tf32": 5.0}
    about = {"peak_gflops": peaks, "cores": 2, "processor": "p", "versions": {"torch": "2"}}
    seconds = {"ours": 10.0, "best-gpu": 45.0, "best-compiled": 30.0, "default": 120.0}
    sides = {name: side(name, each) for name, each in seconds.items()}
    page = gpu_page({"peer": record({"machine": about, **sides})})
    (row,) = [line for line in page if line.startswith("| MRPC")]
    # 115 steps take 5 s in benchharness and 15 s with the best flags of the Trainer.
    assert row.startswith("| MRPC, 3,668 | 10.0, 30.0, 120.0 | 3.0 | 12.0 | 43.5, 130.4, ")
    assert "Geometric mean of GLUE's tasks: 3.0 and 12.0." in page
    assert TRIAL not in page


def test_gpu_score_table_compares_cpu_and_gpu_scores_per_task_and_in_total() -> None:
    seeds = [{"accuracy": a, "f1": 0.7} for a in (0.80, 0.81, 0.82)]
    near = [{"accuracy": a, "f1": 0.7} for a in (0.801, 0.810, 0.819)]
    steps = {"glue/rte device": {"scores": seeds}, "glue/rte CPU": {"scores": near}}
    page = gpu_page({"scores": record(steps)})
    (row,) = [line for line in page if line.startswith("| RTE accuracy")]
    assert row.startswith("| RTE accuracy | 3 | 81.0 (1.0) | 81.0 (0.9) | +0.0 |")
    assert row.endswith("| equivalent |")
    assert any(line.startswith("| all  | 3 | 81.0 (1.0) |") for line in page)


def test_cuda_device_option_without_a_gpu_is_an_error(
    call: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        call("--device", "cuda")
    assert "lists no GPU; --device cpu tests this program" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
