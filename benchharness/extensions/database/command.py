"""The commands of `bench db`.

They rename, hide and delete leaderboard entries, and check, copy and merge databases.
"""

import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from itertools import count as numbers
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.chosen import find_runs
from benchharness.cli.options import Database, OfRuns, argument, in_this_database, with_options
from benchharness.cli.output import tell_notes, writing
from benchharness.cli.tables import counting
from benchharness.driver.options import DATABASE, option
from benchharness.driver.start_checkpoints import delete_models, kept_model
from benchharness.errors import BenchError, StoreError
from benchharness.leaderboard.boards.board import select_entry
from benchharness.leaderboard.boards.naming import short_name
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store import stored_names
from benchharness.leaderboard.store.archive import write_archive
from benchharness.leaderboard.store.numbers import Known, check_runs
from benchharness.leaderboard.store.record import StoredRun
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import counted, visible, whole_file
from benchharness.stored import gather_boards, stored_name
from benchharness.tasks.suites import distinct_title

Row = Annotated[
    str,
    argument(
        "ROW",
        "A model, or one of its leaderboard entries, such as MODEL:lr=3e-4 or MODEL:RECIPE.",
        "stored_models",
    ),
]
NewName = Annotated[str, argument("NAME", "The new name.")]
Rows = Annotated[
    list[str] | None,
    argument(
        "ROW...",
        "Models, or leaderboard entries such as MODEL:lr=3e-4. Without any, the hidden entries are "
        "listed.",
        "stored_models",
    ),
]
Keys = Annotated[
    list[str] | None, argument("KEY...", "The first characters of runs' keys.", "keys")
]

SHOWN = 10
"""Largest number of lines in the list of runs to be deleted. Each line stands for all runs with the
same model, recipe and task."""


@with_options()
def rename(row: Row, name: NewName, *, db: Database = DATABASE) -> None:
    """Rename a model or a leaderboard entry. Leaderboards, lists and exports show the new name.

    Stored runs and their keys do not change. Later runs of the same model or entry get the new name
    too.
    """
    if not name.strip() or visible(name) != name or ":" in name:
        raise BenchError(
            f"{name!r} is not a valid name: expected visible characters without a colon."
        )
    with open_store(db, create=False) as store:
        found, is_model = _find(store, row)
        keys = {run.key for run in found}
        given = {found[0].model}
        is_back = name in stored_names(given, store.annotations()) - given
        if not is_back and any(run.key not in keys for run in store.runs(model=name)):
            raise BenchError(f"a model called {name!r} exists already. Choose another name.")
        before = stored_name(store, row)
        store.annotate(keys, "name", name, whole_model=is_model)
        now = name if is_model or not is_back else _row_of(store, keys)
    back = shlex.join(["bench", "db", "rename", now, found[0].model, *in_this_database(db)])
    typer.echo(visible(f"{before} is now called {name}. To undo it: {back}"))


@with_options()
def hide(
    rows: Rows = None,
    *,
    undo: bool = option(False, "Show the entries again."),
    db: Database = DATABASE,
) -> None:
    """Hide models or single entries from leaderboards, the report and exports, or show them again.

    Nothing is deleted: `bench show runs` still lists their runs.
    """
    with open_store(db, create=False) as store:
        if not rows:
            _list_hidden(store, in_this_database(db))
            return
        for name in rows:
            found, is_model = _find(store, name)
            keys = {run.key for run in found}
            if undo:
                store.remove_annotation(keys, "hidden")
                typer.echo(visible(f"{name} is shown again."))
                continue
            store.annotate(keys, "hidden", whole_model=is_model)
            back = shlex.join(["bench", "db", "hide", name, "--undo", *in_this_database(db)])
            typer.echo(visible(f"{name} is hidden. To show it again: {back}"))


@with_options()
def delete(
    keys: Keys = None,
    *,
    of: OfRuns,
    yes: bool = option(False, "Delete without asking.", flag="--yes -y"),
) -> None:
    """Delete stored runs, which are selected by key or by the options of `bench show runs`.

    The command asks for confirmation. Before they are deleted, the runs are written to an archive
    next to the database, from which `bench db import` can restore them. Their kept models cannot
    be restored.
    """
    if not (keys or of.model or of.suite or of.task):
        raise BenchError(
            "nothing to delete: name runs by their keys, or use --model, --suite or --task."
        )
    with open_store(of.db, create=False) as store:
        found = _chosen(store, keys or (), of)
        if not found:
            raise BenchError("no stored run matches. `bench show runs` lists the stored runs.")
        chosen = {run.key for run in found}
        models = [key for key in chosen if kept_model(of.db, key)]
        _tell(store, found)
        if models:
            typer.echo(
                f"  {counted(len(models), 'kept model')} of these runs, permanently", err=True
            )
        count = counted(len(chosen), "run")
        if not (yes or _agrees(f"delete {count} from {store.name}?")):
            typer.echo("nothing was deleted.")
            return
        _delete(store, of.db, chosen, models)


