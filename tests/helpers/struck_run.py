"""`bench` whose processes get a signal in a phase, and note which job they compute.

    python -P -m tests.helpers.struck_run run ...

STRUCK_FOLDER names a folder for the notes: every worker locks the file of its job's key there while
it lives, adds a line to it, and leaves a file `twice-KEY` if another worker has the lock.
STRUCK_BY, if set, is a `Strike` as JSON. The process that sends the signal leaves the file
`struck`.
"""

import fcntl
import json
import os
import signal
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchharness.worker import __main__ as worker
from benchharness.worker import fork_server

COMMAND = (sys.executable, "-P", "-m", "tests.helpers.struck_run")

DRIVERS = ("planning", "storing", "report")
STARTERS = ("forking",)
WORKERS = ("loading", "training", "saving", "predicting")

FOLDER, BY = "STRUCK_FOLDER", "STRUCK_BY"


@dataclass(frozen=True, kw_only=True)
class Strike:
    """A signal at the `nth` time that a process reaches a phase.

    `target` is "driver", "starter" or "worker"; if it does not exist, its parent is used.
    """

    phase: str
    signal: str
    target: str
    nth: int

    def environment(self, folder: Path) -> dict[str, str]:
        return {FOLDER: str(folder), BY: json.dumps(asdict(self))}


COUNTS: Counter[str] = Counter()
HELD: list[Any] = []


def reach(phase: str) -> None:
    """Send the signal if it is due in this phase."""
    if BY not in os.environ:
        return
    strike = Strike(**json.loads(os.environ[BY]))
    COUNTS[phase] += 1
    if strike.phase != phase or strike.nth != COUNTS[phase]:
        return
    victim = find(strike.target, phase)
    try:
        with Path(os.environ[FOLDER], "struck").open("x", encoding="utf-8") as file:
            file.write(str(victim))
    except FileExistsError:
        return
    os.kill(victim, signal.Signals[strike.signal])


def find(target: str, phase: str) -> int:
    """Return the pid to strike, seen from the process that has reached a phase."""
    if phase in WORKERS:
        chain = {"worker": os.getpid(), "starter": os.getppid(), "driver": parent(os.getppid())}
    elif phase in STARTERS:
        chain = {"worker": os.getpid(), "starter": os.getpid(), "driver": os.getppid()}
    else:
        below = children(os.getpid())
        starter = below[0] if below else os.getpid()
        forks = children(starter) if below else []
        chain = {"worker": forks[0] if forks else starter, "starter": starter}
        chain["driver"] = os.getpid()
    return chain[target]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def compute(result_file: Path, options: dict[str, Any]) -> int:
    """Run the worker's `main` and write notes."""
    key, folder = result_file.stem, Path(os.environ[FOLDER])
    file = (folder / key).open("a", encoding="utf-8")
    HELD.append(file)  # keeps the file open and locked until the process ends
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        (folder / f"twice-{key}").touch()
    file.write(f"{os.getpid()}\n")
    file.flush()
    return MAIN(result_file, options)


MAIN = worker.main
PRINT = worker.ProgressLines.__call__
FORK = fork_server._fork


def tell(self: worker.ProgressLines, progress: Any) -> None:
    PRINT(self, progress)
    reach(progress.phase)


def fork(*arguments: Any) -> int:
    reach("forking")
    return FORK(*arguments)


def before(module: Any, name: str, phase: str) -> None:
    """Make a function reach a phase when it is called, and when it has returned."""
    function = getattr(module, name)

    def struck(*arguments: Any, **options: Any) -> Any:
        reach(phase)
        found = function(*arguments, **options)
        reach(phase)
        return found

    setattr(module, name, struck)


def drive() -> None:
    """Run the command line, with child processes of this module."""
    import benchharness.driver.session as command
    import benchharness.engines.fork_server
    import benchharness.engines.local
    import benchharness.stored.report
    from benchharness.cli.app import main
    from benchharness.leaderboard.store.store import Store

    benchharness.engines.fork_server.COMMAND = (*COMMAND, "--starter")
    benchharness.engines.local.WORKER = (*COMMAND, "--worker")
    before(command, "plan", "planning")
    before(Store, "add_missing", "storing")
    before(benchharness.stored.report, "make_report", "report")
    main()


def start() -> None:
    """Run the process that workers are forked from."""
    fork_server._fork = fork
    fork_server.main = compute
    fork_server.run()


if __name__ == "__main__":
    worker.ProgressLines.__call__ = tell  # type: ignore[method-assign]
    if sys.argv[1] == "--starter":
        start()
    elif sys.argv[1] == "--worker":
        sys.exit(compute(*worker.parse(sys.argv[2:])))
    else:
        drive()
