"""The command `bench export`: write scores, predictions or the whole database to a file."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

import typer

from benchharness.cli.chosen import Chosen
from benchharness.cli.options import NoTexts, ShowPaths, with_options
from benchharness.cli.output import tell_notes, writing
from benchharness.driver.options import OUTPUT, WHAT, option
from benchharness.errors import BenchError
from benchharness.extensions.exports.cards import (
    check_learned,
    send,
    to_eval_results,
    to_model_index,
)
from benchharness.extensions.exports.chosen import (
    exported_boards,
    exported_splits,
    has_boards,
    with_parity,
)
from benchharness.extensions.exports.latex import to_latex
from benchharness.extensions.exports.lines import score_lines, to_csv, to_json
from benchharness.extensions.exports.predictions import (
    ExportedSplit,
    write_csv,
    write_jsonl,
    write_parquet,
)
from benchharness.extensions.exports.table import Choice, to_markdown
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.store.archive import (
    write_archive,
)
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import counted, visible, whole_file
from benchharness.stored.predictions import ties_of


class Format(StrEnum):
    """File format that `bench export` can write."""

    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"
    MARKDOWN = "markdown"
    LATEX = "latex"
    MODEL_INDEX = "model-index"
    EVAL_RESULTS = "eval-results"


TABLES = (Format.MARKDOWN, Format.LATEX)
"""Formats that show each leaderboard as a table."""

WITH_COLUMNS = (Format.CSV, Format.JSON, *TABLES)
"""Formats whose columns can be selected with --columns."""

CARDS: dict[Format, Callable[[Sequence[Board]], str]] = {
    Format.MODEL_INDEX: to_model_index,
    Format.EVAL_RESULTS: to_eval_results,
}

PUSHED = (Format.MODEL_INDEX, Format.EVAL_RESULTS)
"""Formats whose scores can be sent to a model repository on the hub."""

PREDICTIONS: dict[Format, Callable[[IO[bytes], Iterable[ExportedSplit]], int]] = {
    Format.CSV: write_csv,
    Format.JSONL: write_jsonl,
    Format.PARQUET: write_parquet,
}


_TABLE = "Table layout"


@dataclass(frozen=True, kw_only=True)
class Written:
    """Options of `bench export` for the content, the format and the destination of the export."""

    form: Format = option(
        Format.CSV, "Format of the file.", flag="--format", metavar="|".join(Format), head=OUTPUT
    )
    out: Path | None = option(None, "File to write. Default: stdout.", metavar="FILE", head=OUTPUT)
    predictions: bool = option(
        False, "Export every prediction instead of scores, as csv, jsonl or parquet.", head=OUTPUT
    )
    push: str | None = option(
        None,
        "Commit a model's scores to its repository on the hub; needs --format model-index or "
        "eval-results.",
        metavar="ORG/NAME",
        head=OUTPUT,
    )
    collapsed_too: bool = option(
        False,
        "Put scores on a model card even if the runs learned nothing; the card marks these scores.",
        head=OUTPUT,
    )
    no_texts: NoTexts = False
    show_paths: ShowPaths = False
    everything: Path | None = option(
        None,
        "Export the whole database to an archive (.jsonl.gz) for `bench db import`.",
        flag="--all",
        metavar="FILE",
        head=OUTPUT,
    )


@dataclass(frozen=True, kw_only=True)
class Style:
    """Options of `bench export` that set the layout of a table."""

    columns: str | None = option(
        None,
        "Export only these columns, in this order. Tables in markdown and latex have rank, recipe, "
        "precision and seeds (always first), score, and names of tasks such as rte. For csv and "
        "json, use the column names of an export without this option.",
        metavar="NAME,NAME",
        head=_TABLE,
    )
    published: tuple[str, ...] = option(
        (),
        "Add published results to a table: 'models' for all models in the table, or the name of "
        "a published system (repeatable).",
        metavar="models|SYSTEM",
        head=_TABLE,
    )
    no_spread: bool = option(False, "Omit the spread over seeds from a table.", head=_TABLE)
    caption: str | None = option(
        None, "Caption of a LaTeX table, in LaTeX.", metavar="TEXT", head=_TABLE
    )
    label: str | None = option(
        None, "Label of a LaTeX table. Default: tab:SUITE.", metavar="NAME", head=_TABLE
    )
    ties: bool = option(
        False,
        "In a table, also print scores in bold that do not differ significantly from the best, by "
        "the test of `bench compare`. This reads the examples.",
        head=_TABLE,
    )


@with_options(but=["as_json"])
def export(
    *,
    chosen: Chosen,
    model: list[str] | None = option(
        None,
        "Export only this model; MODEL:RECIPE selects one of its leaderboard entries (repeatable).",
        flag="--model --models",
        metavar="NAME[,NAME]",
        proposes="stored_models",
        head=WHAT,
    ),
    style: Style,
    written: Written,
) -> None:
    """Export scores (as tables, data or model cards), predictions, or the whole database."""
    form, out, everything = written.form, written.out, written.everything
    columns = tuple(word for word in (style.columns or "").split(",") if word)
    if written.no_texts and not (written.predictions and everything is None):
        raise BenchError(
            "--no-texts applies only to predictions. Add --predictions, and do not use --all."
        )
    _check_format(form, style, columns)
    if written.push and (form not in PUSHED or out or everything):
        raise BenchError(
            "--push needs --format model-index or eval-results, and excludes --out and --all."
        )
    if everything is None:
        with chosen.open() as store:
            found = _boards(store, chosen, model or (), written)
            # If a leaderboard certainly exists, no error can occur after the header of the file is
            # written. Leaderboards are then read one by one while they are written.
            boards = found if not model and has_boards(store, chosen.within) else list(found)
            if form is Format.CSV and not written.predictions:
                _put(to_csv(score_lines(boards), columns), out)
                return
            boards = list(boards)
            if written.predictions:
                _put_predictions(store, boards, form, out, texts=not written.no_texts)
                return
            if written.push:
                url = send(boards, written.push, as_results=form is Format.EVAL_RESULTS)
                typer.echo(visible(f"sent: {url}"))
                return
            tied, notes = ties_of(store, boards) if style.ties else ({}, ())
            tell_notes(notes)
            choice = Choice(
                columns=columns, published=style.published, spread=not style.no_spread, ties=tied
            )
        _put([_text(form, boards, choice, style)], out)
        return
    narrowed = chosen.suite or model or chosen.task or chosen.data
    if narrowed or out or style.columns or written.predictions:
        raise BenchError(
            "--all writes the whole database to its own FILE, so it excludes --suite, --model, "
            "--task, --data, --columns, --predictions and --out."
        )
    _archive(chosen, everything, paths=written.show_paths)


def _boards(
    store: Store, chosen: Chosen, models: Sequence[str], written: Written
) -> Iterator[Board]:
    """Yield the leaderboards to export.

    Raises:
        BenchError: A model card would show the score of a model that has learned nothing, and the
            option `collapsed_too` is not set.
    """
    without_parity = (*TABLES, *(PREDICTIONS if written.predictions else ()))
    found = exported_boards(store, chosen.within, models, paths=written.show_paths)
    if written.form in PUSHED and not written.collapsed_too:
        found = list(found)
        check_learned(found)
    for board in found:
        yield board if written.form in without_parity else with_parity(store, board)


def _archive(chosen: Chosen, everything: Path, *, paths: bool) -> None:
    """Write all stored runs to an archive file."""
    if everything.suffix != ".gz":
        raise BenchError(
            f"the name of an archive must end in .jsonl.gz, but got {everything.name!r}."
        )
    store = chosen.open()
    with store, writing(everything), whole_file(everything) as file:
        count = write_archive(file, store.stored_runs(), paths=paths)
    typer.echo(visible(f"archive: {everything}, {counted(count, 'run')}"))


def _check_format(form: Format, style: Style, columns: Sequence[str]) -> None:
    """Raise BenchError if an option does not apply to the format."""
    asked: dict[str, tuple[object, Sequence[Format]]] = {
        "columns": (columns, WITH_COLUMNS),
        **{name: (getattr(style, name), [Format.LATEX]) for name in ("caption", "label")},
        **{name: (getattr(style, name), TABLES) for name in ("published", "ties")},
    }
    for name, (value, formats) in asked.items():
        if value and form not in formats:
            raise BenchError(f"--{name} needs --format {' or '.join(formats)}, but got {form}.")


def _text(form: Format, boards: Sequence[Board], choice: Choice, style: Style) -> str:
    match form:
        case Format.JSON:
            return to_json(score_lines(boards), choice.columns)
        case Format.MARKDOWN:
            return to_markdown(boards, choice)
        case Format.LATEX:
            texts = {"caption": style.caption or "", "label": style.label or ""}
            return to_latex(boards, choice, **texts)
    if form not in CARDS:
        raise BenchError(f"--format {form} is only for predictions. Add --predictions.")
    return CARDS[form](boards)


def _put_predictions(
    store: Store, boards: Sequence[Board], form: Format, out: Path | None, *, texts: bool
) -> None:
    notes: dict[str, None] = {}

    def noted() -> Iterator[ExportedSplit]:
        for split in exported_splits(store, boards, texts=texts):
            if split.reason:
                notes[f"gold answers are missing, because {split.reason}"] = None
            yield split

    count = _put_rows(form, noted(), out)
    tell_notes(notes)
    if out is not None:
        typer.echo(visible(f"export: {out}, {count} predictions"))


def _put_rows(form: Format, splits: Iterable[ExportedSplit], out: Path | None) -> int:
    write = PREDICTIONS.get(form)
    if write is None:
        raise BenchError(
            f"predictions can be written as {', '.join(PREDICTIONS)}, but not as {form}."
        )
    if out is None:
        if form is Format.PARQUET:
            raise BenchError("parquet is a binary format and cannot be printed. Use --out FILE.")
        return write(sys.stdout.buffer, splits)
    with writing(out), whole_file(out) as file:
        return write(file, splits)


def _put(texts: Iterable[str], out: Path | None) -> None:
    if out is None:
        for text in texts:
            typer.echo(text, nl=False)
        return
    with writing(out), whole_file(out) as file:
        file.writelines(text.encode("utf-8") for text in texts)
    typer.echo(visible(f"export: {out}"))
