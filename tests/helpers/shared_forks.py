"""One fork server for all runs of a test process, because its imports take seconds.

Run as a program, it is that server. Its forks have the folder and the environment of the test, as
if the test had started them.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchharness.engines import fork_server
from benchharness.engines.fork_server import Fork, ForkServer
from benchharness.worker import fork_server as server

COMMAND = (sys.executable, "-P", __file__)
FOLDER = "TEST_FOLDER"
READ_AT_IMPORT = ("HF_", "HUGGINGFACE_", "TORCH_", "TRANSFORMERS_", "PYTHON")
"""Prefixes of variables that libraries read on import, so once for all tests."""


SET_BY_US = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_PROGRESS_BARS")
"""Variables that benchharness sets permanently, such as for an unreachable hub."""


def read_at_import() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith(READ_AT_IMPORT)}


class SharedForks(ForkServer):
    """Fork server that stays alive after a run, until `end`."""

    def __init__(self) -> None:
        super().__init__()
        self._environment = read_at_import()
        self._others: dict[frozenset[tuple[str, str]], SharedForks] = {}

    def fresh_or_shared(self) -> ForkServer:
        """Return the fork server of a run, a separate one if libraries read other variables.

        Values that benchharness sets itself stay for all later tests, which share a server too.
        """
        changed = {*read_at_import().items()} ^ {*self._environment.items()}
        if not changed:
            return self
        if not {name for name, _ in changed} <= {*SET_BY_US}:
            return ForkServer()
        return self._others.setdefault(frozenset(changed), SharedForks())

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        modules: Sequence[str],
        held: Sequence[int] = (),
    ) -> Fork:
        own = {**os.environ, **environment, FOLDER: str(Path.cwd())}
        return super().start(words, own, modules, held)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            super().close()

    def end(self) -> None:
        for other in self._others.values():
            other.end()
        super().close()

    def _ask(self, *request: Any) -> None:
        usual, fork_server.COMMAND = fork_server.COMMAND, COMMAND
        try:
            super()._ask(*request)
        finally:
            fork_server.COMMAND = usual


def become_worker(request: dict[str, Any], pipes: list[int], others: list[int]) -> None:
    os.chdir(request["environment"].pop(FOLDER))
    os.environ.clear()
    usual(request, pipes, others)


if __name__ == "__main__":
    usual, server._become_worker = server._become_worker, become_worker
    server.run()