def _delete(store: Store, db: str, keys: Collection[str], models: Sequence[str]) -> None:
    """Write the runs with these keys to an archive, and then delete them and their models.

    The path of the archive is printed.
    """
    archive, digests = _set_aside(store, keys)
    if not digests:
        archive.unlink()
        typer.echo("nothing was left to delete: another command has meanwhile deleted these runs.")
        return
    back = shlex.join(["bench", "db", "import", str(archive), *in_this_database(db)])
    # Print this before anything is deleted. If this process is killed while it deletes, the archive
    # of the next attempt will have only the remaining runs.
    tell_notes([f"{archive} contains all of these runs. To restore them: {back}"])
    # Delete the models before the runs, because no command can find the model of a deleted run. If
    # this process is interrupted, the models of the remaining runs can then still be found.
    if used := delete_models(db, models):
        tell_notes([f"the model of run {key[:12]} is in use and was not deleted." for key in used])
    try:
        deleted = store.delete(keys, digests)
    except StoreError as error:
        if not models:
            raise
        raise type(error)(
            *error.args, "The kept models of these runs were already deleted."
        ) from error
    if gone := len(keys) - deleted:
        tell_notes([f"another command has meanwhile deleted {gone} of these runs."])
    if new := len(store.runs_with(keys)):
        tell_notes(
            [f"{counted(new, 'run')} got a new attempt in the meantime, which was not deleted."]
        )
    typer.echo(visible(f"deleted: {counted(deleted, 'run')}. To restore them: {back}"))


def _find(store: Store, name: str) -> tuple[list[RunRow], bool]:
    """Return the runs of the model or leaderboard entry `name`, and whether it names a model.

    Raises:
        BenchError: There is no such model or entry.
    """
    wanted = stored_name(store, name)
    if runs := store.runs(model=wanted):
        # The user may have given this name to a single entry. It is then not the name of a model.
        return runs, not any(run.is_named for run in runs)
    boards = gather_boards(store, with_hidden=True)
    entries = [entry for board in boards if (entry := select_entry(board, wanted))]
    if not entries:
        models = ", ".join(store.models()) or "none"
        raise BenchError(
            f"no leaderboard entry is called {name!r}. The stored models are: {models}."
        )
    return [run for entry in entries for run in entry.runs], False


def _row_of(store: Store, keys: Collection[str]) -> str:
    """Return the name that a user types for the leaderboard entry with these runs."""
    boards = gather_boards(store, with_hidden=True)
    return next(
        short_name(entry, board.entries)
        for board in boards
        for entry in board.entries
        if any(run.key in keys for run in entry.runs)
    )


def _list_hidden(store: Store, there: Sequence[str]) -> None:
    hidden = {run.key for run in store.runs() if run.is_hidden}
    told: dict[str, None] = {}
    for board in gather_boards(store, with_hidden=True) if hidden else ():
        for entry in board.entries:
            if any(run.key in hidden for run in entry.runs):
                short = short_name(entry, board.entries)
                back = shlex.join(["bench", "db", "hide", short, "--undo", *there])
                told[f"{entry.name} ({board.title}): {back}"] = None
    for line in told:
        typer.echo(visible(line))
    if not told:
        typer.echo("no entry is hidden.")


def _chosen(store: Store, keys: Sequence[str], of: OfRuns) -> list[RunRow]:
    """Return the runs that the options select and, if keys are given, that have one of the keys."""
    if not keys:
        return find_runs(store, of)
    whole = [store.result(key).job.key for key in keys]  # raises unless each key is of one run
    named = {run.key for run in find_runs(store, of)}
    return [run for run in store.runs_with(whole) if run.key in named]


