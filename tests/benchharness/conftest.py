"""Fixtures: the command line in this process, with or without real jobs."""

import signal
import sys
from functools import partial
from typing import NamedTuple

import pytest
from fake_worker import COMMAND


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def a_wide_pipe(monkeypatch):
    """Tables are as wide as in a pipe, whatever width the test runner's environment names."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def bench(monkeypatch, capsys, tmp_path):
    """Calls the command line in an empty folder; gives how it ended."""
    from benchharness.cli.app import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DB", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    before = signal.getsignal(signal.SIGTERM)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ended(ended.value.code or 0, captured.out, captured.err)

    yield call
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def fake_jobs(monkeypatch):
    """Makes `bench run` plan these jobs and run them by the fake worker."""
    from benchharness.engines.local import LocalEngine

    engine = partial(LocalEngine, command=COMMAND)
    monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)

    def plan(jobs):
        monkeypatch.setattr("benchharness.plan.plan_jobs", lambda *args, **options: list(jobs))
        monkeypatch.setattr("benchharness.floor_jobs.floor_jobs", lambda *args: [])

    return plan
