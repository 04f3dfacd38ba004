"""The process around a job: python -P -m benchharness.worker RESULT_FILE [options].

Reads the job as JSON from stdin, prints progress as JSON lines to stdout, and leaves a Result or a
Failure as JSON in RESULT_FILE, whole or not at all. The exit status is 0, or that of the Failure.
The options are those of `Folders` in worker/technique.py.

torchrun and accelerate start several of it for one job, which then comes from the file that --job
names. They train together; the first prints progress and leaves the result.
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

from benchharness.kept_folders import EVERY_SECONDS
from benchharness.leaderboard.job import TIMED, ZERO_SHOT, Job, code_of
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.text import whole_file
from benchharness.machine import STORE, forget_others, own_rank
from benchharness.plugins import plugins_for
from benchharness.progress import SIGNALS, Interrupted, Progress, Reporter
from benchharness.tasks.errors import BenchError, DataError, JobError
from benchharness.tasks.foreign_code import name_code
from benchharness.worker import die_with, importing

SECONDS_BETWEEN_LINES = 0.2
"""What is drawn five times a second looks alive, and a job of short steps is not slowed."""

SECONDS_BETWEEN_TRIES = 1.0
"""How often a full disk is tried again."""

QUIET = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""What keeps libraries from printing into the log, and from threads in addition to those of torch.

transformers reads its variable when it is imported, which is why that comes after `main` began.
"""


def main(result_file: Path, options: dict[str, Any]) -> int:
    """Runs the job from stdin and returns the exit status; `options` go to `run_job` by name."""
    parent = os.getppid()  # asked first: whoever ends from here on is noticed
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, SIGNALS.take)
    die_with(parent)
    os.environ.update(QUIET)
    job = _read_job(options.pop("job"))  # first: a Failure names its job
    lines = ProgressLines()
    try:
        outcome: Result | Failure = _run(job, options, lines)
    except BaseException as error:  # noqa: BLE001  (the engine must learn of it)
        outcome = _failure(job, error)
    # A failure of any process is told: the first may only know that another one is missing.
    if own_rank() == 0 or isinstance(outcome, Failure):
        file = rank_file(result_file, own_rank())
        _write_where_there_is_room(file, json.dumps(outcome.to_json()), lines)
    return outcome.exit_code if isinstance(outcome, Failure) else 0


def rank_file(result_file: Path, rank: int) -> Path:
    """Where the process with that number leaves its Failure, the first also the Result."""
    return result_file.with_suffix(f".rank{rank}.json") if rank else result_file


def _read_job(file: Path | None) -> Job:
    """The job of a file, of which others may work on it too, or of stdin."""
    if file is None and STORE not in os.environ:
        forget_others()
    return Job.from_json(json.loads(file.read_bytes()) if file else json.load(sys.stdin))


RUNNERS = {
    "baseline": "benchharness.baselines:run_baseline",
    ZERO_SHOT: "benchharness.worker.zero_shot:run_zero_shot",
    TIMED: "benchharness.worker.timing:time_encoder",
    "model": "benchharness.worker.job:run_job",
}
"""What runs a job, by its kind: scikit-learn or torch, whose imports take seconds, not both."""


def _run(job: Job, options: Mapping[str, Any], lines: Reporter) -> Result:
    report: Reporter = lines if own_rank() == 0 else lambda _: None
    report(Progress(phase="loading"))
    plugins_for(job)
    name_code(code_of(job.definition))  # which the driver has asked for
    kind = job.recipe if job.is_zero_shot else job.kind
    with importing():
        run: Callable[..., Result] = resolve_name(RUNNERS[kind])
    return run(job, report, **(options if kind == "model" else {}))


class ProgressLines:
    """Prints progress on what was stdout when it was made, at most five lines a second.

    From then on stdout is stderr, so that no library's print ends up between the lines. A first
    line of a phase, its last step and notes are always printed. A line is one write without a
    buffer, because the handler of a signal may print one in the middle of another.
    """

    def __init__(self) -> None:
        # At the level of descriptors, because C libraries print past sys.stdout.
        self._stream = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._phase = ""
        self._printed = 0.0

    def __call__(self, progress: Progress) -> None:
        """Prints a line, unless one was printed just now."""
        now = time.monotonic()
        recent = now - self._printed < SECONDS_BETWEEN_LINES
        is_alike = progress.phase == self._phase and not progress.note
        if recent and is_alike and progress.step < progress.steps:
            return
        self._phase, self._printed = progress.phase, now
        os.write(self._stream, f"{json.dumps(asdict(progress))}\n".encode())


def _failure(job: Job, error: BaseException) -> Failure:
    """What the engine stores of an exception: a sentence for the user's, a traceback for a bug."""
    kind, sentence, exit_code = "failed", str(error), 1
    match error:
        case Interrupted():
            number = signal.Signals(error.args[0])
            kind, sentence, exit_code = "interrupted", f"stopped by {number.name}", 128 + number
        case JobError():
            kind, exit_code = error.kind, error.exit_code
        case DataError():
            exit_code = JobError.exit_code  # a job's 4 says that its checkpoint cannot be used
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
    """Writes what the job leaves; a full disk is waited for, until the engine calls that hanging.

    It is called so after `--timeout` without a word, and runs again from its newest state then.
    """
    note = f"has ended, and waits for room to leave its result in {file.parent}"
    while True:
        try:
            with whole_file(file) as stream:  # whole or not at all, even after a power cut
                stream.write(text.encode())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        else:
            return
        if note:
            report(Progress(phase="saving", note=note))
        note = ""  # once: the engine says it to the user
        time.sleep(SECONDS_BETWEEN_TRIES)


def parse(words: Sequence[str]) -> tuple[Path, dict[str, Any]]:
    """The arguments of `main` from those of the command."""
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
