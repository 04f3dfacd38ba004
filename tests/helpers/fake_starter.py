"""Process that fake workers are forked from, instead of the real one with torch."""

import os
import sys
import time
from pathlib import Path
from typing import Any

from benchharness.worker import fork_server
from tests.helpers import fake_worker

COMMAND = (sys.executable, "-P", __file__)
SLOW = "TEST_SLOW_STARTER"
"""Environment variable: delay in seconds of each report to the driver."""

BUSY = "TEST_BUSY_STARTER"
"""Environment variable: seconds of computation before each waitpid()."""


def main(result_file: Path, _options: dict[str, Any]) -> int:
    sys.argv = ["worker", str(result_file)]
    fake_worker.main()
    return 0


def tell_late(status: int, number: int) -> None:
    time.sleep(float(os.environ.get(SLOW, "0")))
    tell(status, number)


def wait_late(pid: int, options: int) -> tuple[int, int]:
    until = time.monotonic() + float(os.environ.get(BUSY, "0"))
    while time.monotonic() < until:
        pass
    return wait(pid, options)


if __name__ == "__main__":
    tell, fork_server._tell = fork_server._tell, tell_late
    wait, os.waitpid = os.waitpid, wait_late
    fork_server.main = main
    fork_server._import = lambda modules: None
    fork_server.run()
