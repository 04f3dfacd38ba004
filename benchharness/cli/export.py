"""`bench export` and `bench import`: scores and predictions for others, and whole stores."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from benchharness import __version__
from benchharness.cli.options import (
    AsJson,
    Database,
    DataFilter,
    NoTexts,
    ShowPaths,
    Suites,
    Tasks,
    completed_by,
    with_plugins,
)
from benchharness.cli.output import print_json, tell_notes, writing
from benchharness.cli.tables import counting
from benchharness.driver.options import DATABASE
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.imported import read_rows, to_result
from benchharness.leaderboard.boards.sharing import shared_board
from benchharness.leaderboard.exports.cards import (
    every_eval_ever_record,
    to_eval_results,
    to_every_eval_ever,
    to_model_index,
)
from benchharness.leaderboard.exports.latex import to_latex
from benchharness.leaderboard.exports.lines import score_lines, to_csv, to_json
from benchharness.leaderboard.exports.predictions import (
    ExportedSplit,
    write_csv,
    write_every_eval_ever,
    write_jsonl,
    write_parquet,
)
from benchharness.leaderboard.exports.table import Choice, to_markdown
from benchharness.leaderboard.store.archive import check_archive, read_archive, write_archive
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import counted, visible, whole_file
from benchharness.stored.answers import exported_boards, exported_splits
from benchharness.stored.contrasts import ties_of
from benchharness.tasks.errors import BenchError


class Format(StrEnum):
    """What an export is written in."""

    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"
    MARKDOWN = "markdown"
    LATEX = "latex"
    MODEL_INDEX = "model-index"
    EVAL_RESULTS = "eval-results"
    EVERY_EVAL_EVER = "every-eval-ever"


TABLES = (Format.MARKDOWN, Format.LATEX)
"""What is read by people, as a table a board."""

WITH_COLUMNS = (Format.CSV, Format.JSON, *TABLES)
"""What has columns to choose."""

CARDS: dict[Format, Callable[[Sequence[Board]], str]] = {
    Format.MODEL_INDEX: to_model_index,
    Format.EVAL_RESULTS: to_eval_results,
    Format.EVERY_EVAL_EVER: lambda boards: to_every_eval_ever(
        boards, datetime.now(UTC), __version__
    ),
}

PREDICTIONS: dict[Format, Callable[[IO[bytes], Iterable[ExportedSplit]], int]] = {
    Format.CSV: write_csv,
    Format.JSONL: write_jsonl,
    Format.PARQUET: write_parquet,
}

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "--models",
        metavar="NAME[,NAME]",
        help="Only these rows: MODEL, or MODEL:RECIPE where it has several; repeatable.",
        autocompletion=completed_by("stored_models"),
    ),
]
InFormat = Annotated[
    Format,
    typer.Option("--format", metavar="|".join(Format), help="What to write them in."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME,NAME",
        help="Only these columns, in this order: of a table rank, recipe, precision, seeds (they "
        "stand first), score and tasks (rte); of csv and json those that they have.",
    ),
]
Published = Annotated[
    list[str] | None,
    typer.Option(
        "--published",
        metavar="models|SYSTEM",
        help="In a table, also published rows: of its models, or of a system; repeatable.",
    ),
]
NoSpread = Annotated[
    bool, typer.Option("--no-spread", help="In a table, leave out the spread over seeds.")
]
Siunitx = Annotated[
    bool, typer.Option("--siunitx", help="In LaTeX, align the numbers by siunitx's columns.")
]
Caption = Annotated[
    str | None,
    typer.Option("--caption", metavar="TEXT", help="In LaTeX, this caption, as LaTeX has it."),
]
Label = Annotated[
    str | None,
    typer.Option("--label", metavar="NAME", help="In LaTeX, the label. Default: tab:SUITE."),
]
Ties = Annotated[
    bool,
    typer.Option(
        "--ties",
        help="In a table, make bold too what is not significantly different from the best, by the "
        "test of `bench compare`; reads the examples.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="The file to write; of every-eval-ever with --predictions a folder. Default: stdout.",
    ),
]
Predictions = Annotated[
    bool,
    typer.Option(
        "--predictions",
        help="Write every prediction instead of scores: csv, jsonl, parquet or every-eval-ever.",
    ),
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
    columns: Columns = None,
    published: Published = None,
    no_spread: NoSpread = False,
    siunitx: Siunitx = False,
    caption: Caption = None,
    label: Label = None,
    ties: Ties = False,
    out: Out = None,
    predictions: Predictions = False,
    no_texts: NoTexts = False,
    show_paths: ShowPaths = False,
    everything: Archive = None,
    db: Database = DATABASE,
) -> None:
    """Write the boards' scores as a table, a model card or a record; or predictions; or all."""
    chosen = tuple(word for word in (columns or "").split(",") if word)
    if no_texts and not (predictions and everything is None):
        raise BenchError("--no-texts is of predictions: add --predictions, without --all.")
    options = {"published": published, "ties": ties, "caption": caption, "label": label}
    _check_format(form, columns=chosen, siunitx=siunitx, **options)
    if everything is None:
        with open_store(db, create=False) as store:
            boards = exported_boards(
                store, suites=suite or (), models=model or (), tasks=task or (), data=data
            )
            if not show_paths:
                boards = list(map(shared_board, boards))
            if predictions:
                _put_predictions(store, boards, form, out, texts=not no_texts)
                return
            tied, notes = ties_of(store, boards) if ties else ({}, ())
            tell_notes(notes)
            choice = Choice(
                columns=chosen,
                published=tuple(published or ()),
                spread=not no_spread,
                ties=tied,
            )
        latex = {"siunitx": siunitx, "caption": caption or "", "label": label or ""}
        _put(_text(form, boards, choice, latex), out)
        return
    if suite or model or task or data or out or columns or predictions:
        raise BenchError(
            "--all writes the whole store into its own FILE: leave out --suite, --model, --task, "
            "--data, --columns, --predictions and --out."
        )
    if everything.suffix != ".gz":
        raise BenchError(f"an archive is a .jsonl.gz file, found {everything.name!r}: name it so.")
    store = open_store(db, create=False)
    with store, writing(everything), whole_file(everything) as file:
        count = write_archive(file, store.stored_runs())
    typer.echo(visible(f"archive: {everything}, {counted(count, 'run')}"))


