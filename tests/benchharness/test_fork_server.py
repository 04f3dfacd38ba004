"""Tests that forked workers behave like workers that are started by a command."""

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchharness import worker
from benchharness.engines import fork_server, local, process
from benchharness.engines.fork_server import Fork, ForkServer, can_fork, is_readable
from benchharness.engines.local import LocalEngine
from benchharness.engines.process import Orders, Outcome
from benchharness.engines.slots import find_slots
from benchharness.kept_folders import Holds
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress
from benchharness.tasks.suites import TASKS
from benchharness.worker import DIES_WITH
from benchharness.worker.fork_server import (
    LARGEST_MESSAGE,
    MODULES,
    NVML,
    modules_for,
    modules_of,
)
from tests.helpers import fake_starter, fake_worker
from tests.helpers.bench_process import is_alive
from tests.helpers.mini_jobs import make_job

pytestmark = pytest.mark.skipif(not can_fork(), reason="this kernel cannot tell of forks' ends")

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with closing(ForkServer()) as server:
        yield server


def process_of(server: ForkServer) -> subprocess.Popen[bytes]:
    assert server._process
    return server._process


def begin(server: ForkServer, file: Path) -> Fork:
    """Return a worker that waits for its job on stdin, or has ended already."""
    fork = server.start([str(file)], ENVIRONMENT, ())
    while not fork.has_begun:
        time.sleep(0.01)
    return fork


def close(*forks: Fork) -> None:
    for fork in forks:
        with suppress(ProcessLookupError):
            os.killpg(fork.pid, signal.SIGKILL)
        fork.wait()
        for pipe in (fork.stdin, fork.stdout, fork.stderr):
            assert pipe
            pipe.close()


def wait_until_gone(pid: int) -> None:
    while is_alive(pid):
        time.sleep(0.02)


def test_forked_worker_leads_a_session_and_returns_its_exit_status(
    server: ForkServer, tmp_path: Path
) -> None:
    fork = begin(server, tmp_path / "result.json")
    assert os.getsid(fork.pid) == fork.pid != os.getsid(0)
    assert fork.poll() is None
    assert fork.stdin
    assert fork.stdout
    assert fork.stderr
    fork.stdin.close()  # without a job on stdin, the JSON parser raises an error
    assert fork.wait() == fork.poll() == 1
    assert b"JSONDecodeError" in fork.stderr.read()
    assert fork.stdout.read() == b""
    close(fork)


NICE = """
import os, time
from contextlib import closing
from pathlib import Path
from benchharness.engines.fork_server import ForkServer
with closing(ForkServer()) as server:
    fork = server.start(["result.json"], {}, ())
    while not fork.has_begun:
        time.sleep(0.01)
    while "nice 0" in (group := Path(f"/proc/{fork.pid}/autogroup").read_text()):
        time.sleep(0.01)
    print(os.getpriority(os.PRIO_PROCESS, fork.pid), group.split()[-1])
"""


