"""Large reports: compressed rows and runs, and the loading time."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchharness.leaderboard import report as page
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.report import rows
from benchharness.leaderboard.report.addition import Background
from benchharness.leaderboard.report.write import render_report, write_page
from benchharness.leaderboard.result import Failure, Result
from tests.helpers.boards import GLUE, make_job, make_rows
from tests.helpers.browser import Opened, opened, save
from tests.helpers.report_page import WHEN
from tests.helpers.results import make_result

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

READY = "() => performance.getEntriesByName('ready')[0].startTime"


def models(number: int) -> list[Result | Failure]:
    return [
        make_result(make_job(model=f"model-{place}", task=task))
        for place in range(number)
        for task in ("glue/rte", "glue/sst2")
    ]


@pytest.mark.soak
def test_compressed_report_rows_equal_inline_rows(
    browser: "Browser", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = models(7)
    seen = []
    for inline in (7, 3):
        monkeypatch.setattr(rows, "INLINE_ROWS", inline)
        with opened(browser, save(tmp_path, runs)) as found:
            assert found.page.locator(".packed-rows").count() == 0
            found.page.get_by_role("button", name="RTE", exact=True).click()
            seen.append(
                found.page.locator("tbody.measured tr[id]").evaluate_all(
                    "(rows) => rows.map((row) => row.outerHTML.replace(/\\s+/g, ' '))"
                )
            )
    assert seen[0] == seen[1]
    assert len(seen[0]) == 7


def test_links_open_the_sections_of_compressed_runs(
    browser: "Browser", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "INLINE_RUNS", 4)
    with opened(browser, save(tmp_path, models(5))) as found:
        assert found.page.locator("details.run").count() == 4
        found.page.locator("tbody.measured td a").last.click()
        found.page.locator("section.group:target").wait_for()
        assert "model-" in (found.page.locator("section.group:target h4").text_content() or "")
        assert found.page.locator("section.group:target").is_visible()
        found.page.locator("details.entry").nth(3).locator("summary").first.click()
        found.page.locator("details.entry").nth(3).locator(".overview").wait_for()
        assert found.page.locator("details.run").count() == 8
        assert found.complaints == []


def work(found: Opened) -> None:
    """Filter, sort and extend a long table, as its reader does."""
    found.page.get_by_role("searchbox").fill("model-9998")
    assert found.names() == ["model-9998"]
    found.page.get_by_role("searchbox").fill("")
    found.page.get_by_role("button", name="RTE", exact=True).click()
    assert len(found.names()) == rows.INLINE_ROWS
    found.page.get_by_role("button", name="more of").click()
    assert len(found.names()) == 2 * rows.INLINE_ROWS


@pytest.mark.soak
def test_report_of_ten_thousand_rows_is_ready_within_two_seconds(
    browser: "Browser", tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Load all tasks of ten thousand models; the details of their runs are in separate files."""
    scores = [(f"model-{place}", place / 20_000) for place in range(10_000)]
    runs = [run for model, score in scores for run in make_rows(model, [score])]
    path = tmp_path / "report.html"
    places = {f"runs-{run.key[:16]}": "report.runs/model.html" for run in runs}
    background = Background(places=places)
    write_page(path, render_report(build_boards(runs, GLUE), models(100), WHEN, background))
    times = []
    for _ in range(3):
        with opened(browser, path) as found:
            times.append(found.run(READY))
            work(found)
    record_property("ready_ms", sorted(times))
    record_property("mebibytes", path.stat().st_size / 2**20)
    assert min(times) < 2000
