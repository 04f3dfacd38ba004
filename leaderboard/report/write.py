"""Rendering and writing of the HTML report."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import shown
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.job import shown_source
from benchharness.leaderboard.report import (
    EntryRuns,
    build_page,
    group_runs,
    groups_of,
)
from benchharness.leaderboard.report.plots.section import Background, Pages, Places
from benchharness.leaderboard.report.rows import RowView, digest_of, source_link, year_in
from benchharness.leaderboard.report.run import build_run
from benchharness.leaderboard.report.table import group_anchor, run_anchor
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.text import visible, whole_file
from benchharness.tasks.suites import distinct_title, split_title

_HERE = Path(__file__).parent

_STYLES = ("style.css", "plots.css")
_SCRIPTS = (
    "unpack.js",
    "tip.js",
    "table.js",
    "compare.js",
    "copy.js",
    "plots.js",
    "state.js",
    "page.js",
)
"""Scripts of the page, each in an element of its own, whose digest is in the policy."""


@dataclass(frozen=True, kw_only=True)
class About:
    """Description of a page: its title, a sentence or two below it, and the version that made it.

    `mark` is written into the page's head; it identifies the content, so that an unchanged page can
    be recognised. `paths` is true if the details contain full paths of this machine.
    """

    title: str = "Leaderboard"
    description: str = ""
    version: str = ""
    notes: Sequence[str] = ()
    mark: str = ""
    paths: bool = False


_NOTHING, _NONE = About(), Background()


def render_report(
    boards: Sequence[Board],
    details: Iterable[Result | Failure],
    generated: str,
    background: Background = _NONE,
    about: About = _NOTHING,
) -> str:
    """Return the report as HTML.

    Args:
        boards: Boards to show.
        details: Runs that get a section of their own. They are read one at a time, so that a caller
            can stream them; their predictions are not used.
        generated: Date and time for the header.
        background: Facts for plots and comparisons that no board has.
        about: Title and other descriptions of the page.
    """
    return render_page(
        "page.html.j2",
        _STYLES,
        _SCRIPTS,
        page=build_page(boards, details, background),
        generated=generated,
        about=about,
        folder=next((place.partition("/")[0] for place in background.places.values()), ""),
    )


def write_page(path: Path, html: str) -> None:
    """Write a page to `path` atomically, and create the folders above it."""
    with whole_file(path) as file:
        file.write(html.encode("utf-8"))


def render_page(
    template: str, style_names: Iterable[str], script_names: Iterable[str], **values: Any
) -> str:
    """Return a page with its styles and scripts and with a policy that allows nothing else.

    The Content-Security-Policy forbids external resources, and any script or style but the page's
    own.
    """
    styles, scripts = tuple(map(_asset, style_names)), tuple(map(_asset, script_names))
    allowed = _digests(scripts) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; "
        f"style-src {_digests(styles)}; img-src data:; font-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
        "trusted-types report"
    )
    return (
        _templates()
        .get_template(template)
        .render(styles=styles, scripts=scripts, policy=policy, **values)
    )


# Details of runs in files of their own next to the page, one per entry.

_KIND = "bench-runs"  # name of the meta element that identifies a file of runs


@dataclass(frozen=True, kw_only=True)
class _Runs:
    """File of an entry's runs on a board; `mark` is a digest of everything that the file shows."""

    name: str
    mark: str
    board: Board
    entry: Entry
    ids: tuple[str, ...]


def write_runs(
    page: Path,
    boards: Sequence[Board],
    read: Callable[[Iterable[str]], Iterator[Result | Failure]],
    about: About,
    predictions: Pages = MappingProxyType({}),
) -> Places:
    """Write the details of all runs next to the page; return the file of each section id.

    A file that already shows the same is left unchanged, and its runs are not read. The file of an
    entry that no longer exists is deleted.

    Args:
        page: Path of the page.
        boards: Boards whose runs are written.
        read: Function that yields the runs with these keys.
        about: Description of the page.
        predictions: Addresses of the predictions pages.
    """
    pages = {cell: f"../{address}" for cell, address in predictions.items()}
    folder = page.with_suffix(".runs")
    folder.mkdir(parents=True, exist_ok=True)
    said = (about.version, _code(), about.title, page.name, str(about.paths))
    files = list(_files(boards, pages, said))
    stale = [file for file in files if not _shows(folder / file.name, file.mark)]
    # All stale files are read in one pass: runs come in the order of the keys, and each file takes
    # as many as it has.
    runs = read(run.key for file in stale for run in file.entry.runs)
    for file in stale:
        sections = {run.key: build_run(next(runs)) for run in file.entry.runs}
        groups = groups_of(file.board, file.entry, sections, pages)
        html = render_page(
            "runs.html.j2",
            _STYLES,
            (),
            entry=EntryRuns(entry=file.entry, groups=tuple(groups)),
            board=file.board,
            page=page.name,
            about=about,
            kind=_KIND,
            mark=file.mark,
        )
        write_page(folder / file.name, html)
    names = {file.name for file in files}
    # Users may keep their own files there, which do not have the mark.
    for old in folder.glob("*-*.html"):
        if old.name not in names and _shows(old, ""):
            old.unlink()
    return {id_: f"{folder.name}/{file.name}" for file in files for id_ in file.ids}


