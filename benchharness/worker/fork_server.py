"""Fork server: a process that imports the modules of workers and forks one worker per job.

    python -P -m benchharness.worker.fork_server      with a datagram socket as its stdin

A worker would need seconds to import torch and transformers, more than a small job takes to
compute. In a fork, both are already imported.

A request is JSON with the keys "modules" (to import), "words" (the fork's command line) and
"environment" (variables to set in the fork). Four pipes are sent with it: the fork's stdin, stdout
and stderr, and a pipe into which the server writes the fork's process id when it has started and
its exit status when it has ended. An optional fifth descriptor is a lock that the fork holds as
long as it lives. For a request without pipes, the server only imports the modules. The forks are
killed when the server ends. The server ends when its socket is closed or its parent ends.
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

from benchharness.discovery import places
from benchharness.leaderboard.job import Job
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task
from benchharness.worker import die_with, importing, keep_priority
from benchharness.worker.__main__ import QUIET, main, parse

# Modules that jobs import before they compute. The server imports them before it forks.

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
"""Modules that every job imports before it computes, keyed by the kind of job."""


def modules_for(job: Job) -> tuple[str, ...]:
    """Return the names of the modules that a job imports before it computes (see `modules_of`)."""
    return modules_of(job.kind, [find_task(name.rpartition(":")[0]) for name in job.fingerprints])


def modules_of(kind: str, tasks: Collection[Task]) -> tuple[str, ...]:
    """Return the names of the modules that a job imports before it computes.

    These are the modules in MODULES, the libraries of the tasks' metrics and, for jobs with
    training, the modules of the tasks' heads.

    Args:
        kind: Kind of the job: "model", "zero-shot" or "baseline".
        tasks: Tasks whose splits the job predicts or trains on.
    """
    libraries = {m.library for task in tasks for m in task.every_metric if m.library}
    trained = [task.head for task in tasks if kind == "model" and not task.is_measured]
    added = places("heads")
    heads = {added.get(head, f"benchharness.heads.{head}").partition(":")[0] for head in trained}
    return (*MODULES[kind], *sorted({*libraries, *heads}))


# The server.

NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""Environment variable that makes torch look for GPUs without initializing CUDA. This is necessary
because imported modules may look for GPUs, and because forks cannot use CUDA if the server has
initialized it."""

LARGEST_MESSAGE = 64 * 1024
MOST_DESCRIPTORS = 5
NUMBER_BYTES = 4
BEGIN = b"1"


def serve(requests: socket.socket) -> None:
    """Answer the requests that arrive on a datagram socket, until the socket is closed.

    The description of this module explains the requests.
    """
    # Process id and status pipe of each running fork, keyed by a descriptor (pidfd) that becomes
    # readable when the fork ends.
    running: dict[int, tuple[int, int]] = {}
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
            # The fork begins only when its process id has been sent. If it began earlier and this
            # process were stopped in between, no process would notice the end of the fork.
            with waiting, suppress(OSError):  # the fork may have ended
                waiting.send(BEGIN)


def _tell(status: int, number: int) -> None:
    with suppress(OSError):  # the requesting process may have ended
        os.write(status, number.to_bytes(NUMBER_BYTES, signed=True))


def _import(modules: list[str]) -> None:
    with importing():
        for module in modules:
            with suppress(Exception):  # the worker will get the same error and report it
                import_module(module)


def _fork(
    request: dict[str, Any], pipes: list[int], others: list[int]
) -> tuple[int, socket.socket]:
    """Fork a worker that can be signalled, is killed when this process ends, and waits for BEGIN.

    Returns the worker's process id, and the socket from which it expects BEGIN.
    """
    server, (ours, theirs) = os.getpid(), socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()  # keep signals for the server's process group away from this fork
        die_with(server)  # from here on, this fork is killed if the server ends
        theirs.send(BEGIN)
        if theirs.recv(1) != BEGIN:  # the server has ended
            os._exit(1)
        theirs.close()
        _become_worker(request, pipes, others)
    theirs.close()
    ours.recv(1)  # returns b"" if the fork was killed before it was ready
    return pid, ours


def _become_worker(request: dict[str, Any], pipes: list[int], others: list[int]) -> NoReturn:
    """Run `python -m benchharness.worker` in this forked process, and never return."""
    status = 1
    try:
        for pipe, place in zip(pipes, (0, 1, 2), strict=True):
            os.dup2(pipe, place)
        for descriptor in {*pipes, *others} - {0, 1, 2}:
            os.close(descriptor)
        os.environ.pop(NVML, None)  # the worker looks for GPUs in torch's default way
        os.environ.update(request["environment"])
        keep_priority()
        _set_threads()
        status = main(*parse(request["words"]))
    except BaseException:  # noqa: BLE001  (the server's code must not continue in this process)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _set_threads() -> None:
    """Apply OMP_NUM_THREADS, which torch only reads during its import."""
    threads, torch = os.environ.get("OMP_NUM_THREADS", ""), sys.modules.get("torch")
    if threads.isdecimal() and torch is not None:
        torch.set_num_threads(int(threads))


def run() -> None:
    """Run the fork server: answer the requests that arrive on the socket at stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    os.environ.update({**QUIET, NVML: "1"})
    serve(socket.socket(fileno=os.dup(0)))


if __name__ == "__main__":
    run()
