"""The process around a job: python -P -m benchharness.worker RESULT_FILE [--start-from|--keep DIR].

Reads the job as JSON from stdin, prints progress as JSON lines to stdout, and leaves a Result or a
Failure as JSON in RESULT_FILE, whole or not at all. The exit status is 0, or that of the Failure.
--start-from names the folder with the encoder that the job goes on from, --keep the folder in which
it leaves its own.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from benchharness.progress import Progress
from leaderboard.job import Job
from leaderboard.result import Failure, Result
from tasks.errors import BenchError, JobError

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when the thread that started it ends."""

SECONDS_BETWEEN_LINES = 0.2

QUIET = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""What keeps libraries from printing into the log, and from threads beside those of torch."""


class Interrupted(BaseException):
    """SIGTERM or SIGINT arrived; its number is the argument."""


def main(result_file: Path, folders: Mapping[str, Path | None]) -> int:
    """Runs the job from stdin and returns the exit status; `folders` go to `run_job` by name."""
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    _die_with(parent)
    os.environ.update(QUIET)
    job = Job.from_json(json.load(sys.stdin))
    try:
        outcome: Result | Failure = _run(job, folders)
    except BaseException as error:  # noqa: BLE001  (the engine must learn of it)
        outcome = _failure(job, error)
    _write(result_file, json.dumps(outcome.to_json()))
    return outcome.exit_code if isinstance(outcome, Failure) else 0


def _run(job: Job, folders: Mapping[str, Path | None]) -> Result:
    report = ProgressLines()
    report(Progress(phase="loading"))
    if job.plugins:
        _load_plugins(job)
    if job.kind == "floor":
        from benchharness.floors import run_floor

        return run_floor(job, report)
    from benchharness.worker.run import run_job

    return run_job(job, report, **folders)


def _load_plugins(job: Job) -> None:
    """Loads the plugins that the engine's environment names; they must be as they were planned."""
    from benchharness.plugins import load_plugins, plugins_of

    load_plugins()
    if plugins_of(name.rpartition(":")[0] for name in job.fingerprints) != job.plugins:
        raise BenchError(
            f"the plugins of {job.task} ({', '.join(job.plugins)}) have changed since this run was "
            "planned: start again."
        )


class ProgressLines:
    """Prints progress on what was stdout when it was made, at most five lines a second.

    From then on stdout is stderr, so that no library's print ends up between the lines. A first
    line of a phase and its last step are always printed.
    """

    def __init__(self) -> None:
        self._stream = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._phase = ""
        self._printed = 0.0

    def __call__(self, progress: Progress) -> None:
        """Prints a line, unless one was printed just now."""
        now = time.monotonic()
        recent = now - self._printed < SECONDS_BETWEEN_LINES
        if recent and progress.phase == self._phase and progress.step < progress.steps:
            return
        self._phase, self._printed = progress.phase, now
        print(json.dumps(asdict(progress)), file=self._stream, flush=True)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)


def _die_with(parent: int) -> None:
    """Makes the kernel kill this process when the thread that started it ends (Linux).

    A parent that ended before this call shows in a new parent's id.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(JobError.exit_code)


def _failure(job: Job, error: BaseException) -> Failure:
    """What the engine stores of an exception: a sentence for the user's, a traceback for a bug."""
    kind, sentence, exit_code = "failed", str(error), 1
    match error:
        case Interrupted():
            number = signal.Signals(error.args[0])
            kind, sentence, exit_code = "interrupted", f"stopped by {number.name}", 128 + number
        case JobError():
            kind, exit_code = error.kind, error.exit_code
        case BenchError():
            exit_code = error.exit_code
        case _:
            sentence = f"{type(error).__name__}: {error}"
    return Failure(
        job=job,
        kind=kind,
        error=sentence,
        details="".join(traceback.format_exception(error)),
        exit_code=exit_code,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _write(file: Path, text: str) -> None:
    """Writes a file that is there whole or not at all, even after a power cut."""
    draft = file.with_suffix(".tmp")
    with draft.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


def _parse(words: Sequence[str]) -> tuple[Path, dict[str, Path | None]]:
    parser = argparse.ArgumentParser(prog="python -P -m benchharness.worker")
    parser.add_argument("result_file", type=Path)
    parser.add_argument("--start-from", type=Path)
    parser.add_argument("--keep", type=Path)
    folders = vars(parser.parse_args(words))
    return folders.pop("result_file"), folders


if __name__ == "__main__":
    sys.exit(main(*_parse(sys.argv[1:])))
