import os
import subprocess
import sys

import pytest

from benchmarks.growth import Point, write_rows
from benchmarks.matmul import peak_gflops
from benchmarks.record import ROOT
from benchmarks.whole_process import LIMIT, run_whole

HOLD = "import os, time; held = b'x' * {size}; {more}; time.sleep(2); print(os.environ['NAME'])"


def test_time_memory_and_output_of_a_process_are_measured():
    command = [sys.executable, "-c", HOLD.format(size=80_000_000, more="0")]
    ended = run_whole(command, {"NAME": "value"})
    assert ended.stdout == "value\n"
    assert ended.seconds >= 2
    assert 0 < ended.cpu_seconds < ended.seconds
    assert 80e6 < ended.peak_bytes < 200e6


@pytest.mark.soak
def test_peak_memory_of_a_process_includes_its_children():
    child = HOLD.format(size=60_000_000, more="0")
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    command = [sys.executable, "-c", HOLD.format(size=60_000_000, more=start)]
    assert run_whole(command, {"NAME": ""}).peak_bytes > 120e6


def test_failed_benchmark_process_is_an_error_with_its_message():
    with pytest.raises(RuntimeError, match="no such thing"):
        run_whole([sys.executable, "-c", "raise SystemExit('no such thing')"], {})


def test_hanging_benchmark_process_is_killed_at_the_time_limit():
    token = LIMIT.set(0.5)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            run_whole([sys.executable, "-c", "import time; time.sleep(600)"], {})
    finally:
        LIMIT.reset(token)


def test_benchmark_processes_keep_the_folders_of_pythonpath():
    """Test a machine without an installation, whose PYTHONPATH names the libraries."""
    told = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), "/elsewhere"))}
    code = "from benchmarks.sides import ENVIRONMENT; print(ENVIRONMENT['PYTHONPATH'])"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    first, *_, last = found.stdout.strip().split(os.pathsep)
    assert (first, last) == (str(ROOT), "/elsewhere")


def test_peak_rate_of_matrix_products_is_measured(monkeypatch):
    import torch

    monkeypatch.setattr("benchmarks.matmul.SHAPES", {"cpu": ((64, 64, 64),), "cuda": ()})
    monkeypatch.setattr("benchmarks.matmul.SECONDS", 0.001)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert peak_gflops(torch.float32) > 0


def test_generated_benchmark_rows_have_the_requested_token_count(tmp_path):
    write_rows(tmp_path, Point(rows=20, tokens=32))
    header, *rows = (tmp_path / "SST-2" / "train.tsv").read_text().splitlines()
    assert header == "sentence\tlabel"
    assert len(rows) == 20
    assert {len(row.split("\t")[0].split()) for row in rows} == {30}
    assert {row.split("\t")[1] for row in rows} == {"0", "1"}
