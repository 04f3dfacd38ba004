"""A report as text and elements, as a browser sees it."""

import base64
import gzip
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser

from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.report import write
from benchharness.leaderboard.result import Failure, Result
from tests.helpers.boards import GLUE, row_of

WHEN = "2026-08-01 12:00 UTC"

PACKED = r'<script type="application/octet-stream"[^>]*>([A-Za-z0-9+/=]+)</script>'


def unpacked(text: str) -> str:
    return gzip.decompress(base64.b64decode(text)).decode()


def report(runs: Iterable[Result | Failure]) -> str:
    listed = list(runs)
    boards = build_boards([row_of(run) for run in listed], GLUE)
    return write.render_report(boards, listed, WHEN)


class Page(HTMLParser):
    """Elements of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, attribute: str) -> list[str]:
        return [a[attribute] or "" for _, a in self.elements if attribute in a]


def count(page: Page, tags: set[str]) -> Counter[str]:
    return Counter(tag for tag, _ in page.elements if tag in tags)
