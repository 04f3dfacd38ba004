"""`bench export` and `bench import`: scores for others, and whole stores as archives."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from benchharness import __version__
from benchharness.cli.options import (
    DATABASE,
    AsJson,
    Database,
    DataFilter,
    ShowPaths,
    Suites,
    Tasks,
    completed_by,
    with_plugins,
)
from benchharness.cli.output import counting, print_json, tell_notes
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.imported import read_rows, to_result
from benchharness.leaderboard.boards.sharing import shared_board
from benchharness.leaderboard.exports.cards import (
    to_eval_results,
    to_every_eval_ever,
    to_model_index,
)
from benchharness.leaderboard.exports.lines import narrowed, score_lines, to_csv, to_json
from benchharness.leaderboard.exports.table import to_latex, to_markdown
from benchharness.leaderboard.store.archive import check_archive, read_archive, write_archive
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible, whole_file
from benchharness.stored.boards import gather_boards, stored_name, wanted_tasks
from benchharness.tasks.errors import BenchError


class Format(StrEnum):
    """What an export is written in."""

    CSV = "csv"
    JSON = "json"
    MARKDOWN = "markdown"
    LATEX = "latex"
    MODEL_INDEX = "model-index"
    EVAL_RESULTS = "eval-results"
    EVERY_EVAL_EVER = "every-eval-ever"


WRITERS: dict[Format, Callable[[Sequence[Board]], str]] = {
    Format.CSV: lambda boards: to_csv(score_lines(boards)),
    Format.JSON: lambda boards: to_json(score_lines(boards)),
    Format.MARKDOWN: to_markdown,
    Format.LATEX: to_latex,
    Format.MODEL_INDEX: to_model_index,
    Format.EVAL_RESULTS: to_eval_results,
    Format.EVERY_EVAL_EVER: lambda boards: to_every_eval_ever(
        boards, datetime.now(UTC), __version__
    ),
}

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Only this row: MODEL, or MODEL:RECIPE where it has several; repeatable.",
        autocompletion=completed_by("stored_models"),
    ),
]
InFormat = Annotated[
    Format,
    typer.Option("--format", metavar="|".join(Format), help="What to write the scores in."),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="The file to write. Default: stdout.")
]
Archive = Annotated[
    Path | None,
    typer.Option(
        "--all",
        metavar="FILE",
        help="Write everything that is stored, predictions too, for `bench import` (.jsonl.gz).",
    ),
]


@with_plugins
def export(  # noqa: PLR0913  (one parameter for each option)
    *,
    suite: Suites = None,
    model: Models = None,
    task: Tasks = None,
    data: DataFilter = None,
    form: InFormat = Format.CSV,
    out: Out = None,
    show_paths: ShowPaths = False,
    everything: Archive = None,
    db: Database = DATABASE,
) -> None:
    """Write the boards' scores as a table, a model card or a record; or the whole store."""
    if everything is None:
        boards = _boards(db, suite or (), model or (), task or (), data)
        _put(WRITERS[form](boards if show_paths else list(map(shared_board, boards))), out)
        return
    if suite or model or task or data or out:
        raise BenchError(
            "--all writes the whole store into its own FILE: leave out --suite, --model, --task, "
            "--data and --out."
        )
    if everything.suffix != ".gz":
        raise BenchError(f"an archive is a .jsonl.gz file, found {everything.name!r}: name it so.")
    with open_store(db, create=False) as store:
        try:
            with whole_file(everything) as file:
                count = write_archive(file, store.stored_runs())
        except OSError as error:
            raise _unwritable(everything, error) from error
    typer.echo(visible(f"archive: {everything}, {count} run{'' if count == 1 else 's'}"))


def _boards(
    db: str,
    suites: Sequence[str],
    models: Sequence[str],
    tasks: Sequence[str],
    data: str | None,
) -> list[Board]:
    """What is exported, as the command's options name it."""
    with open_store(db, create=False) as store:
        wanted = wanted_tasks(store, suites, tasks) if tasks else ()
        names = suites or tuple(dict.fromkeys(name.partition("/")[0] for name in wanted))
        boards = gather_boards(store, names, data)
        models = [stored_name(store, name) for name in models]
    return narrowed(boards, models, wanted)


def _put(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        with whole_file(out) as file:
            file.write(text.encode("utf-8"))
    except OSError as error:
        raise _unwritable(out, error) from error
    typer.echo(visible(f"export: {out}"))


def _unwritable(path: Path, error: OSError) -> Exception:
    reason = error.strerror or error
    return BenchError(f"{path} could not be written: {reason}. Give another file.")


# `bench import`

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="An archive of `bench export --all` (.jsonl.gz), or rows measured elsewhere (.csv or "
        ".json).",
    ),
]


@with_plugins
def import_file(file: File, *, db: Database = DATABASE, as_json: AsJson = False) -> None:
    """Bring the runs of another store, or rows measured elsewhere, into this one.

    Everything is checked first: where a byte of an archive or a row is wrong, nothing changes.
    """
    match file.suffix.lower():
        case ".gz":
            noun, count = "runs", check_archive(file)
        case ".csv" | ".json":
            noun, count = "rows", sum(1 for _ in read_rows(file))
        case _:
            raise BenchError(
                f"{file.name!r} cannot be imported: expected an archive (.jsonl.gz) or rows (.csv "
                "or .json)."
            )
    with open_store(db) as store, counting(noun, count) as counted:
        tell_notes(store.taken.sentences(store.name))
        if noun == "runs":
            added = store.add_stored(counted(read_archive(file)))
        else:
            added = store.add_results(map(to_result, counted(read_rows(file))))
    if as_json:
        print_json({"file": str(file), noun: count, "added": added})
        return
    known = f", {count - added} were here already" if added < count else ""
    typer.echo(visible(f"{file}: {added} of {count} {noun} added{known}"))
