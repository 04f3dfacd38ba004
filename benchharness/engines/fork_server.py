"""Workers forked from a process that has their libraries, in the place of new interpreters."""

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
"""How long the process may take to tell of the end of a fork that was killed: milliseconds."""

COMMAND = (sys.executable, "-P", "-m", "benchharness.worker.fork_server")


def can_fork() -> bool:
    """True where the kernel has what the server is made of (Linux 5.3)."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


class ForkServer:
    """Forks workers from a process that starts when it is first needed; they die with it.

    Where the process was killed, the next worker gets a new one. For one thread, whose end is that
    of the process.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def prepare(self, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        """Has the process import what workers will need, which takes it seconds."""
        self._ask(environment, {"modules": list(modules)})

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        modules: Sequence[str],
        held: Sequence[int] = (),
    ) -> "Fork":
        """A worker with these options, which has the modules; it may take seconds to begin.

        It inherits the descriptor `held`, where there is one.
        """
        (job, to_job), (output, to_output), (errors, to_errors), (status, to_status) = (
            os.pipe() for _ in range(4)
        )
        theirs = (job, to_output, to_errors, to_status)
        request = {
            "modules": list(modules),
            "words": list(words),
            "environment": dict(environment),
        }
        self._ask(environment, request, (*theirs, *held))
        # The server has them now. A pipe that is also open here would never come to its end.
        for descriptor in theirs:
            os.close(descriptor)
        return Fork(to_job, output, errors, status, self.close)

    def close(self) -> None:
        """Ends the process and every fork that is left; another start begins a new one."""
        if self._process is not None and self._socket is not None:
            self._socket.close()
            # One that was stopped before it could ask to die with the server would stay behind.
            for pid in _children_of(self._process):
                os.kill(pid, signal.SIGKILL)
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # where the kernel cannot end it yet
                self._process.wait(ANSWER_SECONDS)
        self._process = self._socket = None

    def _ask(
        self, environment: Mapping[str, str], request: Mapping[str, Any], pipes: Sequence[int] = ()
    ) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._socket is None:
            # In packets, so that each request arrives whole and with its own descriptors.
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.setblocking(False)
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603  (our own command, no shell)
                    COMMAND,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **environment, DIES_WITH: str(os.getpid())},
                    start_new_session=True,
                )
        # The fork's status will say that the server is gone, or nothing where it is stopped.
        with suppress(ConnectionError, BlockingIOError):
            socket.send_fds(self._socket, [json.dumps(request).encode()], pipes)


def _children_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The forks of a server, none where it has ended; proc_pid_task_children(5)."""
    with suppress(OSError):
        if process.poll() is None:
            path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            return [int(word) for word in path.read_text(encoding="ascii").split()]
    return []


class Fork:
    """A forked worker, with what is used of subprocess.Popen.

    Its server writes two numbers into the pipe `status`: the process id, and the exit status.
    `end_server` ends a server that does not. `is_orphan` says that the fork has ended with its
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
        """The process id, which is its session's too; ProcessLookupError while there is none."""
        self.poll()
        if self._pid is None:
            raise ProcessLookupError
        return self._pid

    @property
    def has_begun(self) -> bool:
        """Whether the server has forked it."""
        self.poll()
        return self._pid is not None or self._status is not None

    def poll(self) -> int | None:
        """The exit status, negative for a signal's number; None while the process runs."""
        while self._status is None and self._read(0.0):
            pass
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, when the process has ended; TimeoutExpired where that takes longer."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._status is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._read(left):
                raise subprocess.TimeoutExpired(COMMAND, timeout or 0.0)
        return self._status

    def give_up(self) -> None:
        """Ends the server, which does not tell of the end of a fork that was killed."""
        self._end_server()
        try:
            self.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:  # the kernel cannot end it yet
            self._status = -signal.SIGKILL

    def _read(self, seconds: float | None) -> bool:
        """Takes in a number; False where none comes within so many seconds, None being for ever."""
        if not select([self._numbers], (), (), seconds)[0]:
            return False
        number = self._numbers.read(NUMBER_BYTES)
        if not number:
            self._status = -signal.SIGKILL  # what the kernel does to forks whose server has ended
            self.is_orphan = True
        elif self._pid is None:
            self._pid = int.from_bytes(number, signed=True)
        else:
            self._status = int.from_bytes(number, signed=True)
        if self._status is not None:
            self._numbers.close()
        return True
