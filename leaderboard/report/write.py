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

from jinja2 import Environment, FileSystemLoader, StrictUndefined
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
from benchharness.leaderboard.report.addition import Background, Pages, Places, added_styles
from benchharness.leaderboard.report.rows import RowView, digest_of, source_link, year_in
from benchharness.leaderboard.report.run import build_run
from benchharness.leaderboard.report.table import group_anchor, run_anchor
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.text import visible, whole_file
from benchharness.tasks.suites import distinct_title, split_title

_HERE = Path(__file__).parent

_STYLE = "style.css"
_SCRIPTS = ("unpack.js", "tip.js", "table.js", "compare.js", "copy.js")
_LAST_SCRIPTS = ("state.js", "page.js")
"""Scripts of the report. Those of extensions come between the two groups, because the last two
read all controls of the page. Each script is a separate element, whose digest is in the page's
Content-Security-Policy.
"""


@dataclass(frozen=True, kw_only=True)
class About:
    """Title and further texts of a page, and whether it contains full paths.

    Attributes:
        title: Title of the page.
        description: One or two sentences below the title.
        version: Version of benchharness that wrote the page.
        notes: Sentences below the description.
        mark: Text in the HTML head that identifies the content of the page. It shows later whether
            the page is up to date.
        store: Text in the HTML head that identifies the database of the page, so that the report of
            another database does not overwrite it.
        paths: True if the page contains full paths of this machine.
    """

    title: str = "Leaderboard"
    description: str = ""
    version: str = ""
    notes: Sequence[str] = ()
    mark: str = ""
    store: str = ""
    paths: bool = False


_NOTHING = About()


def render_report(
    boards: Sequence[Board],
    details: Iterable[Result | Failure],
    generated: str,
    background: Background | None = None,
    about: About = _NOTHING,
) -> str:
    """Render the report as HTML.

    Args:
        boards: Leaderboards to show.
        details: Runs that get a section with all details. They are read one at a time, so `details`
            may be a generator. Their predictions are not used.
        generated: Date and time, as text for the header of the page.
        background: Data and content that the boards do not contain.
        about: Title and description of the page.
    """
    background = Background() if background is None else background
    styles = (path for addition in background.additions for path in addition.styles)
    scripts = (path for addition in background.additions for path in addition.scripts)
    return render_page(
        "page.html.j2",
        (_STYLE, *styles),
        (*_SCRIPTS, *scripts, *_LAST_SCRIPTS),
        page=build_page(boards, details, background),
        generated=generated,
        about=about,
        folder=next((place.partition("/")[0] for place in background.places.values()), ""),
    )


def write_page(path: Path, html: str) -> None:
    """Write a page to `path` atomically; create missing parent folders."""
    with whole_file(path) as file:
        file.write(html.encode("utf-8"))


def render_page(
    template: str,
    style_names: Iterable[str | Path],
    script_names: Iterable[str | Path],
    assets: Path = _HERE,
    **values: Any,
) -> str:
    """Render a page from a template, with its styles and scripts.

    The page has a Content-Security-Policy, which forbids external resources, and forbids all
    scripts and styles except those of the page.

    Args:
        template: File name of the template.
        style_names: File names or paths of the styles.
        script_names: File names or paths of the scripts.
        assets: Folder with the styles, the scripts and a folder `templates`. A file that it does
            not contain is taken from the folder of the report.
        values: Variables for the template.
    """
    styles, scripts = (
        tuple(_asset(assets, name) for name in names) for names in (style_names, script_names)
    )
    allowed = _digests(scripts) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; "
        f"style-src {_digests(styles)}; img-src data:; font-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
        "trusted-types report"
    )
    return (
        _templates(assets)
        .get_template(template)
        .render(styles=styles, scripts=scripts, policy=policy, **values)
    )


# Details of runs in separate files next to the page, one file per entry.

_KIND = "bench-runs"  # name of the meta element that identifies a file of runs


