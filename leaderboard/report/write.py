"""Boards and results to one HTML file."""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.report.page import Pages, build_page
from benchharness.leaderboard.report.plots.section import Background
from benchharness.leaderboard.report.rows import RowView
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.text import visible, whole_file
from benchharness.tasks.suites import distinct_title

_HERE = Path(__file__).parent

_STYLES = ("style.css", "plots.css")
_SCRIPTS = ("unpack.js", "table.js", "compare.js", "plots.js", "page.js")
"""What the page carries, each file in an element of its own, whose digest is in the policy."""


def write_report(  # noqa: PLR0913  (the parts of a page)
    path: Path,
    boards: Sequence[Board],
    details: Iterable[Result | Failure],
    generated: str,
    background: Background | None = None,
    *,
    notes: Sequence[str] = (),
    mark: str = "",
    predictions: Pages | None = None,
) -> None:
    """Write the report to `path`, whole or not at all, and make the folders above it.

    `details` are the runs that get a section of their own, one at a time, so that a caller can
    stream them; their predictions are not read. `generated` is the date and time in the header,
    `background` what plots know besides, `notes` what the reader must know of the whole page.
    `mark` stands in the page's head, so that one that shows the same already can be told.
    `predictions` are the addresses of the pages of every prediction.
    """
    html = render_report(
        boards, details, generated, background, notes=notes, mark=mark, predictions=predictions
    )
    with whole_file(path) as file:
        file.write(html.encode("utf-8"))


def render_report(  # noqa: PLR0913  (those of write_report)
    boards: Sequence[Board],
    details: Iterable[Result | Failure],
    generated: str,
    background: Background | None = None,
    *,
    notes: Sequence[str] = (),
    mark: str = "",
    predictions: Pages | None = None,
) -> str:
    """The report as text."""
    return render_page(
        "page.html.j2",
        _STYLES,
        _SCRIPTS,
        page=build_page(boards, details, background, predictions or {}),
        generated=generated,
        notes=notes,
        mark=mark,
    )


def render_page(
    template: str, style_names: Iterable[str], script_names: Iterable[str], **values: Any
) -> str:
    """A page of this template that carries these files, and may run and show nothing else."""
    styles, scripts = tuple(map(_asset, style_names)), tuple(map(_asset, script_names))
    # Content-Security-Policy: nothing from elsewhere, no code and no style but the page's own.
    return (
        _templates()
        .get_template(template)
        .render(
            **values,
            styles=styles,
            scripts=scripts,
            policy=f"default-src 'none'; script-src {_digests(scripts)}; "
            f"style-src {_digests(styles)}; img-src data:; font-src data:; "
            "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
            "trusted-types report",
        )
    )


def _digests(texts: Iterable[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


@cache
def _asset(name: str) -> Markup:
    text = (_HERE / name).read_text(encoding="utf-8")
    if "</" in text:
        raise ValueError(f"{name} would end its own element: it contains '</'")
    return Markup(text)  # noqa: S704 - our own file, just checked


@cache
def _templates() -> Environment:
    # Escaping is on for every file: the default looks at the name's ending, and ours is .j2.
    found = Environment(
        loader=PackageLoader("benchharness.leaderboard.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_as_text,
    )
    found.globals["packed_rows"] = partial(_packed_rows, templates=found)
    found.filters.update(packed=packed, json=json.dumps, task=distinct_title)
    return found


def template_module(name: str) -> Any:
    """The macros of a template, as functions that give HTML."""
    return _templates().get_template(name).module


def _as_text(value: Any) -> Any:
    """Every value that reaches a page, with unseen characters spelled out."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value, keep="\n\t")
    return value


# Parts of a long page that a script unpacks when they are asked for: gzipped, in base64.


def packed(text: str) -> Markup:
    """The text for a data element; the same text is always packed alike."""
    data = gzip.compress(text.encode("utf-8"), compresslevel=6, mtime=0)
    return Markup(base64.b64encode(data).decode("ascii"))  # noqa: S704 - letters and digits alone


def _packed_rows(rows: Sequence[RowView], templates: Environment) -> Markup:
    """Rows of a table: for each its id, what a filter and an order need, and its HTML."""
    board_row = templates.get_template("row.html.j2").module.board_row  # type: ignore[attr-defined]
    listed = [
        {
            "id": row.anchor,
            "words": visible(row.words),
            "orders": [visible(order) for order in row.orders],
            "html": board_row(row),
        }
        for row in rows
    ]
    return packed(json.dumps(listed, ensure_ascii=False, separators=(",", ":")))
