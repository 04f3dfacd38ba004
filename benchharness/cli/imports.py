"""`bench import`: the archive of another store, or rows that others have measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchharness.cli.options import DATABASE, AsJson, Database
from leaderboard.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leaderboard.store.record import StoredRun

__all__ = ["import_file"]

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="An archive of `bench export --all` (.jsonl.gz), or rows measured elsewhere (.csv or "
        ".json).",
    ),
]


def import_file(file: File, *, db: Database = DATABASE, as_json: AsJson = False) -> None:
    """Bring the runs of another store, or rows measured elsewhere, into this one.

    Everything is checked first: where a byte of an archive or a row is wrong, nothing changes.
    """
    from benchharness.cli.printing import print_json
    from leaderboard.store.store import open_store

    noun, count, runs = _read(file)
    with open_store(db) as store:
        added = store.add_stored(runs)
    if as_json:
        print_json({"file": str(file), noun: count, "added": added})
        return
    known = f", {count - added} were here already" if added < count else ""
    typer.echo(visible(f"{file}: {added} of {count} {noun} added{known}"))


def _read(file: Path) -> "tuple[str, int, Iterable[StoredRun]]":
    """What the file has, how many of them, and these as runs to store."""
    from leaderboard.boards.imported import read_rows
    from leaderboard.imports.outcome import to_result
    from leaderboard.store.archive import check_archive, read_archive
    from leaderboard.store.record import result_to_stored
    from tasks.errors import BenchError

    match file.suffix.lower():
        case ".gz":
            return "runs", check_archive(file), read_archive(file)
        case ".csv" | ".json":
            scores = read_rows(file)
            return "rows", len(scores), [result_to_stored(to_result(score)) for score in scores]
    raise BenchError(
        f"{file.name!r} is no file to import: expected an archive (.jsonl.gz) or rows (.csv or "
        ".json)."
    )
