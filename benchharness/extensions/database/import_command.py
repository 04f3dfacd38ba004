"""`bench db import`: import stored runs from an archive, or scores from a table."""

from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.options import AsJson, Database, argument, with_options
from benchharness.cli.output import print_json, tell_notes
from benchharness.cli.tables import counting
from benchharness.driver.options import DATABASE
from benchharness.errors import BenchError
from benchharness.leaderboard.boards.imported import read_rows, to_result
from benchharness.leaderboard.store.archive import archive_facts, check_archive, read_archive
from benchharness.leaderboard.store.numbers import Known
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible

File = Annotated[
    Path,
    argument(
        "FILE",
        "Archive that `bench export --all` wrote (.jsonl.gz), or a table of scores from other "
        "programs (.csv or .json).",
    ),
]


@with_options()
def import_file(file: File, *, db: Database = DATABASE, as_json: AsJson = False) -> None:
    """Import the runs of another database, or a table of scores from other programs.

    The whole file is checked first. If an archive is damaged or a row of the table is invalid,
    nothing is imported.
    """
    theirs: Known = {}
    match file.suffix.lower():
        case ".gz":
            noun, count = "runs", check_archive(file, theirs)
        case ".csv" | ".json":
            noun, count = "rows", sum(1 for _ in read_rows(file))
        case _:
            raise BenchError(
                f"{file.name!r} cannot be imported: expected an archive (.jsonl.gz) or a table of "
                "scores (.csv or .json). Use `bench db merge` to add another database."
            )
    with open_store(db) as store, counting(noun, count) as watched:
        tell_notes(store.taken.sentences(store.name))
        if noun == "runs":
            is_own = archive_facts(file).get("deleted_from") == store.place_digest
            tell_notes(store.check_rows(theirs, str(file), is_own=is_own))
            added = store.add_stored(watched(read_archive(file)), are_checked=True)
        else:
            added = store.add_results(map(to_result, watched(read_rows(file))))
    if as_json:
        print_json({"file": str(file), noun: count, "added": added})
        return
    known = f", already stored: {count - added}" if added < count else ""
    typer.echo(visible(f"{file}: {added} of {count} {noun} added{known}"))
