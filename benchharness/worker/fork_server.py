"""A process that imports what workers need and forks one for each job.

    python -P -m benchharness.worker.fork_server      with a socket of datagrams as its stdin

Importing torch and transformers takes seconds of every worker, more than a job of a small encoder
takes to compute; a fork has them already. A request is {"modules", "words", "environment"} as JSON
with four pipes: the fork's stdin, stdout and stderr, and one into which this process writes the
fork's process id when it has started and its exit status when it has ended. A fifth descriptor,
where there is one, is a lock that the fork holds as long as it lives. A request without pipes has
its modules imported and starts nothing. The forks die with this process, and this process ends with
its socket, or when whoever started it dies.
"""

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Collection
from contextlib import suppress
from importlib import import_module
from select import select
from typing import Any, NoReturn

from benchharness.leaderboard.job import Job
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task, TimedTask
from benchharness.worker import die_with, importing, keep_priority
from benchharness.worker.__main__ import QUIET, main, parse

# What jobs import before they compute, so that a process may have it before it forks them.

_NETWORKS = (
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
)

MODULES = {
    "model": ("benchharness.worker.job", *_NETWORKS),
    "zero-shot": ("benchharness.worker.zero_shot", *_NETWORKS),
    "baseline": ("benchharness.baselines", "sklearn.linear_model"),
}
"""By the kind of a job, whatever its tasks are."""


def modules_for(job: Job) -> tuple[str, ...]:
    """What a job imports."""
    return modules_of(job.kind, [find_task(name.rpartition(":")[0]) for name in job.fingerprints])


def modules_of(kind: str, tasks: Collection[Task]) -> tuple[str, ...]:
    """What jobs of a kind import that are scored on some tasks."""
    libraries = {m.library for task in tasks for m in (*task.metrics, *task.details) if m.library}
    trained = [task.head for task in tasks if kind == "model" and not isinstance(task, TimedTask)]
    heads = {f"benchharness.heads.{head}" for head in trained}
    return (*MODULES[kind], *sorted({*libraries, *heads}))


# The server.

NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""The variable that has torch look for GPUs without CUDA, which does not survive a fork: what is
imported may ask whether there are any."""

LARGEST_MESSAGE = 64 * 1024
MOST_DESCRIPTORS = 5
NUMBER_BYTES = 4
BEGIN = b"1"


def serve(requests: socket.socket) -> None:
    """Answers requests until the socket is closed."""
    running: dict[int, tuple[int, int]] = {}  # by a descriptor that is readable at the fork's end
    while True:
        ready, _, _ = select([requests.fileno(), *running], (), ())
        for descriptor in running.keys() & ready:
            pid, status = running.pop(descriptor)
            os.close(descriptor)
            _tell(status, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os.close(status)
        if requests.fileno() in ready:
            message, pipes, _, _ = socket.recv_fds(requests, LARGEST_MESSAGE, MOST_DESCRIPTORS)
            if not message:
                return
            request = json.loads(message)
            _import(request["modules"])
            if not pipes:
                continue
            streams, (status, *held) = pipes[:3], pipes[3:]
            others = [status, requests.fileno(), *running, *(s for _, s in running.values())]
            pid, waiting = _fork(request, streams, others)
            for descriptor in (*streams, *held):
                os.close(descriptor)
            running[os.pidfd_open(pid)] = pid, status
            _tell(status, pid)
            # If it began before, and this process were stopped, nobody would see its end.
            with waiting, suppress(OSError):  # it may be gone
                waiting.send(BEGIN)


def _tell(status: int, number: int) -> None:
    with suppress(OSError):  # whoever asked may be gone
        os.write(status, number.to_bytes(NUMBER_BYTES, signed=True))


def _import(modules: list[str]) -> None:
    with importing():
        for module in modules:
            with suppress(Exception):  # the worker will run into it again, and say so
                import_module(module)


def _fork(
    request: dict[str, Any], pipes: list[int], others: list[int]
) -> tuple[int, socket.socket]:
    """Starts a worker, which can be signalled, dies with this process, and waits for BEGIN.

    Returns its process id, and the socket on which it waits.
    """
    server, (ours, theirs) = os.getpid(), socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()  # a signal to the server's group is none to it
        die_with(server)  # from here on the server may end
        theirs.send(BEGIN)
        if theirs.recv(1) != BEGIN:  # this process has ended
            os._exit(1)
        theirs.close()
        _become_worker(request, pipes, others)
    theirs.close()
    ours.recv(1)  # nothing where the fork was killed before
    return pid, ours


def _become_worker(request: dict[str, Any], pipes: list[int], others: list[int]) -> NoReturn:
    """What `python -m benchharness.worker` does, in a process that this one has just become."""
    status = 1
    try:
        for pipe, place in zip(pipes, (0, 1, 2), strict=True):
            os.dup2(pipe, place)
        for descriptor in {*pipes, *others} - {0, 1, 2}:
            os.close(descriptor)
        os.environ.pop(NVML, None)  # here it is asked whether CUDA itself works
        os.environ.update(request["environment"])
        keep_priority()
        _set_threads()
        status = main(*parse(request["words"]))
    except BaseException:  # noqa: BLE001  (nothing of the server may go on in this process)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _set_threads() -> None:
    """OMP_NUM_THREADS, which torch has read when it was imported."""
    threads, torch = os.environ.get("OMP_NUM_THREADS", ""), sys.modules.get("torch")
    if threads.isdecimal() and torch is not None:
        torch.set_num_threads(int(threads))


def run() -> None:
    """Answers the requests that come from stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it
    os.environ.update({**QUIET, NVML: "1"})
    serve(socket.socket(fileno=os.dup(0)))


if __name__ == "__main__":
    run()
