"""The same mini sweep locally and on clusters whose nodes die: the scores are equal.

The complete sweeps are soak tests; the ordinary suite runs a tiny job on submitit's local executor.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from tests.helpers.own_files import GOOD

RAY = Path(sys.executable).with_name("ray")
PORT = 6379
SUBNET = "10.211.7"
HEAD = f"{SUBNET}.1:{PORT}"

QUICK_TO_NOTICE = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Ray declares a node dead after about ten seconds of silence instead of thirty."""


def why_not():
    """Return why Ray nodes cannot be started here, or ""."""
    if not RAY.exists():
        return "Ray is not installed"
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("ip"):
        return "network namespaces need Linux, root and iproute2"
    name = f"bench-try-{os.getpid()}"
    tried = subprocess.run(("ip", "netns", "add", name), check=False, capture_output=True)
    if tried.returncode != 0:
        return f"network namespaces are not permitted: {tried.stderr.decode().strip()}"
    subprocess.run(("ip", "netns", "del", name), check=True)
    return ""


@contextmanager
def network():
    """Create two network namespaces joined by a cable; yield their names."""
    names = [f"bench-{os.getpid()}-{i}" for i in (1, 2)]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        first, second = names
        ip("link", "add", "end1", "netns", first, "type", "veth", "peer", "end2", "netns", second)
        for number, name in enumerate(names, start=1):
            ip("-n", name, "addr", "add", f"{SUBNET}.{number}/24", "dev", f"end{number}")
            ip("-n", name, "link", "set", f"end{number}", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(("ip", "netns", "del", name), check=False, capture_output=True)


def ip(*words):
    subprocess.run(("ip", *words), check=True, capture_output=True, text=True)


def cable(name, state):
    """Unplug ("down") or plug in ("up") the second node's end of the cable."""
    ip("-n", name, "link", "set", "end2", state)


class Node:
    """Ray node with one core; number 1 is the head."""

    def __init__(self, number, namespace, folder):
        self.number, self.namespace, self.folder = number, namespace, folder
        self.process = None

    def start(self):
        """Start the node in a process namespace, which ends with its first process."""
        head = (*("--head", f"--port={PORT}"), "--include-dashboard=false")
        place = (*head, f"--temp-dir={self.folder}") if self.number == 1 else (f"--address={HEAD}",)
        with (self.folder / f"node{self.number}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *("ip", "netns", "exec", self.namespace),
                    *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
                    *(str(RAY), "start", "--block", f"--node-ip-address={SUBNET}.{self.number}"),
                    *("--num-cpus=1", "--num-gpus=0", "--object-store-memory=100000000"),
                    *("--disable-usage-stats", *place),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | QUICK_TO_NOTICE,
            )
        return self

    def again(self):
        """Restart the node if it has ended: 30 seconds, Ray's limit, can be too short."""
        if self.has_ended():
            self.start()

    def kill(self):
        """Kill the node's processes, as a power cut does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)

    def has_ended(self):
        return self.process.poll() is not None

    def pids(self):
        command = ("ip", "netns", "pids", self.namespace)
        listed = subprocess.run(command, check=False, capture_output=True)
        return [int(pid) for pid in listed.stdout.split()]

    def commands(self):
        """Return the command lines of the node's processes."""
        found = []
        for pid in self.pids():
            try:
                found.append(
                    Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                )
            except OSError:
                continue
        return found

    def runs_a_job(self):
        return any("benchharness.worker" in command for command in self.commands())


def wait_for(condition, seconds, what):
    """Wait until the condition is true, and print how long that took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() < start + seconds, f"{what}: not within {seconds} seconds"
        time.sleep(0.5)
    print(f"{what}: after {time.monotonic() - start:.0f} s", flush=True)  # noqa: T201


needs_submitit = pytest.mark.skipif(not find_spec("submitit"), reason="submitit is not installed")
needs_ray = pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed")

TASKS = ("glue/cola", "glue/rte", "glue/wnli")


def sweep(db, *options, tasks=TASKS, seeds=3, data_file=None):
    """Return the command of the sweep; each job has one thread."""
    named = [word for task in tasks for word in ("--task", task)]
    rows = ("--data", "mini", *named) if data_file is None else ("--data-file", str(data_file))
    run = (sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()", "run")
    return (
        *run,
        *("--model", "tiny", "--seeds", str(seeds), "--no-baselines"),
        *("--precision", "fp32", "--set", "epochs=1", "--device", "cpu"),
        *("--db", str(db), "--out", str(db.with_suffix(".html"))),
        *rows,
        *options,
    )


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def run(command, folder):
    return subprocess.run(
        command, check=False, cwd=folder, env=environment(), capture_output=True, text=True
    )


def table(db):
    """Return the evaluations by (task, seed) and the results; check that each ran once."""
    with open_store(str(db), create=False) as store:
        rows = store.runs()
        assert {row.status for row in rows} == {"finished"}
        assert all(len(store.attempts(row.key)) == 1 for row in rows)
        results = [store.result(row.key) for row in rows]
    return {(r.job.task, r.job.seed): r.evaluations for r in results}, results


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Evaluations of the sweep on this machine, without a cluster."""
    folder = tmp_path_factory.mktemp("local")
    ended = run(sweep(folder / "local.sqlite", "--jobs", "2"), folder)
    assert ended.returncode == 0, ended.stderr
    return table(folder / "local.sqlite")[0]


@pytest.mark.soak
@needs_submitit
def test_run_with_submitit_stores_results_and_leaves_the_slurm_folder_empty(tmp_path):
    options = ("--engine", "slurm", "--address", "local", "--jobs", "2")
    ended = run(sweep(tmp_path / "b.sqlite", *options, tasks=("glue/wnli",), seeds=1), tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "1 of 1 job is finished" in ended.stdout
    evaluations, results = table(tmp_path / "b.sqlite")
    assert len(evaluations) == 1
    engine = {"name": "submitit's local executor", "attempt": 1}
    assert all(result.provenance["engine"] == engine for result in results)
    assert not list((tmp_path / "slurm").iterdir())


@pytest.mark.soak
@needs_submitit
def test_submitit_sweep_with_a_killed_job_gives_the_same_results_as_a_local_sweep(tmp_path, local):
    options = ("--engine", "slurm", "--address", "local", "--jobs", "2")
    driver = subprocess.Popen(
        sweep(tmp_path / "b.sqlite", *options),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    victim = []
    wait_for(
        lambda: victim.extend(children(driver.pid, "submitit.core._submit")) or victim, 300, "a job"
    )
    os.kill(victim[0], signal.SIGKILL)
    said, _ = driver.communicate(timeout=1800)
    assert driver.returncode == 0, said
    evaluations, results = table(tmp_path / "b.sqlite")
    assert evaluations == local
    assert max(r.provenance["engine"]["attempt"] for r in results) == 2


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Custom data file, and the evaluations of its sweep on this machine."""
    folder = tmp_path_factory.mktemp("own")
    path = GOOD["comma"].write(folder)
    ended = run(sweep(folder / "local.sqlite", "--jobs", "2", data_file=path), folder)
    assert ended.returncode == 0, ended.stderr
    return path, table(folder / "local.sqlite")[0]


@pytest.mark.soak
@needs_submitit
def test_submitit_and_local_jobs_on_custom_data_give_the_same_results(tmp_path, own):
    path, evaluations = own
    options = ("--engine", "slurm", "--address", "local", "--jobs", "2")
    ended = run(sweep(tmp_path / "b.sqlite", *options, data_file=path), tmp_path)
    assert ended.returncode == 0, ended.stderr
    found, results = table(tmp_path / "b.sqlite")
    assert found == evaluations
    assert all(result.provenance["engine"]["attempt"] == 1 for result in results)


def children(pid, word):
    """Return the pids of descendants with `word` in their command line."""
    found = []
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if word in Path(f"/proc/{child}/cmdline").read_text():
                found.append(int(child))
            found += children(child, word)
    return found


WATCH = """
import sys, time
from benchharness.extensions.clusters.ray import connect, node_sizes
from benchharness.errors import BenchError
while True:
    try:
        connect(sys.argv[1])
        break
    except BenchError:
        time.sleep(1)
while True:
    print(len(node_sizes()), flush=True)
    time.sleep(1)
"""


@contextmanager
def two_nodes():
    """Start a Ray cluster: a head that runs jobs too, and a second node.

    Yields both nodes and a function that returns the number of live nodes.
    """
    folder = Path(tempfile.mkdtemp(prefix="bench-ray-"))
    with network() as names, (folder / "alive").open("w+") as alive:
        nodes = [Node(number, name, folder) for number, name in enumerate(names, start=1)]
        head, other = nodes
        head.start()
        command = (sys.executable, "-P", "-c", WATCH, HEAD)
        with inside(head, command, stdout=alive, stderr=subprocess.DEVNULL) as watcher:
            try:
                living = partial(last_number, Path(alive.name))
                wait_for(lambda: living() == 1 or head.again(), 600, "the head")
                other.start()
                wait_for(lambda: living() == 2 or other.again(), 600, "the second node")
                yield head, other, living
            finally:
                watcher.kill()
                for node in nodes:
                    node.kill()
    shutil.rmtree(folder, ignore_errors=True)


def last_number(file):
    """Return the last line that is a number, or 0."""
    numbers = [line for line in file.read_text().splitlines() if line.isdecimal()]
    return int(numbers[-1]) if numbers else 0


def inside(node, command, **options):
    return subprocess.Popen(
        ("ip", "netns", "exec", node.namespace, *command),
        env=environment(),
        text=True,
        **options,
    )


def is_over(process):
    return process.poll() is not None


@pytest.mark.soak
@pytest.mark.timeout(3600)
@needs_ray
@pytest.mark.skipif(bool(reason := why_not()), reason=reason)
def test_ray_and_local_jobs_on_custom_data_give_the_same_results(tmp_path, own):
    path, evaluations = own
    size = ("--engine-option", "cpus=1", "--engine-option", "memory=1")
    options = ("--engine", "ray", "--address", HEAD, *size)
    command, log = sweep(tmp_path / "b.sqlite", *options, data_file=path), tmp_path / "log"
    with (
        two_nodes() as (head, _, _),
        log.open("w") as said,
        inside(head, command, cwd=tmp_path, stdout=said, stderr=said) as driver,
    ):
        driver.wait(1800)
    assert driver.returncode == 0, log.read_text()
    assert table(tmp_path / "b.sqlite")[0] == evaluations


@pytest.mark.soak
@pytest.mark.timeout(3600)
@needs_ray
@pytest.mark.skipif(bool(reason := why_not()), reason=reason)
def test_ray_sweep_with_a_disconnected_and_killed_node_gives_the_results_of_a_local_sweep(
    tmp_path, local
):
    size = ("--engine-option", "cpus=1", "--engine-option", "memory=1")
    options = ("--engine", "ray", "--address", HEAD, *size)
    command, log = sweep(tmp_path / "b.sqlite", *options), tmp_path / "log"
    with (
        two_nodes() as (head, other, living),
        log.open("w") as said,
        inside(head, command, cwd=tmp_path, stdout=said, stderr=said) as driver,
    ):
        try:
            wait_for(other.runs_a_job, 600, "the first job on the second node")
            cable(other.namespace, "down")
            wait_for(lambda: living() == 1, 300, "the loss of the node that was cut off")
            cable(other.namespace, "up")
            wait_for(other.has_ended, 300, "the end of the node that was given up")
            other.start()
            wait_for(
                lambda: other.runs_a_job() or is_over(driver) or other.again(), 900, "another job"
            )
            assert not is_over(driver), "the sweep was over before the node could be killed"
            other.kill()
            driver.wait(1800)
        finally:
            driver.kill()
    assert driver.returncode == 0, log.read_text()
    evaluations, results = table(tmp_path / "b.sqlite")
    assert evaluations == local
    attempts = sorted(result.provenance["engine"]["attempt"] for result in results)
    # The job on the killed node ran again. The job on the disconnected node may have ended
    # meanwhile; its result then arrived after the reconnection.
    assert len(results) < sum(attempts) <= len(results) + 2, attempts
