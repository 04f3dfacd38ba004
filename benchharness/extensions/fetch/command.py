"""The command `bench fetch`, which downloads models and data so that later runs need no network.

    python -P -m benchharness.extensions.fetch.command model ID REVISION
    python -P -m benchharness.extensions.fetch.command task NAME

`bench fetch` starts one of these commands for each download. A download needs its own process that
can be killed, because the Hugging Face libraries wait forever for a server that accepts a
connection but never answers.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import typer

from benchharness.cli.options import AsJson, with_options
from benchharness.cli.output import print_json
from benchharness.driver.options import OPTIONS, RunOptions, option
from benchharness.errors import BenchError, DataError, ModelError
from benchharness.machine import cache_folders
from benchharness.models import Trust, find_model
from benchharness.models.spec import called
from benchharness.models.weights import download
from benchharness.plugins import load_plugins
from benchharness.recipes.resolve import with_start_tasks
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.sources.hub import go_offline_if_unreachable
from benchharness.tasks.suites import find_suites, find_task, full_title, select_tasks

POLL_SECONDS = 0.5


@with_options(but=OPTIONS.keys() - {"suite", "trust_remote_code", "allow_pickle"})
def fetch(
    options: RunOptions,
    *,
    model: list[str] | None = option(
        None,
        "Model to download (repeatable).",
        metavar="NAME,...",
        proposes="models",
        separated=True,
    ),
    task: list[str] | None = option(
        None,
        "Task to download data for; with --suite, one of the suite's tasks (repeatable).",
        metavar="NAME,...",
        proposes="tasks",
        separated=True,
    ),
    timeout: float = option(
        120, "Give up if no data arrive for this many seconds.", least=1, metavar="SECONDS"
    ),
    as_json: AsJson = False,
) -> None:
    """Download models and the data of suites or tasks, so that later runs need no network.

    The files, tokenizer and config of each model are checked, so that a run can load it. If the
    recipe of a model trains another task first, the data of that task are downloaded too.
    """
    if not (model or options.suite or task):
        raise BenchError(
            "nothing to fetch: name a model (--model), a suite (--suite) or a task (--task)."
        )
    trust = options.trust
    specs = [find_model(name, trust) for name in model or ()]
    suites = [found for name in options.suite for found in find_suites(name)]
    tasks = select_tasks(suites, task or ()) if options.suite or task else ()
    trusted = [name for name, given in vars(trust).items() if given]
    wanted = [("model", s.checkpoint, s.revision, *trusted) for s in specs if s.is_hub]
    wanted += [("task", found.name) for found in with_start_tasks(specs, tasks)]
    if wanted and go_offline_if_unreachable():
        raise DataError(
            "nothing can be fetched, because the hub does not answer or HF_HUB_OFFLINE is set. Run "
            "`bench fetch` on a machine with network access."
        )
    fetched = [_watch(words, timeout) for words in wanted]
    command = _offline_command(model or (), options.suite, task or ())
    if as_json:
        print_json({"fetched": fetched, "offline_command": command})
    else:
        typer.echo(f"everything is in the cache. To run without a network:\n  {command}")


def _watch(words: Sequence[str], timeout: float) -> dict[str, Any]:
    """Run one download in its own process, and return the facts that it prints.

    Args:
        words: Arguments of `_main`.
        timeout: Seconds without new data after which the process is killed and an error is raised.
    """
    kind, name, *_ = words
    name = full_title(name) if kind == "task" else called(name)
    typer.echo(f"fetching {kind} {name}", err=True)
    command = (sys.executable, "-P", "-m", "benchharness.extensions.fetch.command", *words)
    error = ModelError if kind == "model" else DataError
    with subprocess.Popen(  # noqa: S603  (our own command, no shell)
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment()
    ) as process:
        try:
            # Wait until the process ends, or until the cache has not grown for `timeout` seconds.
            size, last_growth = _cached_bytes(), time.monotonic()
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
                if (now := _cached_bytes()) != size:
                    size, last_growth = now, time.monotonic()
                elif time.monotonic() - last_growth > timeout:
                    raise TimeoutError
        except TimeoutError:
            raise error(
                f"the download of the {kind} {name} stalled for {timeout:g} s. Try again; the data "
                "that have arrived are kept."
            ) from None
        finally:
            process.kill()
        output, complaint = process.communicate()
    if process.returncode:
        raise error(
            complaint.strip().rpartition("\n")[2] or f"the download of the {kind} {name} failed."
        )
    return dict(json.loads(output))


def _environment() -> dict[str, str]:
    """Return the environment variables of the download process.

    They disable Xet downloads, because only plain HTTP downloads write data into the cache as they
    arrive, which `_watch` needs in order to detect a stalled download.
    """
    quiet = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return os.environ | quiet


def _cached_bytes() -> int:
    return sum(_size(path) for folder in cache_folders().values() for path in folder.rglob("*"))


def _size(path: Path) -> int:
    """Return a file's size in bytes, or 0 if it no longer exists."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _offline_command(models: Sequence[str], suites: Sequence[str], tasks: Sequence[str]) -> str:
    options = [f"--model {quote(name)}" for name in models or ["MODEL"]]
    options += [f"--suite {name}" for name in suites or ([] if tasks else ["SUITE"])]
    options += [f"--task {name}" for name in tasks]
    return f"HF_HUB_OFFLINE=1 bench run {' '.join(options)}"


def _fetch_model(hub_id: str, revision: str, *trusted: str) -> dict[str, Any]:
    trust = Trust(**dict.fromkeys(trusted, True))
    folder = download(hub_id, revision, trust)
    # Importing torch and transformers takes seconds, so do it only after the download.
    from benchharness.encoder import prepare_checkpoint  # noqa: PLC0415  (see the comment above)

    prepare_checkpoint(hub_id, folder.name, trust)
    return {"model": hub_id, "revision": folder.name, "folder": str(folder)}


def _fetch_task(name: str) -> dict[str, Any]:
    load_plugins()
    task, hub = find_task(name), parse_data("hub")
    return {
        "task": name,
        "rows": {split: len(read(task, split, hub).examples) for split in task.source.splits},
    }


def _main(kind: str, *words: str) -> int:
    """Run one download and return its exit code.

    Facts about the download are printed as JSON on stdout. An error is the last line of stderr.
    """
    try:
        fetched = _fetch_model(*words) if kind == "model" else _fetch_task(*words)
    except BenchError as error:
        sys.stderr.write(f"{' '.join(str(error).split())}\n")
        return error.exit_code
    sys.stdout.write(json.dumps(fetched))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
