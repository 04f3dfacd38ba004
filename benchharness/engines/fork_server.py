"""Workers forked from a process that has their libraries, in the place of new interpreters."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from select import select
from typing import IO

from benchharness.worker.fork_server import LARGEST_MESSAGE

__all__ = ["Fork", "ForkServer", "Forks", "can_fork"]

COMMAND = (sys.executable, "-P", "-m", "benchharness.worker.fork_server")


def can_fork() -> bool:
    """True where the kernel has what the server is made of (Linux 5.3)."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


class Forks:
    """Starts workers as forks; where their server was killed, the next one gets a new server."""

    def __init__(self) -> None:
        self._servers: list[ForkServer] = []

    def prepare(self, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        """Has the server import what workers will need, which takes it seconds."""
        self._server(environment).prepare(modules)

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], modules: Sequence[str]
    ) -> "Fork":
        """A worker; as ForkServer.start."""
        return self._server(environment).start(words, environment, modules)

    def close(self) -> None:
        """Ends every server with its forks; another start begins a new one."""
        while self._servers:
            self._servers.pop().close()

    def _server(self, environment: Mapping[str, str]) -> "ForkServer":
        if not self._servers or self._servers[-1].is_gone:
            self._servers.append(ForkServer(environment))
        return self._servers[-1]


class ForkServer:
    """Forks workers as long as its process lives; they die with it.

    For one thread, whose end is that of the process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  (our own command, no shell)
                COMMAND,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | environment,
                start_new_session=True,
            )
        self._pids: dict[int, int] = {}
        self._statuses: dict[int, int] = {}
        self._asked = 0
        self.is_gone = False

    def prepare(self, modules: Sequence[str]) -> None:
        """Has the server import modules, which later forks have then."""
        with suppress(ConnectionError):  # the first fork's status will say that the server is gone
            self._socket.send(json.dumps({"modules": list(modules)}).encode())

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], modules: Sequence[str]
    ) -> "Fork":
        """A worker with these options, which has the modules; it may take seconds to begin."""
        self._asked += 1
        (job, to_job), (output, to_output), (errors, to_errors) = (os.pipe() for _ in range(3))
        request = {
            "modules": list(modules),
            "number": self._asked,
            "words": list(words),
            "environment": dict(environment),
        }
        with suppress(ConnectionError):  # its status will say that the server is gone
            message = json.dumps(request).encode()
            socket.send_fds(self._socket, [message], [job, to_output, to_errors])
        for descriptor in (job, to_output, to_errors):
            os.close(descriptor)
        return Fork(self, self._asked, (to_job, output, errors))

    def pid_of(self, number: int) -> int:
        """The process id of a fork; waits for it. ProcessLookupError where it never started."""
        while number not in self._pids and self._read(None):
            pass
        if number not in self._pids:
            raise ProcessLookupError
        return self._pids[number]

    def status_of(self, number: int, seconds: float | None) -> int | None:
        """A fork's exit status, None where it has none within so long; None waits for ever."""
        while number not in self._statuses and self._read(seconds):
            pass
        if number not in self._statuses and self.is_gone:
            return -signal.SIGKILL  # what the kernel does to forks whose server has ended
        return self._statuses.get(number)

    def close(self) -> None:
        """Ends the server and every fork that is left."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _read(self, seconds: float | None) -> bool:
        """Takes in one answer; False where none comes within so long, or none ever will."""
        if self.is_gone or not select([self._socket], (), (), seconds)[0]:
            return False
        message = b""
        with suppress(ConnectionResetError):
            message = self._socket.recv(LARGEST_MESSAGE)
        if not message:
            self.is_gone = True
            return False
        answer = json.loads(message)
        known = self._pids if "pid" in answer else self._statuses
        known[answer["number"]] = answer["pid" if "pid" in answer else "status"]
        return True


class Fork:
    """A forked worker, with what is used of subprocess.Popen."""

    def __init__(self, server: ForkServer, number: int, pipes: Sequence[int]) -> None:
        self._server = server
        self._number = number
        self.stdin: IO[bytes] | None = os.fdopen(pipes[0], "wb", buffering=0)
        self.stdout: IO[bytes] | None = os.fdopen(pipes[1], "rb", buffering=0)
        self.stderr: IO[bytes] | None = os.fdopen(pipes[2], "rb", buffering=0)

    @property
    def pid(self) -> int:
        """The process id, which is its session's too; ProcessLookupError where there is none."""
        return self._server.pid_of(self._number)

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal's number; None while the process runs."""
        return self.poll()

    def poll(self) -> int | None:
        """As `returncode`."""
        return self._server.status_of(self._number, 0.0)

    def wait(self) -> int:
        """The exit status, when the process has ended."""
        status = self._server.status_of(self._number, None)
        assert status is not None
        return status