def _check_format(form: Format, **options: object) -> None:
    """Raises BenchError where an option says nothing to the format."""
    fits = {
        "columns": WITH_COLUMNS,
        **dict.fromkeys(("siunitx", "caption", "label"), (Format.LATEX,)),
    }
    for name, value in options.items():
        formats = fits.get(name, TABLES)
        if value and form not in formats:
            raise BenchError(f"--{name} is for --format {' or '.join(formats)}, not {form}.")


def _text(form: Format, boards: Sequence[Board], choice: Choice, latex: Mapping[str, Any]) -> str:
    match form:
        case Format.CSV:
            return to_csv(score_lines(boards), choice.columns)
        case Format.JSON:
            return to_json(score_lines(boards), choice.columns)
        case Format.MARKDOWN:
            return to_markdown(boards, choice)
        case Format.LATEX:
            return to_latex(boards, choice, **latex)
    if form not in CARDS:
        raise BenchError(f"{form} is a format of predictions: add --predictions.")
    return CARDS[form](boards)


def _put_predictions(
    store: Store, boards: Sequence[Board], form: Format, out: Path | None, *, texts: bool
) -> None:
    notes: dict[str, None] = {}

    def noted() -> Iterator[ExportedSplit]:
        for split in exported_splits(store, boards, texts=texts):
            if split.reason:
                notes[f"without gold answers: {split.reason}"] = None
            yield split

    if form is Format.EVERY_EVAL_EVER:
        if out is None:
            raise BenchError("every-eval-ever with --predictions is two files: give --out FOLDER.")
        record = every_eval_ever_record(boards, datetime.now(UTC), __version__)
        with writing(out):
            path, count = write_every_eval_ever(out, record, noted())
        said = f"export: {path}, {count} samples next to it"
    else:
        count = _put_rows(form, noted(), out)
        said = f"export: {out}, {count} predictions"
    tell_notes(notes)
    if out is not None:
        typer.echo(visible(said))


def _put_rows(form: Format, splits: Iterable[ExportedSplit], out: Path | None) -> int:
    write = PREDICTIONS.get(form)
    if write is None:
        raise BenchError(
            f"predictions are written as {', '.join(PREDICTIONS)} or every-eval-ever, not {form}."
        )
    if out is None:
        if form is Format.PARQUET:
            raise BenchError("parquet is no text for a terminal: give --out FILE.")
        return write(sys.stdout.buffer, splits)
    with writing(out), whole_file(out) as file:
        return write(file, splits)


def _put(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    with writing(out), whole_file(out) as file:
        file.write(text.encode("utf-8"))
    typer.echo(visible(f"export: {out}"))


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
    with open_store(db) as store, counting(noun, count) as watched:
        tell_notes(store.taken.sentences(store.name))
        if noun == "runs":
            added = store.add_stored(watched(read_archive(file)))
        else:
            added = store.add_results(map(to_result, watched(read_rows(file))))
    if as_json:
        print_json({"file": str(file), noun: count, "added": added})
        return
    known = f", {count - added} were here already" if added < count else ""
    typer.echo(visible(f"{file}: {added} of {count} {noun} added{known}"))
