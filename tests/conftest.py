"""Fixtures and hooks of all tests, and the command line in this process."""

import atexit
import gc
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from benchharness.worker import importing

# If each of two test processes had one thread per core, the threads would mostly wait for each
# other. The variable is set before torch is imported, because torch reads it then. Processes that
# tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Interpret Triton's kernels if there is no GPU. The variable is set before triton is imported.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# An editable installation makes only benchharness importable, but some processes import
# tests.helpers.
_PATHS = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PATHS))


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without garbage collection: imported modules stay alive anyway."""
    with importing():
        return (yield)


def pytest_collection_modifyitems(items):
    """Run modules with slow tests first, so that parallel test processes end together.

    This needs `--no-loadscope-reorder`; else small modules with one slow test would run last.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    slow.update(item.path for item in items if item.path.parent == Path(__file__).parent)
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def a_wide_pipe(monkeypatch):
    """Make tables as wide as in a pipe, whatever COLUMNS the test runner sets."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session", autouse=True)
def heeds_sigint():
    """Make Ctrl-C work here and in the processes that tests start.

    A script's `make test &` starts with SIGINT ignored, which every child inherits and, as it
    should, goes on ignoring.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def shared_forks():
    """Let runs in this process share fork servers, instead of starting one process each."""
    # Imported here, after OMP_NUM_THREADS was set above.
    from tests.helpers.shared_forks import SharedForks

    forks = SharedForks()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchharness.engines.local.ForkServer", forks.fresh_or_shared)
        yield forks
    forks.end()


@pytest.fixture(scope="module")
def frozen_heap():
    """Freeze the heap: each later garbage collection would look through it again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None:
        return
    import torch  # imported here, after OMP_NUM_THREADS was set above

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")


@pytest.fixture(scope="module", autouse=True)
def same_tables():
    """Remove the suites and tasks that the tests of a module have added to the built-in ones."""
    from benchharness.tasks import suites

    tables = (suites._suites, suites._tasks)
    before = [dict(table) for table in tables]
    yield
    for table, known in zip(tables, before, strict=True):
        if table != known:
            table.clear()
            table.update(known)


@pytest.fixture(scope="session")
def evaluate_copies(tmp_path_factory):
    """Redirect evaluate's copies of scripts to a folder, a setting that it reads once."""
    import evaluate

    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("evaluate")
        patch.setattr(evaluate.config, "HF_METRICS_CACHE", str(folder / "metrics"))
        patch.setattr(evaluate.config, "HF_MODULES_CACHE", str(folder / "modules"))
        yield


@pytest.fixture
def bench(monkeypatch, capsys, tmp_path):
    """Call the command line in an empty folder; return its exit code and output."""
    from benchharness.cli.app import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DB", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    before, threshold = signal.getsignal(signal.SIGTERM), gc.get_threshold()

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ended(ended.value.code or 0, captured.out, captured.err)

    yield call
    signal.signal(signal.SIGTERM, before)
    gc.set_threshold(*threshold)
    atexit.unregister(gc.freeze)


@pytest.fixture
def nvidia_smi(monkeypatch, tmp_path):
    """Install a shell script as `nvidia-smi`, first on the PATH."""

    def install(script):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return install


@pytest.fixture
def store(tmp_path):
    """An empty store, open."""
    # Imported here, after OMP_NUM_THREADS was set above.
    from benchharness.leaderboard.store.store import open_store

    with open_store(tmp_path / "board.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium, one per module: playwright keeps a loop running while it is open."""
    # Imported here, after OMP_NUM_THREADS was set above.
    from tests.helpers.browser import running_browser

    with running_browser() as running:
        yield running


@pytest.fixture
def fake_jobs(monkeypatch):
    """Make `bench run` plan these jobs and run them with the fake worker."""
    from benchharness.driver.plan import Plan
    from benchharness.engines.local import LocalEngine
    from tests.helpers.fake_worker import COMMAND

    engine = partial(LocalEngine, command=COMMAND)
    monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)

    def plan(jobs):
        planned = Plan(jobs=tuple(jobs), rows={})
        monkeypatch.setattr("benchharness.driver.session.plan", lambda *args, **options: planned)

    return plan
