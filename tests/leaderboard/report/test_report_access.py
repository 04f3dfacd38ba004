"""The report for those who see it in dark, print it, or do not see it: axe-core's findings."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.browser import Opened, Scheme, choose, opened, save_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_report(tmp_path_factory.mktemp("report"))


def open_everything(report: Opened) -> None:
    """Every fold, and a comparison of measured and published rows."""
    report.page.get_by_role("button", name="Published, dev").click()
    choose(report, "minilm", "bert-base", "ALBERT (1.5M)")
    report.run("() => document.querySelectorAll('details').forEach((d) => { d.open = true; })")


def faults(report: Opened) -> list[tuple[str, str, list[str]]]:
    """What axe-core finds, of any level, each with the first elements that it names."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found: dict[str, Any] = axe.Axe().run(report.page).response
    return [
        (fault["id"], fault["impact"], [node["html"][:200] for node in fault["nodes"][:3]])
        for fault in found["violations"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1360])
def test_axe_finds_no_serious_fault(
    browser: "Browser", path: Path, scheme: Scheme, width: int
) -> None:
    with opened(browser, path, scheme=scheme, width=width) as report:
        open_everything(report)
        assert faults(report) == []


def test_tables_are_told_to_those_who_hear_them(browser: "Browser", path: Path) -> None:
    with opened(browser, path) as report:
        table = report.page.locator("table.rows").first
        assert "scores of each model" in table.locator("caption").inner_text()
        scopes = "(cells) => [...new Set(cells.map((cell) => cell.scope))].sort()"
        assert table.locator("th").evaluate_all(scopes) == ["col", "row", "rowgroup"]
        assert report.page.locator(".board .scroll").first.get_attribute("tabindex") == "0"
        report.page.keyboard.press("Tab")
        assert report.run("() => document.activeElement.textContent") == "Skip to the tables"
        focused = "() => getComputedStyle(document.activeElement).outlineStyle"
        report.page.get_by_role("button", name="RTE", exact=True).focus()
        report.page.keyboard.press("Shift+Tab")
        assert report.run(focused) == "solid"


def test_on_paper_there_is_nothing_to_press(browser: "Browser", path: Path) -> None:
    with opened(browser, path) as report:
        choose(report, "minilm")
        report.page.emulate_media(media="print")
        pressed = ".tools, .tray, .theme, .choose input, .remove, nav, .skip"
        assert report.page.locator(pressed).locator("visible=true").count() == 0
        assert report.page.locator(".compare").first.is_visible()
        scroll = "(frame) => frame.scrollHeight <= frame.clientHeight"
        assert report.page.locator(".board .scroll").first.evaluate(scroll)
