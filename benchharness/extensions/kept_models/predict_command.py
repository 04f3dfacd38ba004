"""`bench predict`: predict labels for new rows with a kept model."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchharness.cli.options import Database, with_options
from benchharness.cli.output import tell_notes, writing
from benchharness.driver.options import DATABASE, option
from benchharness.errors import BenchError
from benchharness.extensions.custom_data.parts import STDIN, read_parts
from benchharness.extensions.kept_models.model_folder import model_folder
from benchharness.leaderboard.boards.cell import note_lines
from benchharness.leaderboard.result import unread_words
from benchharness.leaderboard.text import counted, inert, visible, whole_file
from benchharness.progress import alive
from benchharness.tasks.suites import distinct_title
from benchharness.worker import importing

if TYPE_CHECKING:
    from benchharness.extensions.kept_models.predict import Part

Where = Annotated[
    str,
    typer.Argument(
        metavar="KEY|DIR",
        help="The first characters of the key of a run that kept its model (`bench run "
        "--keep-models`), or the folder of a model.",
    ),
]
File = Annotated[
    str,
    typer.Argument(
        metavar="[FILE|-]",
        help="File of rows (CSV, TSV, JSON lines or Parquet), or - to read standard input as JSON "
        "lines or one text per line.",
    ),
]
DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Options of `bench predict` for reading rows and for writing their predictions."""

    columns: str = option(
        "",
        "Columns to read, if their names do not show their roles: text=review, or "
        "text=premise,text2=claim. Other roles: words, context, question, options (one column per "
        "option: options=a+b).",
        metavar="ROLE=COLUMN,...",
    )
    encoding: str = option("", "Character encoding of the file, if not UTF-8.", metavar="NAME")
    no_header: bool = option(False, "Read line 1 of a table as a row, and number its columns.")
    sheet: str = option("", "Sheet of an Excel workbook that has the rows.", metavar="NAME")
    scores: bool = option(False, "Also write the probability of every label.")
    min_confidence: float | None = option(
        None,
        "Leave rows to a person if the model's confidence in its answer is below P, from 0 to 1: "
        'also write "confidence" and "review" for each row.',
        metavar="P",
    )
    keep_columns: bool = option(
        False,
        "Also write the columns of the file; the prediction is then in predicted_label and so on.",
    )
    task: str | None = option(
        None, "Task to use if the model was trained on several.", metavar="NAME"
    )
    out: Path | None = option(
        None,
        "File to write: CSV (.csv), TSV (.tsv), or else JSON lines. Default: stdout.",
        metavar="FILE",
    )
    trust_remote_code: bool = option(False, "Run the Python code that comes with the checkpoint.")
    db: Database = DATABASE


@with_options()
def predict(where: Where, file: File = STDIN, *, asked: Asked) -> None:
    """Predict labels for new rows with a kept model, and write one line per row.

    Labels in the rows are ignored. Each line has the id of its row, by default the row's line
    number in the file. With --min-confidence, "review" is true for the rows that are left to a
    person, and a line on stderr has their number.
    """
    if asked.out is not None and asked.out.exists():
        raise BenchError(f"{asked.out} exists already: delete it, or pass another --out.")
    if file != STDIN and not Path(file).is_file():
        raise BenchError(f"{file} is not a file: pass a file of rows, or - for standard input.")
    folder = model_folder(where, asked.db)
    with importing():  # importing torch takes seconds
        from benchharness.extensions.kept_models import load
        from benchharness.extensions.kept_models import predict as prediction

    model = load.load_trained(folder, asked.task, trust=asked.trust_remote_code)
    rows = cut = reviews = 0
    counts: tuple[int, ...] = (0, 0, 0, 0)
    with alive(lambda: f"rows predicted so far: {rows:,}"), _sink(asked.out) as write:
        tables = read_parts(file, asked.encoding, no_header=asked.no_header, sheet=asked.sheet)
        wanted = prediction.Wanted(asked.scores, asked.min_confidence, asked.keep_columns)
        parts = prediction.predict_parts(model, tables, asked.columns, wanted)
        for part in parts:
            write(part)
            tell_notes(part.notes)
            rows, cut = rows + len(part.lines), cut + part.cut
            reviews += part.reviews
            counts = tuple(map(add, counts, part.counts or (0,) * len(counts)))
        if not rows:
            raise BenchError(f"{'standard input' if file == STDIN else file} has no rows.")
    if asked.min_confidence is not None:
        below = f"have a confidence below {asked.min_confidence:g}"
        column = "predicted_review" if asked.keep_columns else "review"
        tell_notes([f'{reviews:,} of {rows:,} rows {below} ("{column}"): leave them to a person.'])
    if cut:
        most = model.limits.max_tokens
        tell_notes([f"{counted(cut, 'row')} of {rows} had to be cut to {most} tokens."])
    tell_notes(unread_words(*counts))
    tell_notes(
        note_lines([(f"the model's scores on {distinct_title(model.task.name)}", model.flags)])
    )


Write = Callable[["Part"], None]


@contextmanager
def _sink(out: Path | None) -> Iterator[Write]:
    """Context manager that yields a function to write lines to stdout immediately, or to a file.

    The file appears only when it is complete: if the block raises an error, there is no file.
    """
    if out is None:
        yield lambda part: typer.echo("\n".join(map(_json, part.lines)))
        return
    delimiter = DELIMITERS.get(out.suffix.lower())
    with writing(out), whole_file(out) as file:
        columns: list[str] = []

        def write(part: "Part") -> None:
            text = io.StringIO(newline="")
            if delimiter is None:
                text.writelines(f"{_json(line)}\n" for line in part.lines)
            else:
                cells = [dict(_cells(line)) for line in part.lines]
                if not columns:
                    columns.extend(dict.fromkeys(name for row in cells for name in row))
                    csv.writer(text, delimiter=delimiter).writerow(columns)
                if new := [name for name in part.kept if _cell(name) not in columns]:
                    raise BenchError(
                        f"only later rows have the column {new[0]!r}, but line 1 of a table names "
                        f"all columns: write JSON lines, as in --out {out.stem}.jsonl."
                    )
                table = csv.DictWriter(text, columns, delimiter=delimiter, extrasaction="ignore")
                table.writerows(cells)
            file.write(text.getvalue().encode())

        yield write


def _json(given: object) -> str:
    line = _plain(given)
    text = json.dumps(line, ensure_ascii=False, allow_nan=False)
    # Invisible characters could control a terminal, so lines that have any are escaped.
    return text if visible(text) == text else json.dumps(line, allow_nan=False)


def _plain(value: Any) -> Any:
    """Convert a value of a kept column to JSON data: NaN to None, and dates and others to texts."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return value if value is None or isinstance(value, str | int) else str(value)


def _cell(text: str) -> str:
    """Escape invisible characters, and a text that a spreadsheet would evaluate as a formula."""
    return inert(visible(text))


def _cells(line: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the cells of a line: one per probability, lists as JSON, and texts."""
    for name, value in line.items():
        if name in ("scores", "predicted_scores") and isinstance(value, dict):
            one = name.removesuffix("s")
            yield from ((visible(f"{one}_{label}"), score) for label, score in value.items())
        elif isinstance(value, list | dict):
            yield _cell(name), _json(value)
        else:
            plain = _plain(value)
            yield _cell(name), _cell(plain) if isinstance(plain, str) else plain
