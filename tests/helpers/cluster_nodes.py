"""Ray nodes for tests: each in its own network, process and mount namespace of this machine."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

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
"""A node counts as dead after some ten seconds of silence instead of half a minute."""


def why_not():
    """Why no such node can be started here; empty where one can."""
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
    """Two namespaces with a cable between them and none to anywhere else; gives their names."""
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
    """Pulls out ("down") or puts back ("up") the second node's end of the cable."""
    ip("-n", name, "link", "set", "end2", state)


class Node:
    """A Ray node with one core; `number` 1 is the head."""

    def __init__(self, number, namespace, folder):
        self.number, self.namespace, self.folder = number, namespace, folder
        self.process = None

    def start(self):
        """Starts the node; its processes live and die with one that has a process namespace."""
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
        """Starts a node anew that has ended: Ray gives a start 30 seconds, too few in a crowd."""
        if self.has_ended():
            self.start()

    def kill(self):
        """Ends the node as a power cut does."""
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
        """The command lines of the node's processes."""
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
    """Waits until a condition is true, and prints how long that took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() < start + seconds, f"{what}: not within {seconds} seconds"
        time.sleep(0.5)
    print(f"{what}: after {time.monotonic() - start:.0f} s", flush=True)  # noqa: T201
