"""Workers that are forked from a process with loaded libraries, instead of new interpreters."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from typing import IO, Any

from benchharness.worker import DIES_WITH
from benchharness.worker.fork_server import NUMBER_BYTES

ANSWER_SECONDS = 3.0
"""Time limit for the server to report the end of a killed fork, which takes it milliseconds."""

COMMAND = (sys.executable, "-P", "-m", "benchharness.worker.fork_server")


def can_fork() -> bool:
    """Return whether the kernel has the system calls that the server needs (Linux 5.3)."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    stdin: int,
    output: int,
    held: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that leads its own session, dies with this process and inherits `held`.

    `environment` is added to the environment of this process. `held` are file descriptors; `output`
    is the descriptor of both stdout and stderr.
    """
    return subprocess.Popen(  # noqa: S603  (our own command, no shell)
        command,
        stdin=stdin,
        stdout=output,
        stderr=output,
        bufsize=0,
        env={**os.environ, **environment, DIES_WITH: str(os.getpid())},
        start_new_session=True,
        pass_fds=held,
    )


class ForkServer:
    """Process from which workers are forked; it starts on first use, and they die with it.

    If the process was killed, the next worker gets a new one. The object must be used by one thread
    only, because the process ends with the thread that started it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def prepare(self, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        """Let the process import modules that workers will need, which takes seconds."""
        self._ask({"modules": modules, "environment": dict(environment)})

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        modules: Sequence[str],
        held: Sequence[int] = (),
    ) -> "Fork":
        """Fork a worker with these command-line options that has the modules loaded.

        The worker may take seconds to begin. It inherits the file descriptors `held`.
        """
        pipes = [os.pipe() for _ in range(4)]
        (job, to_job), (output, to_output), (errors, to_errors), (status, to_status) = pipes
        theirs = (job, to_output, to_errors, to_status)
        request = {"modules": modules, "words": words, "environment": dict(environment)}
        self._ask(request, (*theirs, *held))
        # The server has these descriptors now. A pipe that is also open here would never reach EOF.
        for descriptor in theirs:
            os.close(descriptor)
        return Fork(to_job, output, errors, status, self.close)

    def close(self) -> None:
        """End the process and every fork that is left; a later `start` begins a new process."""
        if self._process is not None and self._socket is not None:
            self._socket.close()
            if self._process.poll() is None:
                # A fork that was stopped before it could ask the kernel to die with the server
                # would survive it. proc_pid_task_children(5):
                path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
                with suppress(OSError):
                    for pid in path.read_text(encoding="ascii").split():
                        os.kill(int(pid), signal.SIGKILL)
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # the kernel may not be able to end it yet
                self._process.wait(ANSWER_SECONDS)
        self._process = self._socket = None

    def _ask(self, request: Mapping[str, Any], pipes: Sequence[int] = ()) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._socket is None:
            # A packet socket delivers each request whole and with its own descriptors.
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.setblocking(False)
            with theirs:
                own, nowhere = request["environment"], subprocess.DEVNULL
                self._process = spawn(COMMAND, own, theirs.fileno(), nowhere)
        # If the server is gone, the status pipe will show it; if it is stopped, nothing does.
        with suppress(ConnectionError, BlockingIOError):
            socket.send_fds(self._socket, [json.dumps(request).encode()], pipes)


class Fork:
    """A forked worker, with the part of the interface of subprocess.Popen that is used.

    Its server writes two numbers into the pipe `status`: the process id, and the exit status.
    `end_server` ends a server that does not report. `is_orphan` is True if the fork ended with its
    server.
    """

    def __init__(
        self, stdin: int, stdout: int, stderr: int, status: int, end_server: Callable[[], None]
    ) -> None:
        self.stdin: IO[bytes] | None = os.fdopen(stdin, "wb", buffering=0)
        self.stdout: IO[bytes] | None = os.fdopen(stdout, "rb", buffering=0)
        self.stderr: IO[bytes] | None = os.fdopen(stderr, "rb", buffering=0)
        self.is_orphan = False
        self._numbers = os.fdopen(status, "rb", buffering=0)
        self._end_server = end_server
        self._pid: int | None = None
        self._status: int | None = None

    @property
    def pid(self) -> int:
        """Process id, also the id of its session; raises ProcessLookupError if there is none."""
        self.poll()
        if self._pid is None:
            raise ProcessLookupError
        return self._pid

    @property
    def has_begun(self) -> bool:
        """True if the server has forked the worker."""
        self.poll()
        return self._pid is not None or self._status is not None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal's number; None while the process runs."""
        while self._status is None and select([self._numbers], (), (), 0.0)[0]:
            number = self._numbers.read(NUMBER_BYTES)
            if not number:
                # The kernel kills forks whose server has ended.
                self._status, self.is_orphan = -signal.SIGKILL, True
            elif self._pid is None:
                self._pid = int.from_bytes(number, signed=True)
            else:
                self._status = int.from_bytes(number, signed=True)
            if self._status is not None:
                self._numbers.close()
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit status.

        Raises:
            subprocess.TimeoutExpired: The process has not ended after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select([self._numbers], (), (), left)[0]:
                raise subprocess.TimeoutExpired(COMMAND, timeout or 0.0)
        return status

    def give_up(self) -> None:
        """End the server, which does not report the end of a fork that was killed."""
        self._end_server()
        try:
            self.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:  # the kernel cannot end the process yet
            self._status = -signal.SIGKILL
