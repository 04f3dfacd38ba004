"""Accessibility tests of the report: axe-core, dark colours, print and screen readers."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.helpers.boards import make_runs
from tests.helpers.browser import Opened, choose, faults, opened, runs_of_every_kind, save

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report of every kind of row, on few tasks and with the sections of few runs."""
    tasks = ("glue/mrpc", "glue/rte")
    runs = [run for run in runs_of_every_kind() if run.job.task in tasks]
    few = [run for run in runs if run.job.model in ("minilm", "tiny") and run.job.seed < 2]
    failed = [run for run in runs if run.job.model == "distilbert-base"]
    return save(tmp_path_factory.mktemp("report"), runs, [*few[:4], *failed])


def open_everything(report: Opened) -> None:
    """Open every fold, and a comparison of few rows, as axe is slow."""
    report.page.get_by_role("button", name="Published, dev").click()
    choose(report, "minilm", "bert-base", "ALBERT (1.5M)")
    report.page.get_by_role("searchbox").fill("bert-base")
    report.page.locator(".copy > summary").click()
    report.page.get_by_role("button", name="CSV").click()
    report.run("() => document.querySelectorAll('details').forEach((d) => { d.open = true; })")


LOOKS: list[tuple[int, Literal["light", "dark"]]] = [(1440, "light"), (390, "dark")]


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(LOOKS, id="two of six"),
        pytest.param(
            [(w, c) for w in (1440, 1024, 390) for c in ("light", "dark")],
            id="six",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_axe_finds_no_accessibility_violation_in_the_report(
    browser: "Browser", path: Path, looks: list[tuple[int, Literal["light", "dark"]]]
) -> None:
    with opened(browser, path) as report:
        open_everything(report)
        report.page.locator("tbody.measured td.number a").first.hover()
        found = {}
        for width, scheme in looks:
            report.page.set_viewport_size({"width": width, "height": 800})
            report.page.emulate_media(color_scheme=scheme)
            found[width, scheme] = faults(report)
        assert found == {key: [] for key in found}


def test_report_tables_are_accessible_by_screen_reader_and_keyboard(
    browser: "Browser", path: Path
) -> None:
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


def test_shadow_shows_that_a_table_continues_to_the_right(
    browser: "Browser", tmp_path: Path
) -> None:
    runs = list(make_runs())
    shadow = "(table) => Number(getComputedStyle(table, '::after').opacity)"
    with opened(browser, save(tmp_path, runs, runs[:1]), width=800) as report:
        table = report.page.locator(".board .scroll").first
        assert table.evaluate("(table) => table.scrollWidth > table.clientWidth")
        assert table.evaluate(shadow) == 1
        table.focus()
        while table.evaluate(shadow) > 0:  # the arrow keys scroll to the last column
            report.page.keyboard.press("ArrowRight")
        assert table.evaluate("(table) => table.scrollLeft") > 0
        report.page.set_viewport_size({"width": 1600, "height": 800})
        assert table.evaluate("(table) => table.scrollWidth <= table.clientWidth")
        assert table.evaluate(shadow) == 0
        assert (
            report.page.locator("th a, td a").first.evaluate(
                "(link) => getComputedStyle(link.closest('.scroll'), '::after').pointerEvents"
            )
            == "none"
        )


def test_printed_report_has_no_controls(browser: "Browser", path: Path) -> None:
    with opened(browser, path) as report:
        choose(report, "minilm")
        report.page.emulate_media(media="print")
        pressed = ".tools, .tray, .theme, .choose input, .remove, nav, .skip"
        assert report.page.locator(pressed).locator("visible=true").count() == 0
        assert report.page.locator(".compare").first.is_visible()
        scroll = "(frame) => frame.scrollHeight <= frame.clientHeight"
        assert report.page.locator(".board .scroll").first.evaluate(scroll)
