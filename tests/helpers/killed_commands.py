"""Commands that are killed at random with all of their processes, and their final files.

Each has a folder that is prepared once and copied; in the end it must equal that of an undisturbed
command.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchharness.leaderboard.store.store import open_store
from tests.helpers.bench_process import BENCH, environment
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.extensions import of_extensions
from tests.helpers.stopped_jobs import deterministic

TINY = ("--model", "tiny", "--task", "glue/rte", "--data", "mini", "--limit", "24")
QUICK = (
    "--set",
    "epochs=1",
    "--set",
    "learning_rate=1e-3",
    "--device",
    "cpu",
    "--precision",
    "fp32",
)

STORE = Path("results/leaderboard.sqlite")
MARK = "KILLED_FOLDER"


@dataclass(frozen=True, kw_only=True)
class Killed:
    """Command, the preparation of its folder, and a pattern of the files that it writes."""

    words: tuple[str, ...]
    ready: Callable[[Path], None]
    files: str


def ended(folder: Path, *words: str, code: int = 0) -> None:
    """Run a command undisturbed."""
    done = subprocess.run(
        (*BENCH, *words), cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def with_encoder(folder: Path) -> None:
    """Prepare a second encoder in addition to the tiny one."""
    save_checkpoint(folder / "other")


def with_baseline(folder: Path) -> None:
    """Prepare a baseline without runs."""
    ended(folder, "run", *TINY, "--seeds", "2", *QUICK, "--no-baselines")
    ended(folder, "check", "--write", "--model", "tiny", "--suite", "glue", "--allow-weak")
    shutil.move(folder / "results" / "baseline.json", folder / "baseline.json")
    shutil.rmtree(folder / "results")


def with_model(folder: Path) -> None:
    """Prepare a kept model, and rows in several parts."""
    ended(folder, "run", *TINY, "--seeds", "1", *QUICK, "--no-baselines", "--keep-models")
    (kept,) = (folder / "results" / "models").iterdir()
    shutil.move(kept, folder / "model")
    shutil.rmtree(folder / "results")
    line = '{{"sentence1": "row {} {}", "sentence2": "is a row"}}\n'
    rows = (line.format(number, "word " * (number % 40)) for number in range(1000))
    (folder / "rows.jsonl").write_text("".join(rows))


COMMANDS = {
    "check": Killed(
        words=(
            *("check", *TINY, "--seeds", "2", *QUICK[:4], "--device", "cpu"),
            *("--baseline", "baseline.json"),
        ),
        ready=with_baseline,
        files="*.md",
    ),
    "which": Killed(
        words=(
            *("which", "--among", "tiny,other=other", "--task", "glue/rte", "--data", "mini"),
            *("--limit", "24", "--seeds", "1", "--minutes", "60", *QUICK),
        ),
        ready=with_encoder,
        files="",
    ),
    "predict": Killed(
        words=("predict", "model", "rows.jsonl", "--out", "answers.jsonl"),
        ready=with_model,
        files="answers.jsonl",
    ),
    **of_extensions(
        {
            "paper": {
                "paper": Killed(
                    words=(
                        *("paper", "--model", "tiny", "--against", "other=other"),
                        *("--suite", "squad", "--data", "mini", "--limit", "8"),
                        *("--seeds", "1", *QUICK),
                    ),
                    ready=with_encoder,
                    files="paper/*",
                )
            }
        }
    ),
}


def results_of(folder: Path) -> dict[str, Any]:
    """Return the stored results without clock times; check that the store has no fault."""
    if not (folder / STORE).exists():
        return {}
    with open_store(folder / STORE, create=False) as store:
        assert list(store.faults()) == []
        found = [store.result(row.key) for row in store.runs()]
        return {r.job.key: deterministic(r) if "recipe" in r.provenance else 0 for r in found}


def files_of(folder: Path, command: Killed) -> dict[str, bytes]:
    """Return the written output files by name."""
    found = sorted(path for path in folder.glob(command.files or "none") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def processes_of(folder: Path) -> list[int]:
    """Return the running processes that were started in a folder."""
    mark, found = f"{MARK}={folder}".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def kill_after(folder: Path, command: Killed, seconds: float) -> int | None:
    """Kill the command and its processes; return its status if it had ended before."""
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            (*BENCH, *command.words),
            cwd=folder,
            env=environment() | {MARK: str(folder)},
            stdout=said,
            stderr=said,
        )
    with suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 15
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "they outlive the command"
    return None


def check_kills(name: str, root: Path, kills: int, draw: Random) -> int:
    """Kill a command `kills` times, resuming each time; return how often it was running.

    After each kill the store is sound, and every file is complete or absent. Then the same command
    finishes with the output of an undisturbed one.
    """
    command, ready, calm = COMMANDS[name], root / "ready", root / "calm"
    ready.mkdir()
    command.ready(ready)
    shutil.copytree(ready, calm)
    start = time.monotonic()
    code = kill_after(calm, command, 600)
    seconds = time.monotonic() - start
    assert code in (0, 3), (calm / "said").read_text()
    expected, whole = results_of(calm), files_of(calm, command)
    folder, hit = root / "killed", 0
    for _ in range(kills):
        if not folder.exists():
            shutil.copytree(ready, folder)
        status = kill_after(folder, command, draw.uniform(0.2, max(0.3, 0.7 * seconds)))
        hit += status is None
        assert results_of(folder).items() <= expected.items()
        found = files_of(folder, command)
        assert found.keys() <= whole.keys()
        assert all(is_alike(text, whole[path]) for path, text in found.items())
        assert status in (None, code), (folder / "said").read_text()
        # `bench predict` refuses to overwrite a complete file, so it had ended before it was
        # killed.
        if status is not None or (name == "predict" and found):
            shutil.rmtree(folder)
    if not folder.exists():
        shutil.copytree(ready, folder)
    assert kill_after(folder, command, 600) == code
    said = (folder / "said").read_text()
    assert "Traceback" not in said, said
    assert results_of(folder) == expected
    found = files_of(folder, command)
    assert found.keys() == whole.keys()
    assert all(is_alike(text, whole[path]) for path, text in found.items())
    left = {path.name for path in (folder / "results").glob("*")}
    assert left <= {STORE.name, f".{STORE.name}.lock", "leaderboard.html"}, left
    return hit


def is_alike(text: bytes, whole: bytes) -> bool:
    """Return whether two files are equal except for times, dates, and digests of such files."""
    if whole.startswith(b"%PDF"):
        return text.startswith(b"%PDF") and text.rstrip().endswith(b"%%EOF")
    return text == whole or _without_numbers(text) == _without_numbers(whole)


def _without_numbers(text: bytes) -> bytes:
    return re.sub(rb"\b[0-9a-f]{64}\b|[0-9.]+(e-[0-9]+)?", b"", text)
