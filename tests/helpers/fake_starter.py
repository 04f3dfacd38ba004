"""A process that fake workers are forked from, in the place of the one with torch in it."""

import sys
from pathlib import Path
from typing import Any

from benchharness.worker import fork_server
from tests.helpers import fake_worker

COMMAND = (sys.executable, "-P", __file__)


def main(result_file: Path, _options: dict[str, Any]) -> int:
    sys.argv = ["worker", str(result_file)]
    fake_worker.main()
    return 0


if __name__ == "__main__":
    fork_server.main = main
    fork_server._import = lambda modules: None
    fork_server.run()