def _files(boards: Iterable[Board], pages: Pages, said: Sequence[str]) -> Iterator[_Runs]:
    """Yield a file for each entry, unless an earlier board has shown all of its runs."""
    known = set[str]()
    for board in boards:
        for entry in board.entries:
            groups = [group_anchor(entry, task) for task in group_runs(board, entry)]
            if known.issuperset(groups):
                continue
            known.update(groups)
            contents = [
                (board.title, board.data_label, entry.name, entry.beside_name),
                # A run is identified by its key and its date: `--force` repeats it under the same
                # key.
                *((run.key, run.finished, run.status) for run in entry.runs),
                # The other points of a sweep are in no run of the entry, but change the gain.
                *((task, cell.gain) for task, cell in entry.cells.items()),
                *(pages.get((group, task)) for group in groups for task in entry.cells),
            ]
            slug = re.sub(r"[^A-Za-z0-9.]+", "-", entry.model).strip("-.")[:60] or "model"
            yield _Runs(
                name=f"{slug}-{digest_of(groups[0])}.html",
                mark=digest_of(*said, *map(str, contents)),
                board=board,
                entry=entry,
                ids=(*groups, *(run_anchor(run.key) for run in entry.runs)),
            )


@cache
def _code() -> str:
    """Return a digest of the files that render the pages, so that a change updates all of them."""
    files = sorted(path for path in _HERE.rglob("*") if path.suffix in (".py", ".j2", ".css"))
    return digest_of(*(path.read_text(encoding="utf-8") for path in files))


def _shows(path: Path, mark: str) -> bool:
    """Return whether a file has this mark; with an empty mark, whether it is any file of runs."""
    try:
        with path.open("rb") as file:
            # The element is near the beginning of the file; an empty mark matches any mark.
            return f'name="{_KIND}" content="{mark}'.encode() in file.read(_HEAD_BYTES)
    except OSError:
        return False


_HEAD_BYTES = 4096


def _digests(texts: Iterable[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


@cache
def _asset(name: str) -> Markup:
    """Return a file of this package without its comments and indentation."""
    lines = map(str.strip, (_HERE / name).read_text(encoding="utf-8").splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("//"))
    if "</" in text:
        raise ValueError(f"{name} would end its own element: it contains '</'")
    return Markup(text)  # noqa: S704 - our own file, just checked


@cache
def _templates() -> Environment:
    # Escape in every file: by default, escaping depends on the suffix, and these templates end in
    # .j2.
    found = Environment(
        loader=PackageLoader("benchharness.leaderboard.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Invisible characters of every text are escaped; markup comes only from this package.
        finalize=lambda value: (
            visible(value, keep="\n\t")
            if isinstance(value, str) and not isinstance(value, Markup)
            else value
        ),
    )
    found.globals["packed_rows"] = partial(_packed_rows, templates=found)
    found.filters.update(
        packed=packed,
        json=json.dumps,
        task=distinct_title,
        split=lambda e: split_title(e.task, e.split),
        shown=shown,
        year=year_in,
        source=partial(source_link, is_ours=True),
        origin=shown_source,
    )
    return found


def template_module(name: str) -> Any:
    """Return the macros of a template as functions that return HTML."""
    return _templates().get_template(name).module


# Parts of a long page that a script unpacks when they are needed: gzip in base64.


def packed(text: str) -> Markup:
    """Return the text packed for a data element; the result is reproducible."""
    data = gzip.compress(text.encode("utf-8"), compresslevel=6, mtime=0)
    return Markup(base64.b64encode(data).decode("ascii"))  # noqa: S704 - letters and digits alone


def _packed_rows(rows: Sequence[RowView], templates: Environment) -> Markup:
    """Return the packed rows of a table: id, values for filters and sorting, and HTML."""
    board_row = templates.get_template("row.html.j2").module.board_row  # type: ignore[attr-defined]
    listed = [
        {
            "id": row.anchor,
            "words": visible(row.words),
            "orders": [visible(order) for order in row.orders],
            "facets": [visible(row.family), visible(row.year), row.size],
            "html": board_row(row),
        }
        for row in rows
    ]
    return packed(json.dumps(listed, ensure_ascii=False, separators=(",", ":")))