def _tell(store: Store, found: Sequence[RunRow]) -> None:
    """Print the runs that will be deleted, and how many other runs depend on their models.

    Those runs started from one of these models, or were distilled from one.
    """
    kinds = Counter((run.model, run.task, run.shown_recipe) for run in found)
    for (model, task, recipe), count in list(kinds.items())[:SHOWN]:
        typer.echo(visible(f"  {model}, {recipe}, {distinct_title(task)}: {count}"), err=True)
    if len(kinds) > SHOWN:
        typer.echo(
            f"  and {len(kinds) - SHOWN} more combinations of model, recipe and task", err=True
        )
    keys = {run.key for run in found}
    rest = [run for run in store.runs() if run.key not in keys]
    started = sum(run.start_from in keys for run in rest)
    learned = sum(run.teacher is not None and run.teacher.run in keys for run in rest)
    for count, why in (
        (
            started,
            "started from these and are kept, but no longer show which run they started from",
        ),
        (learned, "were distilled from these and are kept, but cannot be run again"),
    ):
        if count:
            typer.echo(f"  stored runs that {why}: {count}", err=True)


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        raise BenchError(f"{question} This is not a terminal, so use --yes to confirm.")
    return typer.confirm(visible(question), err=True)


def _set_aside(store: Store, keys: Collection[str]) -> tuple[Path, set[str]]:
    """Write the runs to an archive next to the store; return its path and the runs' digests."""
    folder = store.kept_folder.with_suffix("")
    # The name has microseconds, so that two simultaneous commands do not write the same file.
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    start = f"{folder.name}.deleted-{moment}"
    # If two commands still get the same time, a number is appended to the name.
    ends = chain([""], (f"-{number}" for number in numbers(2)))
    names = (folder.with_name(f"{start}{end}.jsonl.gz") for end in ends)
    archive = next(path for path in names if not (path.exists() or path.is_symlink()))
    digests = set[str]()

    def noted() -> Iterator[StoredRun]:
        for run in store.stored_runs(keys):
            digests.add(run.digest)
            yield run

    alike = f"{folder.name}.deleted"
    with writing(archive, "Nothing was deleted."), whole_file(archive, alike) as file:
        write_archive(file, noted(), paths=True, deleted_from=store.place_digest)
    return archive, digests


# Checking, copying and merging databases.
BackupFile = Annotated[
    Path,
    argument(
        "FILE", "File for the copy. The copy of a database on a server is a .jsonl.gz archive."
    ),
]
Other = Annotated[str, argument("OTHER", "Database whose runs are added: a path or a URL.")]

KEYS_SHOWN = 10


@with_options(plugins=False)
def check(*, db: Database = DATABASE) -> None:
    """Check the whole database for damage, and print each problem.

    The checks cover the file, the schema, the digest of every run, and rows that belong to no run.
    Nothing is changed. Exits with 5 if a problem is found.
    """
    found = 0
    with open_store(db, create=False, upgrade=False) as store:
        for fault in chain(store.kept_faults(), store.faults()):
            typer.echo(visible(fault))
            found += 1
        if not found:
            typer.echo(visible(f"{store.name}: no problems found, jobs: {store.count()}"))
            return
    raise StoreError(
        f"{store.name} has {counted(found, 'problem')}. Restore a backup, or save the readable "
        "runs as docs/store.md describes."
    )


@with_options(plugins=False)
def backup(file: BackupFile, *, db: Database = DATABASE) -> None:
    """Copy the database to a file.

    Other processes may write to the database meanwhile: the copy contains its state at one moment.
    """
    with open_store(db, create=False) as store:
        store.back_up(file)
    typer.echo(visible(f"backup: {file}"))


@with_options(plugins=False)
def merge(other: Other, *, db: Database = DATABASE) -> None:
    """Add the runs of another database to this one, except runs that this one has already.

    If both databases have runs of a job, all attempts are kept in the order in which they ended,
    and the newest result counts.
    """
    with open_store(other, create=False) as source, open_store(db) as store:
        tell_notes(store.taken.sentences(store.name))
        total, attempts = source.count(), source.attempt_count()
        with counting("runs checked", attempts) as watched:
            known: Known = {}
            check_runs(watched(source.stored_runs()), known)  # raises an error before any change
        tell_notes(store.check_rows(known, source.name))
        with counting("runs", attempts) as watched:
            merged = store.merge(watched(source.stored_runs()), are_checked=True)
    typer.echo(f"added: {counted(merged.added, 'run')}. Jobs in the other database: {total}.")
    if merged.shared:
        keys = ", ".join(key[:12] for key in merged.shared[:KEYS_SHOWN])
        more = ", ..." if len(merged.shared) > KEYS_SHOWN else ""
        typer.echo(
            f"both databases have different runs of {counted(len(merged.shared), 'job')} "
            f"({keys}{more}). All runs are kept, and the newest result counts."
        )
