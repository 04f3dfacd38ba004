"""`bench db`: check, copy and merge the leaderboard's database."""

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.options import Database
from benchharness.cli.output import tell_notes
from benchharness.cli.tables import counting
from benchharness.driver.options import DATABASE
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.tasks.errors import StoreError

db_app = typer.Typer(
    no_args_is_help=True, help="Check, back up or merge the leaderboard's database."
)

BackupFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="The copy to make; of a database server an archive (.jsonl.gz)."
    ),
]
Other = Annotated[
    str, typer.Argument(metavar="OTHER", help="The database whose runs to take: a path or a URL.")
]

KEYS_SHOWN = 10


@db_app.command()
def check(*, db: Database = DATABASE) -> None:
    """Say everything that is wrong with the database; reads every byte of it.

    Its file, its schema, the digest of every run, and rows without their run. Exit code 5 for any
    fault. Nothing is changed.
    """
    found = 0
    with open_store(db, create=False, upgrade=False) as store:
        for fault in chain(store.kept_faults(), store.faults()):
            typer.echo(visible(fault))
            found += 1
        if not found:
            typer.echo(visible(f"{store.name}: sound, jobs: {store.count()}"))
            return
    raise StoreError(
        f"{store.name} has {found} fault{'' if found == 1 else 's'}: put a backup in its place, or "
        "save what is whole (docs/store.md)."
    )


@db_app.command()
def backup(file: BackupFile, *, db: Database = DATABASE) -> None:
    """Copy the database while others use it: of one moment, and whole or not at all."""
    with open_store(db, create=False) as store:
        store.back_up(file)
    typer.echo(visible(f"backup: {file}"))


@db_app.command()
def merge(other: Other, *, db: Database = DATABASE) -> None:
    """Take all runs of another database into this one; what is here already is not doubled.

    Where both have run a job, all attempts are kept in the order in which they ended, and the
    newest result counts.
    """
    with open_store(other, create=False) as source, open_store(db) as store:
        tell_notes(store.taken.sentences(store.name))
        total = source.count()
        with counting("runs", source.attempt_count()) as counted:
            merged = store.merge(counted(source.stored_runs()))
    typer.echo(f"{merged.added} runs added, of {total} jobs.")
    if merged.shared:
        keys = ", ".join(key[:12] for key in merged.shared[:KEYS_SHOWN])
        more = ", ..." if len(merged.shared) > KEYS_SHOWN else ""
        typer.echo(
            f"both have different runs of {len(merged.shared)} jobs ({keys}{more}): all are kept, "
            "the newest result counts."
        )
