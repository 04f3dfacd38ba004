"""Client of the fork server, a process that has imported the libraries and forks all workers.

This is faster than starting a new Python interpreter for each worker.
"""

import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from benchharness.worker import DIES_WITH
from benchharness.worker.fork_server import NUMBER_BYTES

ANSWER_SECONDS = 3.0
"""Maximum number of seconds to wait until the fork server reports the end of a killed worker, or
until a fork server that was killed has ended. Both normally take milliseconds."""

COMMAND = (sys.executable, "-P", "-m", "benchharness.worker.fork_server")


def is_readable(pipe: IO[bytes], seconds: float | None) -> bool:
    """Wait until a pipe has bytes or is closed; return False if this takes too long.

    In contrast to `select.select`, this also works in a process with more than 1,024 open files.

    Args:
        pipe: An unbuffered pipe.
        seconds: The maximum time to wait; None for no limit.
    """
    poller = select.poll()
    poller.register(pipe, select.POLLIN)
    limit = None if seconds is None else min(math.ceil(1000 * seconds), 2**31 - 1)
    return bool(poller.poll(limit))


def can_fork() -> bool:
    """Return whether the kernel has the system calls that the fork server needs (Linux 5.3)."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    stdin: int,
    output: int,
    held: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own. The kernel ends it when this process ends.

    Args:
        command: The command and its arguments.
        environment: Environment variables that are added to those of this process.
        stdin: File descriptor for stdin.
        output: File descriptor for both stdout and stderr.
        held: Further file descriptors that the process inherits.
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
    """Server process from which worker processes are forked.

    The server process has imported the libraries, so that a worker starts fast. When the server
    process ends, all its workers end too. The server process is started on first use. If it was
    killed, it is started again for the next worker. Use this object from one thread only, because
    the server process ends with the thread that started it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def prepare(self, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        """Let the server import the modules that workers will need.

        The import takes seconds, and this method does not wait for its end.

        Args:
            environment: Environment variables for the server process. They have no effect if the
                server process is already running.
            modules: The names of the modules.
        """
        self._ask({"modules": modules, "environment": dict(environment)})

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        modules: Sequence[str],
        held: Sequence[int] = (),
    ) -> "Fork":
        """Fork a worker and return it; the worker may take seconds to begin.

        Args:
            words: Command-line options of the worker.
            environment: Environment variables of the worker.
            modules: Names of modules that the server imports before it forks the worker, unless it
                has imported them already.
            held: File descriptors that the worker inherits.
        """
        pipes = [os.pipe() for _ in range(4)]
        (job, to_job), (output, to_output), (errors, to_errors), (status, to_status) = pipes
        theirs = (job, to_output, to_errors, to_status)
        request = {"modules": modules, "words": words, "environment": dict(environment)}
        self._ask(request, (*theirs, *held))
        # The server now has copies of these descriptors. Close the originals, because the pipes
        # would otherwise never reach EOF.
        for descriptor in theirs:
            os.close(descriptor)
        return Fork(to_job, output, errors, status, self.close)

    def close(self) -> None:
        """End the server process and all running workers.

        A later call of `start` starts a new server process.
        """
        if self._process is not None and self._socket is not None:
            self._socket.close()
            if self._process.poll() is None:
                # Each worker asks the kernel to kill it when the server ends. A worker that was
                # stopped before it could ask would survive, so kill the workers directly. See
                # proc_pid_task_children(5).
                path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
                with suppress(OSError):
                    for pid in path.read_text(encoding="ascii").split():
                        os.kill(int(pid), signal.SIGKILL)
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # the kernel may be waiting for a disk
                self._process.wait(ANSWER_SECONDS)
        self._process = self._socket = None

    def _ask(self, request: Mapping[str, Any], pipes: Sequence[int] = ()) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._socket is None:
            # Use a packet socket, which delivers each request as a whole, with its descriptors.
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.setblocking(False)
            with theirs:
                own, nowhere = request["environment"], subprocess.DEVNULL
                self._process = spawn(COMMAND, own, theirs.fileno(), nowhere)
        # Ignore errors here: a server that has ended closes the worker's status pipe, and a stopped
        # server is detected because it does not answer.
        with suppress(ConnectionError, BlockingIOError):
            socket.send_fds(self._socket, [json.dumps(request).encode()], pipes)


class Fork:
    """Forked worker process, with the methods of subprocess.Popen that engines use.

    Args:
        stdin: File descriptor of the worker's standard input.
        stdout: File descriptor of the worker's standard output.
        stderr: File descriptor of the worker's standard error.
        status: File descriptor of a pipe into which the fork server writes two numbers: the process
            id of the worker, and later its exit status.
        end_server: Function that ends the fork server. It is called if the fork server does not
            report the exit status.

    Attributes:
        is_orphan: Whether the worker has ended because the fork server has ended.
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
        """Process id of the worker, which is also its session id.

        Raises:
            ProcessLookupError: The worker has not been forked yet.
        """
        self.poll()
        if self._pid is None:
            raise ProcessLookupError
        return self._pid

    @property
    def has_begun(self) -> bool:
        """True if the server has forked the worker, or has ended without forking it."""
        self.poll()
        return self._pid is not None or self._status is not None

    def poll(self) -> int | None:
        """Return the exit status of the worker, or None while it runs.

        If a signal ended the worker, the status is the negative number of the signal. If the fork
        server has ended, the kernel kills the worker, and the status is that of SIGKILL.
        """
        while self._status is None and is_readable(self._numbers, 0.0):
            number = self._numbers.read(NUMBER_BYTES)
            if not number:
                # The pipe is closed because the server has ended. The kernel then kills the worker.
                self._status, self.is_orphan = -signal.SIGKILL, True
            elif self._pid is None:
                self._pid = int.from_bytes(number, signed=True)
            else:
                self._status = int.from_bytes(number, signed=True)
            if self._status is not None:
                self._numbers.close()
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the worker and return its exit status.

        Args:
            timeout: The maximum number of seconds to wait; None for no limit.

        Raises:
            subprocess.TimeoutExpired: The worker has not ended after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not is_readable(self._numbers, left):
                raise subprocess.TimeoutExpired(COMMAND, timeout or 0.0)
        return status

    def give_up(self) -> None:
        """End the fork server, because it does not report the end of this killed worker.

        The exit status of the worker is then that of a killed process.
        """
        self._end_server()
        try:
            self.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:  # the kernel cannot end the process yet
            self._status = -signal.SIGKILL
