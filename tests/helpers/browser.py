"""A real browser for the tests of the report: headless Chromium, driven by playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from leaderboard.boards.board import build_boards
from leaderboard.report.write import write_report
from leaderboard.result import Failure, Result
from tests.leaderboard.boards import GLUE, row_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

WHEN = "2026-08-01 12:00 UTC"

PATIENCE = 120_000
"""Milliseconds until a step counts as failed: busy machines are slow."""

Scheme = Literal["light", "dark"]


@dataclass
class Opened:
    """A page that was opened from disk, with what it asked for and complained of."""

    page: "Page"
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def run(self, script: str, argument: Any = None) -> Any:
        """What a JavaScript function answers in the page."""
        return self.page.evaluate(script, argument)

    def names(self, kind: str = "measured") -> list[str]:
        """The names of a kind's rows, as they are shown from top to bottom."""
        return self.page.locator(f"tbody.{kind} tr:visible .name").all_inner_texts()


@contextmanager
def running_browser() -> Iterator["Browser"]:
    """Chromium, or the test is skipped where it or playwright is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
        )
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: "Browser",
    path: Path,
    *,
    scheme: Scheme = "light",
    width: int = 1200,
    scripts: bool = True,
    anchor: str = "",
) -> Iterator[Opened]:
    """The file in a window of its own, when its scripts are done."""
    context = browser.new_context(
        color_scheme=scheme,
        viewport={"width": width, "height": 800},
        java_script_enabled=scripts,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE)
    found = Opened(context.new_page())

    def asked(request: "Request") -> None:
        found.requests.append(request.url)

    found.page.on("request", asked)
    found.page.on("console", lambda message: found.complaints.append(message.text))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.goto(path.as_uri() + anchor)
    if scripts:
        found.page.wait_for_function("performance.getEntriesByName('ready').length > 0")
    yield found
    context.close()


def save(
    folder: Path, runs: list[Result | Failure], details: list[Result | Failure] | None = None
) -> Path:
    """A report of these runs, with a section for each of `details` (all of them)."""
    path = folder / "report.html"
    boards = build_boards([row_of(run) for run in runs], GLUE)
    write_report(path, boards, runs if details is None else details, WHEN)
    return path