@pytest.mark.skipif(not worker.AUTOGROUP.exists(), reason="this kernel has no autogroups")
def test_nice_applies_to_forked_workers_in_their_own_sessions(tmp_path: Path) -> None:
    ended = subprocess.run(
        ("nice", "-n", "1", sys.executable, "-P", "-c", NICE),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.split() == [str(min(os.nice(0) + 1, 19))] * 2


def test_writing_the_autogroup_is_retried_only_if_the_kernel_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [BlockingIOError(), BlockingIOError(), None, FileNotFoundError()]
    written: list[str] = []

    class Group:
        def write_text(self, text: str) -> None:
            written.append(text)
            if (answer := answers.pop(0)) is not None:
                raise answer

    monkeypatch.setattr(worker, "AUTOGROUP", Group())
    monkeypatch.setattr(worker.time, "sleep", lambda _: None)
    monkeypatch.setattr(worker.os, "nice", lambda _: 3)
    worker.keep_priority()
    worker.keep_priority()
    assert written == ["3"] * 4
    monkeypatch.setattr(worker.os, "nice", lambda _: 0)
    worker.keep_priority()
    assert not answers


def test_fork_server_disables_garbage_collection_only_during_imports() -> None:
    before = gc.get_freeze_count()
    try:
        with worker.importing():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_forked_worker_can_be_killed_by_a_signal(server: ForkServer, tmp_path: Path) -> None:
    fork = begin(server, tmp_path / "result.json")
    os.killpg(fork.pid, signal.SIGKILL)
    assert fork.wait() == -signal.SIGKILL
    close(fork)


def test_forked_workers_are_killed_with_their_server(server: ForkServer, tmp_path: Path) -> None:
    first, second = (begin(server, tmp_path / f"{n}.json") for n in range(2))
    pids = first.pid, second.pid
    process_of(server).kill()
    assert first.wait() == second.wait() == -signal.SIGKILL
    for pid in pids:
        wait_until_gone(pid)
    close(first, second)


def test_forked_worker_has_no_pid_if_its_server_ended_before_the_fork(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server that ends at once.
    monkeypatch.setattr(fork_server, "COMMAND", (sys.executable, "-c", ""))
    fork = begin(server, tmp_path / "result.json")
    assert fork.wait() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        _ = fork.pid
    close(fork)


def test_killed_fork_server_is_replaced(server: ForkServer, tmp_path: Path) -> None:
    first = begin(server, tmp_path / "1.json")
    killed = process_of(server)
    killed.kill()
    assert first.wait() == -signal.SIGKILL
    killed.wait()
    second = begin(server, tmp_path / "2.json")
    assert process_of(server) is not killed
    assert is_alive(second.pid)
    close(first, second)


def test_fork_server_and_workers_end_when_the_driver_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from benchharness.engines.fork_server import ForkServer\n"
        "server = ForkServer()\n"
        f"fork = server.start([{str(tmp_path / 'result.json')!r}], {{}}, ())\n"
        "while not fork.has_begun: time.sleep(0.01)\n"
        "print(server._process.pid, fork.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert driver.stdout
    pids = [int(word) for word in driver.stdout.readline().split()]
    driver.kill()
    driver.wait()
    driver.stdout.close()
    for pid in pids:
        wait_until_gone(pid)


def test_fork_server_ends_with_its_driver_even_while_it_imports(tmp_path: Path) -> None:
    """Kill the driver during an import of the server that never ends."""
    begun = tmp_path / "begun"
    hanging = (
        "import benchharness.worker, pathlib, time\n"
        f"pathlib.Path({str(begun)!r}).touch()\n"
        "time.sleep(60)\n"
    )
    code = (
        "import sys, time\n"
        "from benchharness.engines import fork_server\n"
        f"fork_server.COMMAND = (sys.executable, '-c', {hanging!r})\n"
        "server = fork_server.ForkServer()\n"
        "server.prepare({}, ())\n"
        "print(server._process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert driver.stdout
    pid = int(driver.stdout.readline())
    while not begun.exists():
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    driver.stdout.close()
    wait_until_gone(pid)


def test_worker_process_of_a_dead_driver_does_not_start() -> None:
    code = "import benchharness.worker; print('begun')"
    environment = os.environ | {DIES_WITH: "0"}
    words = (sys.executable, "-c", code)
    ended = subprocess.run(words, check=False, env=environment, capture_output=True)
    assert (ended.returncode, ended.stdout) == (1, b"")


def test_local_engine_runs_all_jobs_in_forks_of_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    start = ForkServer.start
    monkeypatch.setattr(
        fork_server.ForkServer,
        "start",
        lambda self, *words, **more: started.append(self) or start(self, *words, **more),
    )
    jobs = [make_job("cola"), make_job("glue/rte")]
    jobs.append(replace(jobs[0], seed=2, checkpoint="/nowhere"))
    outcomes = list(LocalEngine(find_slots("cpu", 1), Orders()).run(iter(jobs), lambda *_: None))
    assert len(started) == 3
    assert len(set(map(id, started))) == 1
    *results, failure = outcomes
    assert [type(result) for result in results] == [Result, Result]
    assert all(isinstance(r, Result) and r.provenance["machine"]["threads"] == 1 for r in results)
    assert isinstance(failure, Failure)
    assert "/nowhere" in failure.error


def test_fork_server_imports_modules_before_it_forks(server: ForkServer, tmp_path: Path) -> None:
    server.prepare(ENVIRONMENT, ["unheard_of", "benchharness.leaderboard.boards.published"])
    process = process_of(server)
    fork = begin(server, tmp_path / "result.json")
    assert process_of(server) is process
    assert is_alive(fork.pid)
    server.close()
    assert not is_alive(process.pid)
    wait_until_gone(fork.pid)
    close(fork)


def test_fork_server_that_dies_before_its_first_fork_is_replaced(
    server: ForkServer, tmp_path: Path
) -> None:
    server.prepare(ENVIRONMENT, ())
    process_of(server).kill()
    process_of(server).wait()
    server.prepare(ENVIRONMENT, ())
    fork = begin(server, tmp_path / "1.json")
    assert is_alive(fork.pid)
    close(fork)


def test_each_forked_worker_has_its_own_exit_status(server: ForkServer, tmp_path: Path) -> None:
    first, second = (begin(server, tmp_path / f"{n}.json") for n in range(2))
    os.killpg(second.pid, signal.SIGKILL)
    assert second.wait() == -signal.SIGKILL
    assert first.poll() is None
    assert first.stdin
    first.stdin.close()
    assert first.wait() == 1
    close(first, second)


@pytest.mark.parametrize("kind", MODULES)
def test_modules_that_the_fork_server_preloads_exist(kind: str) -> None:
    modules = modules_of(kind, TASKS.values())
    assert {"sklearn.metrics", "scipy.stats"} < set(modules)
    assert all(find_spec(module) for module in modules)


def test_fork_server_preloads_metric_libraries_only_for_tasks_that_need_them() -> None:
    assert "sklearn.metrics" in modules_for(make_job("superglue/cb"))
    assert "scipy.stats" in modules_for(make_job("stsb"))
    assert modules_for(make_job("glue/rte")) == (*MODULES["model"], "benchharness.heads.pair")


def test_requests_to_the_fork_server_fit_in_one_datagram() -> None:
    words = ["/" + "x" * 4000, "--start-from", "/" + "x" * 4000]
    assert len(json.dumps(words)) * 2 < LARGEST_MESSAGE


# Fork servers that hang or are killed. Their workers are fake, because they compute nothing.

SENTENCE = "is started again, because the process from which workers are forked hangs or was killed"


@pytest.fixture
def impatient(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> ForkServer:
    monkeypatch.setattr(fork_server, "COMMAND", fake_starter.COMMAND)
    monkeypatch.setattr(local, "WORKER", fake_worker.COMMAND)
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(process, "ANSWER_SECONDS", 0.5)
    return server


class Hearer:
    """A reporter that records notes, and acts when a job first reports training."""

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self.notes: list[str] = []
        self._act: Callable[[], None] | None = act

    def __call__(self, _job: Job, progress: Progress) -> None:
        if progress.note:
            self.notes.append(progress.note)
        if progress.phase == "training" and self._act is not None:
            act, self._act = self._act, None
            act()


def driven_by(server: ForkServer, jobs: list[Job], hear: Hearer, **options: Any) -> list[Outcome]:
    engine = LocalEngine(find_slots("cpu", 2), Orders(**options), forks=server)
    return list(engine.run(iter(jobs), hear))


def test_hanging_fork_server_is_replaced_once_and_then_disabled(
    impatient: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the server hang before its first fork, as if it imported from a hanging file system."""
    stop = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    monkeypatch.setattr(fork_server, "COMMAND", (sys.executable, "-c", stop))
    pids, ask = [], ForkServer._ask

    def noted(self: ForkServer, *words: Any) -> None:
        ask(self, *words)
        pids.append(process_of(self).pid)

    monkeypatch.setattr(ForkServer, "_ask", noted)
    jobs, hear = [fake_worker.make_job(seed=seed) for seed in (1, 2)], Hearer()
    outcomes = driven_by(impatient, jobs, hear, timeout=2.0)
    assert [type(outcome) for outcome in outcomes] == [Result, Result]
    without = f"{SENTENCE}; from now on, workers start without it"
    assert hear.notes == [SENTENCE] * 2 + [without] * 2
    assert len(set(pids)) == 2
    assert not any(map(is_alive, pids))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_jobs_of_a_killed_fork_server_are_restarted(
    impatient: ForkServer, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "ANSWER_SECONDS", 10)  # on a busy machine, a new server is slow
    hear = Hearer(lambda: process_of(impatient).send_signal(number))
    jobs = [fake_worker.make_job("slow:1", seed=seed) for seed in (1, 2)]
    outcomes = driven_by(impatient, jobs, hear)
    assert [type(outcome) for outcome in outcomes] == [Result, Result]
    assert hear.notes[0] == SENTENCE
    assert len(hear.notes) <= 2


def test_job_that_ended_before_its_fork_server_hung_is_not_run_again(impatient: ForkServer) -> None:
    """Stop the server before it reports the exit status of the job, whose pipes are closed."""
    hear = Hearer(lambda: process_of(impatient).send_signal(signal.SIGSTOP))
    outcomes = driven_by(impatient, [fake_worker.make_job("slow:1")], hear)
    assert [type(outcome) for outcome in outcomes] == [Result]
    assert hear.notes == []


@pytest.mark.soak
def test_slow_fork_server_is_not_replaced(
    impatient: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the server import modules for the next job while a worker has already ended."""
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.1)
    monkeypatch.setenv(fake_starter.BUSY, "0.8")
    jobs = [fake_worker.make_job(how, seed=seed) for seed, how in enumerate(("ok", "slow:2"))]
    hear = Hearer()
    outcomes = driven_by(impatient, jobs, hear)
    assert [type(outcome) for outcome in outcomes] == [Result, Result]
    assert hear.notes == []


def test_forked_worker_waits_until_its_pid_is_reported(
    impatient: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the server stopped before it reports the pid, nobody would notice that the worker ends."""
    monkeypatch.setenv(fake_starter.SLOW, "0.3")
    fork = impatient.start([str(tmp_path / "result.json")], ENVIRONMENT, ())
    assert fork.stdin
    assert fork.stdout
    with fork.stdin as stdin:
        stdin.write(json.dumps(fake_worker.make_job().to_json()).encode())
    assert b"training" in fork.stdout.read(100)
    assert fork.has_begun
    close(fork)


def test_suspended_workers_and_servers_do_not_block_the_shutdown(impatient: ForkServer) -> None:
    pids: list[int] = []

    def stop_all() -> None:
        starter = process_of(impatient).pid
        below = Path(f"/proc/{starter}/task/{starter}/children").read_text().split()
        pids.extend([starter, *map(int, below)])
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        raise KeyboardInterrupt

    jobs = [fake_worker.make_job("slow:600", seed=seed) for seed in (1, 2)]
    with pytest.raises(KeyboardInterrupt):
        driven_by(impatient, jobs, Hearer(stop_all))
    assert len(pids) > 1
    for pid in pids:
        wait_until_gone(pid)


@pytest.mark.soak
def test_a_suspended_worker_of_a_suspended_server_is_killed_and_restarted(
    impatient: ForkServer,
) -> None:
    def stop_all() -> None:
        starter = process_of(impatient).pid
        below = Path(f"/proc/{starter}/task/{starter}/children").read_text().split()
        for pid in (starter, *map(int, below)):
            os.kill(pid, signal.SIGSTOP)

    hear = Hearer(stop_all)
    (outcome,) = driven_by(impatient, [fake_worker.make_job("slow:1")], hear, timeout=3.0)
    assert isinstance(outcome, Result)
    assert len(hear.notes) == 1


def test_a_fork_keeps_the_lock_of_its_job_after_the_driver_releases_it(
    impatient: ForkServer, tmp_path: Path
) -> None:
    mine, theirs = Holds(tmp_path), Holds(tmp_path)
    assert mine.take("job")
    held = mine.descriptor("job")
    assert held is not None
    fork = impatient.start([str(tmp_path / "result.json")], ENVIRONMENT, (), (held,))
    other = impatient.start([str(tmp_path / "other.json")], ENVIRONMENT, ())
    while not (fork.has_begun and other.has_begun):
        time.sleep(0.01)
    os.close(held)
    assert not theirs.take("job")
    close(fork)
    assert theirs.take("job"), "neither the server nor another fork has it"
    close(other)


IMPORTS = """
import torch
from importlib import import_module
asked = []
for name in ("is_available", "device_count", "init", "_lazy_init"):
    setattr(torch.cuda, name, lambda *_, name=name: asked.append(name) or 0)
from benchharness.tasks.suites import TASKS
from benchharness.worker.fork_server import MODULES, modules_of
for kind in MODULES:
    for module in modules_of(kind, TASKS.values()):
        import_module(module)
import_module("benchharness.encoder.cuda")
import_module("benchharness.training.cuda")
assert not asked, asked
"""


@pytest.mark.soak
def test_preloaded_modules_do_not_initialize_cuda():
    """Counting GPUs initializes CUDA, which does not survive a fork."""
    subprocess.run((sys.executable, "-P", "-c", IMPORTS), check=True)


def test_preloaded_modules_can_query_gpus_without_initializing_cuda(
    server: ForkServer, tmp_path: Path
) -> None:
    """Check that an imported module can count GPUs with torch without initializing CUDA."""
    module, told = tmp_path / "asking.py", tmp_path / "told"
    module.write_text(f"import os; open({str(told)!r}, 'w').write(os.environ[{NVML!r}])")
    places = os.pathsep.join((str(tmp_path), *sys.path))
    server.prepare(ENVIRONMENT | {"PYTHONPATH": places}, ["asking"])
    while not (told.exists() and told.read_text()):
        assert process_of(server).poll() is None
        time.sleep(0.01)
    assert told.read_text() == "1"


def test_pipe_with_a_number_above_1024_can_be_awaited() -> None:
    """A host process may have more open files than `select.select` accepts."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 2000:
        pytest.skip("at most 2,000 files may be open")
    low, writer = os.pipe()
    with os.fdopen(os.dup2(low, 2000), "rb", buffering=0) as reader:
        os.close(low)
        assert not is_readable(reader, 0.01)
        os.write(writer, b"x")
        assert is_readable(reader, None)
        assert reader.read(1) == b"x"
        os.close(writer)
        assert is_readable(reader, 10)  # a closed pipe counts as readable
        assert reader.read(1) == b""
