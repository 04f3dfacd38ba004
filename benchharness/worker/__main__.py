"""Command that runs one job: python -P -m benchharness.worker RESULT_FILE [options].

It reads the job as JSON from stdin, prints progress as JSON lines to stdout, and writes a Result or
a Failure as JSON to RESULT_FILE, completely or not at all. The exit status is 0, or the `exit_code`
of the Failure. `Folders` in worker/technique.py describes the options.

torchrun and accelerate start several such processes for one job, which is then read from the file
given by --job. The processes train together; the first prints progress and writes the result.
"""

import argparse
import errno
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from benchharness.discovery import places
from benchharness.errors import BenchError, DataError, JobError
from benchharness.kept_folders import EVERY_SECONDS
from benchharness.leaderboard.job import ZERO_SHOT, Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.text import whole_file
from benchharness.machine import STORE, forget_others, own_rank
from benchharness.plugins import plugins_for
from benchharness.progress import SIGNALS, Interrupted, Progress, Reporter
from benchharness.tasks.custom import code_of
from benchharness.tasks.foreign_code import name_code
from benchharness.worker import die_with, importing

SECONDS_BETWEEN_LINES = 0.2
"""Minimum time in seconds between progress lines. Five lines per second show that the job is
running, and do not slow down jobs with short steps."""

SECONDS_BETWEEN_TRIES = 1.0
"""Time in seconds between attempts to write to a full disk."""

QUIET = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Environment variables that keep libraries from printing into the log and from starting threads in
addition to torch's.

transformers reads its variable during import, so it must be imported after `main` has set them.
"""


def main(result_file: Path, options: dict[str, Any]) -> int:
    """Run one job, write its result, and return the exit status.

    Args:
        result_file: File for the Result or the Failure.
        options: Options from `parse`. The option "job" is the file with the job; with None, the job
            is read from stdin. All other options are passed to `run_job`.

    Returns:
        0, or the exit status of the Failure.
    """
    parent = os.getppid()  # read first, so that die_with notices a parent that ends meanwhile
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, SIGNALS.take)
    die_with(parent)
    os.environ.update(QUIET)
    job = _read_job(options.pop("job"))  # read first, because every Failure contains its job
    lines = ProgressLines()
    try:
        outcome: Result | Failure = _run(job, options, lines)
    except BaseException as error:  # noqa: BLE001  (every error must be reported to the engine)
        outcome = _failure(job, error)
    # Every process reports its failure, because the first may only know that another one failed.
    if own_rank() == 0 or isinstance(outcome, Failure):
        file = rank_file(result_file, own_rank())
        _write_where_there_is_room(file, json.dumps(outcome.to_json()), lines)
    return outcome.exit_code if isinstance(outcome, Failure) else 0


def rank_file(result_file: Path, rank: int) -> Path:
    """Return the file into which process number `rank` of a job writes its Failure.

    For process 0 this is the result file. For the others it is a file next to the result file, such
    as NAME.rank1.json.
    """
    return result_file.with_suffix(f".rank{rank}.json") if rank else result_file


def _read_job(file: Path | None) -> Job:
    """Return the job, read from a file if one is given, else from stdin.

    Several processes may read the same file and work on the job together.
    """
    if file is None and STORE not in os.environ:
        forget_others()
    return Job.from_json(json.loads(file.read_bytes()) if file else json.load(sys.stdin))


RUNNERS = {
    "baseline": "benchharness.baselines:run_baseline",
    ZERO_SHOT: "benchharness.worker.zero_shot:run_zero_shot",
    "model": "benchharness.worker.job:run_job",
}
"""Names of the core's functions that run a job, keyed by the kind of job. They are imported on use,
because importing scikit-learn and torch takes seconds and a job needs only one of them."""


def _run(job: Job, options: Mapping[str, Any], lines: Reporter) -> Result:
    report: Reporter = lines if own_rank() == 0 else lambda _: None
    report(Progress(phase="loading"))
    plugins_for(job)
    name_code(code_of(job.definition))  # allow the metric code that the driver has permitted
    kind = job.recipe if job.is_zero_shot else job.kind
    with importing():
        run: Callable[..., Result] = resolve_name({**places("runners"), **RUNNERS}[kind])
    return run(job, report, **(options if kind == "model" else {}))


class ProgressLines:
    """Reporter that prints progress as JSON lines on the original stdout.

    When the object is created, it redirects stdout to stderr, so that no library prints between the
    lines. At most five lines per second are printed, but the first and the last step of a phase and
    notes are always printed. Each line is one unbuffered write, because a signal handler may print
    a line while another is being printed.
    """

    def __init__(self) -> None:
        # Redirect file descriptors, because C libraries do not print through sys.stdout.
        self._stream = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._phase = ""
        self._printed = 0.0

    def __call__(self, progress: Progress) -> None:
        """Print a progress line, or skip it if the previous line was printed just before.

        Lines that begin or end a phase, or that contain a note, are never skipped.
        """
        now = time.monotonic()
        recent = now - self._printed < SECONDS_BETWEEN_LINES
        is_alike = progress.phase == self._phase and not progress.note
        if recent and is_alike and progress.step < progress.steps:
            return
        self._phase, self._printed = progress.phase, now
        os.write(self._stream, f"{json.dumps(asdict(progress))}\n".encode())


def _failure(job: Job, error: BaseException) -> Failure:
    """Convert an exception to a Failure, with a sentence for users and the traceback as details."""
    kind, sentence, exit_code = "failed", str(error), 1
    match error:
        case Interrupted():
            number = signal.Signals(error.args[0])
            kind, sentence, exit_code = "interrupted", f"stopped by {number.name}", 128 + number
        case JobError():
            kind, exit_code = error.kind, error.exit_code
        case DataError():
            exit_code = JobError.exit_code  # a job's exit code 4 means an unusable checkpoint
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


def _write_where_there_is_room(file: Path, text: str, report: Reporter) -> None:
    """Write the result file; if the disk is full, wait until there is free space.

    If this takes longer than `--timeout`, the engine treats the job as hung, and restarts it from
    its newest snapshot.
    """
    note = f"has finished, and waits for free disk space to write its result to {file.parent}"
    while True:
        try:
            with whole_file(file) as stream:  # complete or absent, even after a power cut
                stream.write(text.encode())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        else:
            return
        if note:
            report(Progress(phase="saving", note=note))
        note = ""  # report it only once, because the engine shows it to the user
        time.sleep(SECONDS_BETWEEN_TRIES)


def parse(words: Sequence[str]) -> tuple[Path, dict[str, Any]]:
    """Parse the words of a worker's command line.

    Returns:
        The arguments of `main`: the result file, and the options, keyed by name.
    """
    parser = argparse.ArgumentParser(prog="python -P -m benchharness.worker")
    parser.add_argument("result_file", type=Path)
    parser.add_argument("--job", type=Path)
    parser.add_argument("--start-from", type=Path)
    parser.add_argument("--teacher", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--snapshots", type=Path)
    parser.add_argument("--checkpoint-every", type=float, default=EVERY_SECONDS)
    options = vars(parser.parse_args(words))
    return options.pop("result_file"), options


if __name__ == "__main__":
    sys.exit(main(*parse(sys.argv[1:])))
