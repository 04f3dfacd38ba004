"""Boards and results to one HTML file."""

import base64
import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from leaderboard.board import Board
from leaderboard.report.page import build_page
from leaderboard.result import Failure, Result
from leaderboard.visible import visible

__all__ = ["render_report", "write_report"]

HERE = Path(__file__).parent


def write_report(
    path: Path, boards: Sequence[Board], details: Iterable[Result | Failure], generated: str
) -> None:
    """Write the report to `path`, whole or not at all, and make the folders above it.

    `details` are the runs that get a section of their own, one at a time, so that a caller can
    stream them; their predictions are not read. `generated` is the date and time in the header.
    """
    html = render_report(boards, details, generated)
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(
        "w", encoding="utf-8", newline="\n", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        temporary = Path(file.name)
        try:
            file.write(html)
            file.flush()
            os.fsync(file.fileno())
            # A temporary file is private to its owner; a report is made to be read.
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def render_report(
    boards: Sequence[Board], details: Iterable[Result | Failure], generated: str
) -> str:
    """The report as text."""
    style, script = _asset("style.css"), _asset("sort.js")
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            page=build_page(boards, details),
            generated=generated,
            style=Markup(style),  # noqa: S704 - our own file, checked by _asset
            script=Markup(script),  # noqa: S704 - our own file, checked by _asset
            policy=_policy(style, script),
        )
    )


def _policy(style: str, script: str) -> str:
    """Content-Security-Policy: nothing from elsewhere, no code and no style but the page's own."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; font-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    text = (HERE / name).read_text(encoding="utf-8")
    if "</" in text:
        raise ValueError(f"{name} would end its own element: it contains '</'")
    return text


@cache
def _templates() -> Environment:
    # Escaping is on for every file: the default looks at the name's ending, and ours is .j2.
    return Environment(
        loader=PackageLoader("leaderboard.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_as_text,
    )


def _as_text(value: Any) -> Any:
    """Every value that reaches a page, with unseen characters spelled out."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value, keep="\n\t")
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