@dataclass(frozen=True, kw_only=True)
class _Runs:
    """File with the details of an entry's runs.

    `name` is the file name. `mark` is a digest of the content, which shows whether the file is up
    to date. `ids` are the ids of the sections in the file.
    """

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
    """Write the details of all runs to files in a folder next to the page, one file per entry.

    Files whose content would not change are not written again, and their runs are not read. Files
    for entries that no longer exist are deleted.

    Args:
        page: Path of the page.
        boards: Leaderboards whose runs are written.
        read: Function that gets job keys and yields the results or failures of these jobs, in the
            order of the keys.
        about: Title and description of the page.
        predictions: Addresses of pages that show predictions, relative to the page.

    Returns:
        Address of the file that contains each section, keyed by the section's id.
    """
    pages = {cell: f"../{address}" for cell, address in predictions.items()}
    folder = page.with_suffix(".runs")
    folder.mkdir(parents=True, exist_ok=True)
    styles = added_styles()
    code = _code(_HERE, *dict.fromkeys(path.parent for path in styles))
    said = (about.version, code, about.title, page.name, str(about.paths))
    files = list(_files(boards, pages, said))
    stale = [file for file in files if not _shows(folder / file.name, file.mark)]
    # The runs for all outdated files are read in one pass, in the order of the keys. So the next
    # runs are always those of the next file.
    runs = read(run.key for file in stale for run in file.entry.runs)
    for file in stale:
        sections = {run.key: build_run(next(runs)) for run in file.entry.runs}
        groups = groups_of(file.board, file.entry, sections, pages)
        html = render_page(
            "runs.html.j2",
            (_STYLE, *styles),
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
    # Delete only files with the meta element _KIND. Other files in this folder are the user's own.
    for old in folder.glob("*-*.html"):
        if old.name not in names and _shows(old, ""):
            old.unlink()
    return {id_: f"{folder.name}/{file.name}" for file in files for id_ in file.ids}


def _files(boards: Iterable[Board], pages: Pages, said: Sequence[str]) -> Iterator[_Runs]:
    """Yield a file for each entry, except entries whose runs are all in files of earlier boards."""
    known = set[str]()
    for board in boards:
        for entry in board.entries:
            groups = [group_anchor(entry, task) for task in group_runs(board, entry)]
            if known.issuperset(groups):
                continue
            known.update(groups)
            contents = [
                (board.title, board.data_label, entry.name, entry.beside_name),
                # The date is included, because a run that was repeated with `--force` has the same
                # key.
                *((run.key, run.finished, run.status) for run in entry.runs),
                # The gain is included, because it also depends on runs that are not in the entry:
                # those with the sweep's other settings.
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
def _code(*folders: Path) -> str:
    """Return a digest of the code in these folders, on which the content of pages depends."""
    every = (path for folder in folders for path in folder.rglob("*"))
    files = sorted(path for path in every if path.suffix in (".py", ".j2", ".css"))
    return digest_of(*(path.read_text(encoding="utf-8") for path in files))


def _shows(path: Path, mark: str) -> bool:
    """Return whether the file at `path` is a file of runs with this mark ("" for any mark)."""
    try:
        with path.open("rb") as file:
            # The meta element is near the beginning of the file.
            return f'name="{_KIND}" content="{mark}'.encode() in file.read(_HEAD_BYTES)
    except OSError:
        return False


_HEAD_BYTES = 4096


def _digests(texts: Iterable[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


@cache
def _asset(home: Path, name: str | Path) -> Markup:
    """Return the text of a style or script, without comments and indentation."""
    file = home / name if (home / name).is_file() else _HERE / name
    lines = map(str.strip, file.read_text(encoding="utf-8").splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("//"))
    if "</" in text:
        raise ValueError(f"{name} must not contain '</', which would end its HTML element")
    return Markup(text)  # noqa: S704 - our own file, just checked


@cache
def _templates(home: Path = _HERE) -> Environment:
    # Autoescaping is on for all templates. By default it depends on the suffix, which is .j2 here.
    found = Environment(
        loader=FileSystemLoader([home / "templates", _HERE / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Escape invisible characters in all texts except markup, which comes from this package.
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


def template_module(name: str, home: Path = _HERE) -> Any:
    """Return an object whose methods are the macros of a template; the methods return HTML.

    Args:
        name: File name of the template.
        home: Folder that contains the folder `templates`. A template that it does not contain is
            taken from the report.
    """
    return _templates(home).get_template(name).module


# Compressed parts of a long page (gzip in base64), which a script unpacks when they are needed.


def packed(text: str) -> Markup:
    """Compress a text with gzip and encode it with base64, so that HTML can contain it.

    Equal texts give equal results.
    """
    data = gzip.compress(text.encode("utf-8"), compresslevel=6, mtime=0)
    return Markup(base64.b64encode(data).decode("ascii"))  # noqa: S704 - letters and digits alone


def _packed_rows(rows: Sequence[RowView], templates: Environment) -> Markup:
    """Compress rows of a table as JSON: ids, values for filtering and sorting, and HTML."""
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
