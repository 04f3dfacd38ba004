"""The command `bench doctor`, which checks this machine, its caches and the database."""

import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

import typer

from benchharness.cli.options import AsJson, Database, with_options
from benchharness.cli.output import print_json, print_table
from benchharness.driver.options import DATABASE
from benchharness.driver.start_checkpoints import folder_beside
from benchharness.engines.slots import find_gpus
from benchharness.errors import StoreError, shown_place
from benchharness.kept_folders import KEPT_MODELS, checkpoints_in, is_whole, shown_bytes
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import counted
from benchharness.machine import (
    OF_GPUS,
    cache_folders,
    cpu_has_bf16,
    cpu_model,
    library_versions,
)
from benchharness.tasks.sources.hub import go_offline_if_unreachable
from benchharness.version import package_version, source_commit

FULL_BYTES = 2 * 2**30
"""Free disk space in bytes below which a warning is given; a single large checkpoint has 1.4 GB."""


class Finding(NamedTuple):
    """Result of one check.

    Attributes:
        name: The name of the check, such as "hub" or "gpus".
        state: "ok", "warning" or "problem".
        found: The text after the name in the output, such as the version of a library, or the
            problem and how to solve it.
    """

    name: str
    state: str
    found: str


@with_options(plugins=False)
def doctor(*, db: Database = DATABASE, as_json: AsJson = False) -> None:
    """Check versions, the hub, caches, disk, processor, GPUs, the database and kept models.

    Exits with 1 if a problem was found that would stop a run.
    """
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _versions,
        _extras,
        _hub,
        _caches,
        _processor,
        _gpus,
        lambda: _database(db),
        lambda: _models(db),
    )
    findings = [finding._asdict() for check in checks for finding in check()]
    if as_json:
        print_json(findings)
    else:
        print_table(findings, Finding._fields, "")
    if any(finding["state"] == "problem" for finding in findings):
        raise typer.Exit(1)


def _versions() -> Iterator[Finding]:
    source = source_commit()
    changed = " with uncommitted changes" if source["dirty"] else ""
    commit = f", commit {source['commit'][:12]}{changed}" if source["commit"] else ""
    yield Finding("benchharness", "ok", f"{package_version()}{commit}")
    yield Finding("python", "ok", platform.python_version())
    for name, version in library_versions().items():
        if version or name != OF_GPUS:
            yield Finding(name, "ok" if version else "problem", version or "not installed")
        else:
            state = "warning" if find_gpus() else "ok"
            yield Finding(name, state, "not installed; only runs on a GPU need it")


def _extras() -> Iterator[Finding]:
    """List the extras of benchharness whose packages are installed, and the others."""
    # There is no line if the files of benchharness were copied instead of installed.
    lines = [line for ours in distributions(name="benchharness") for line in ours.requires or ()]
    needed = [found for line in lines if (found := re.match(r"([\w.-]+).*extra == .(\w+)", line))]
    lacking = {found[2] for found in needed if not any(distributions(name=found[1]))}
    if extras := list(dict.fromkeys(found[2] for found in needed if found[2] != "dev")):
        here = ", ".join(name for name in extras if name not in lacking) or "none installed"
        missing = ", ".join(name for name in extras if name in lacking)
        how = f"; not installed: {missing} (pip install 'benchharness[NAME]')" if missing else ""
        yield Finding("optional", "ok", f"{here}{how}")


def _hub() -> Iterator[Finding]:
    """Check whether the hub can be reached.

    An unreachable hub is only a warning, because local data and cached files can still be used.
    """
    if os.environ.get("HF_HUB_OFFLINE"):
        yield Finding("hub", "warning", "disabled by HF_HUB_OFFLINE; only cached files are used")
        return
    start = time.monotonic()
    silent = go_offline_if_unreachable()
    seconds = time.monotonic() - start
    endpoint = shown_place(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    if silent:
        hint = "use `--data DIR` or `--data mini` with checkpoint folders, or cached files"
        yield Finding("hub", "warning", f"{endpoint} gave no answer in {seconds:.1f} s; {hint}")
    else:
        yield Finding("hub", "ok", f"{endpoint} answered in {seconds:.1f} s")


def _caches() -> Iterator[Finding]:
    for name, folder in cache_folders().items():
        yield _folder(name, folder)


def _folder(name: str, folder: Path) -> Finding:
    """Check whether a folder can be created or written to, and how much space is free."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        return Finding(name, "problem", f"{folder} cannot be written to")
    free = shutil.disk_usage(existing).free
    state = "ok" if free >= FULL_BYTES else "warning"
    return Finding(name, state, f"{folder}, {free / 2**30:.1f} GiB free")


def _processor() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = os.environ.get("OMP_NUM_THREADS")
    bound = f", OMP_NUM_THREADS={threads}" if threads else ""
    yield Finding("processor", "ok", f"{cpu_model()}, {cores} cores{bound}")
    yield Finding("bf16", "ok", "native" if cpu_has_bf16() else "emulated, so auto picks fp32")


def _gpus() -> Iterator[Finding]:
    gpus = find_gpus()
    found = f"{len(gpus)} usable: {', '.join(gpus)}" if gpus else "none usable; jobs run on the CPU"
    yield Finding("gpus", "ok", found)


def _database(db: str) -> Iterator[Finding]:
    """Check that the leaderboard's database can be opened. An older schema is upgraded."""
    path = Path(db).expanduser()
    if "://" not in db:
        yield _folder("results", path.absolute().parent)
        if not path.exists():
            yield Finding("leaderboard", "ok", f"{path} does not exist yet; `bench run` creates it")
            return
    try:
        with open_store(db, create=False) as store:
            maker = store.newest_maker()
            by = f", the newest by {maker}" if maker else ""
            yield Finding("leaderboard", "ok", f"{store.name}, runs: {store.count()}{by}")
    except StoreError as error:
        yield Finding("leaderboard", "problem", str(error))


def _models(db: str) -> Iterator[Finding]:
    """Check the kept models next to the database; this reads all of their files."""
    root = folder_beside(db) / KEPT_MODELS.name
    sizes = checkpoints_in(root)
    if not sizes:
        return
    found = f"{counted(len(sizes), 'model')} in {root}: {shown_bytes(sum(sizes.values()))}"
    yield Finding("models", "ok", found)
    damaged = [key for key in sizes if not is_whole(root / key, key)]
    alone: set[str] = set()
    with suppress(StoreError), open_store(db, create=False) as store:
        alone = sizes.keys() - {run.key for run in store.runs_with(sizes)}
    for keys, said in (
        (damaged, "damaged (`bench run --keep-models` trains them again)"),
        (sorted(alone), "without a stored run (delete their folders unless a run is in progress)"),
    ):
        if keys:
            names = ", ".join(key[:12] for key in keys)
            yield Finding("models", "warning", f"{counted(len(keys), 'model')} {said}: {names}")
