"""`bench db`: check, copy, recover and merge the leaderboard's database."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchharness.cli.options import DATABASE, Database
from leaderboard.text import visible

if TYPE_CHECKING:
    from leaderboard.store.merging import Merged

__all__ = ["db_app"]

db_app = typer.Typer(
    no_args_is_help=True, help="Check, back up, recover or merge the leaderboard's database."
)

BackupFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="The copy to make; of a database server an archive (.jsonl.gz)."
    ),
]
Damaged = Annotated[
    str, typer.Argument(metavar="DAMAGED", help="The database to read: a path or a URL.")
]
New = Annotated[Path, typer.Argument(metavar="NEW", help="The database to make: a path.")]
Other = Annotated[
    str, typer.Argument(metavar="OTHER", help="The database whose runs to take: a path or a URL.")
]


@db_app.command()
def check(*, db: Database = DATABASE) -> None:
    """Say everything that is wrong with the database; reads every byte of it.

    Its file, its schema, the digest of every run, and rows without their run. Exit code 5 for any
    fault. Nothing is changed.
    """
    from leaderboard.store.store import open_store
    from tasks.errors import StoreError

    found = 0
    with open_store(db, create=False, upgrade=False) as store:
        for fault in store.faults():
            typer.echo(visible(fault))
            found += 1
        if not found:
            typer.echo(visible(f"{store.name}: sound, jobs: {store.count()}"))
            return
    raise StoreError(
        f"{store.name} has {found} fault{'' if found == 1 else 's'}: `bench db recover` saves what "
        "is whole into a new database."
    )


@db_app.command()
def backup(file: BackupFile, *, db: Database = DATABASE) -> None:
    """Copy the database while others use it: of one moment, and whole or not at all."""
    from leaderboard.store.store import open_store

    with open_store(db, create=False) as store:
        store.back_up(file)
    typer.echo(visible(f"backup: {file}"))


@db_app.command()
def recover(damaged: Damaged, new: New) -> None:
    """Save what can be read of a damaged database into a new one.

    Every run is checked by its digest, so that nothing comes back changed; the damaged file is only
    read. Runs that are lost are missing, and `bench run` runs them again.
    """
    from leaderboard.store.database import check_new
    from leaderboard.store.recovery import recover as save

    check_new(new)
    found = save(damaged, new)
    lost = f"at least {found.lost} are lost" if found.lost else "none is known to be lost"
    typer.echo(visible(f"{new}: {found.kept} runs were saved, {lost}."))


@db_app.command()
def merge(other: Other, *, db: Database = DATABASE) -> None:
    """Take all runs of another database into this one; what is here already is not doubled.

    Where both have run a job, all attempts are kept in the order in which they ended, and the
    newest result counts.
    """
    from leaderboard.store.store import open_store

    with open_store(other, create=False) as source, open_store(db) as store:
        merged = store.merge(source.stored_runs())
        total = source.count()
    for line in _told(merged, total):
        typer.echo(visible(line))


def _told(merged: "Merged", total: int) -> list[str]:
    lines = [f"{merged.added} runs added, of {total} jobs."]
    if merged.shared:
        keys = ", ".join(key[:12] for key in merged.shared[:10])
        more = ", ..." if len(merged.shared) > 10 else ""
        lines.append(
            f"both have different runs of {len(merged.shared)} jobs ({keys}{more}): all are kept, "
            "the newest result counts."
        )
    return lines
