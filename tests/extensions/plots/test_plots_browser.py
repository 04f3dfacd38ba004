"""Tests of the plots in a browser: each shows, and their script works under the page's policy."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchharness.extensions.plots.section import FEW_ENTRIES
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.report.addition import Background
from benchharness.leaderboard.report.write import render_report, write_page
from benchharness.leaderboard.result import Result
from tests.helpers.boards import GLUE, plotted, row_of, suite_of
from tests.helpers.browser import Opened, Scheme, opened, save
from tests.helpers.report_page import WHEN

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


ONE_OF_EACH = (
    ".pickers",
    ".choice:not([hidden])",
    ".spreads figure:first-child",
    ".categories",
)


def with_ax(run: Result) -> Result:
    """Return a run of MNLI with scores of the diagnostic set."""
    if run.job.task != "glue/mnli":
        return run
    scores = {"mcc": 0.3, "mcc_logic": 0.2, "mcc_knowledge": -0.1}
    ax = replace(run.evaluations[0], task="glue/ax", split="test", scores=scores)
    return replace(run, evaluations=(*run.evaluations, ax))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report of three models with two seeds each."""
    levels = {"minilm": (0.6, 22e6), "bert-base": (0.7, 110e6), "too-large": (0.65, 340e6)}
    runs = [
        with_ax(run)
        for model, (score, size) in levels.items()
        for run in suite_of(model, score, (0, 1), parameters=int(size), seconds=size / 1e6)
    ]
    file = tmp_path_factory.mktemp("plots") / "report.html"
    boards = build_boards([row_of(run) for run in runs], GLUE)
    write_page(file, render_report(boards, runs, WHEN, Background()))
    return file


@pytest.fixture
def page(browser: "Browser", path: Path) -> Iterator[Opened]:
    with opened(browser, path) as found:
        yield found
        assert found.complaints == []
        assert found.requests == [path.as_uri()]


def shown(page: Opened) -> list[str]:
    """Return the titles of the visible figures."""
    return page.page.locator(".plots figcaption b:visible").all_inner_texts()


def unfold(page: Opened) -> None:
    page.run("document.querySelectorAll('.plots details').forEach((d) => { d.open = true; })")


def test_every_kind_of_plot_is_visible_in_a_browser(page: Opened) -> None:
    unfold(page)
    titles = shown(page)
    assert "GLUE-9 against parameters" in titles
    assert "AX by category" in titles
    assert "WNLI, seed by seed" in titles
    sizes = page.run(
        "[...document.querySelectorAll('.plots svg.chart')].filter((s) => s.checkVisibility())"
        ".map((s) => { const box = s.getBoundingClientRect(); return box.width * box.height; })"
    )
    assert len(sizes) == len(titles)
    assert min(sizes) > 10_000


def test_plots_of_one_score_against_each_cost_are_next_to_each_other(page: Opened) -> None:
    def against() -> list[str]:
        return [title for title in shown(page) if " against " in title]

    costs = ("parameters", "training FLOPs", "training time (a CPU, 2 threads)")
    assert against() == [f"GLUE-9 against {cost}" for cost in costs]
    page.page.locator(".pick-score").select_option("RTE")
    assert against() == [f"RTE against {cost}" for cost in costs]
    tops = "[...document.querySelectorAll('.choice:not([hidden]) figure')].map((f) => f.offsetTop)"
    page.page.set_viewport_size({"width": 1440, "height": 900})
    assert len(set(page.run(tops))) == 1


def test_selected_model_is_highlighted_in_every_plot(page: Opened) -> None:
    unfold(page)
    lit = "[...new Set([...document.querySelectorAll('.lit')].map((m) => m.dataset.entry))]"
    page.page.locator(".pick-entry").select_option("minilm")
    (entry,) = page.run(lit)
    option = page.page.locator(f".pick-entry option[data-entry='{entry}']")
    assert option.inner_text() == "minilm"
    assert page.run("document.querySelectorAll('.row.lit').length") == len(GLUE.tasks)
    others = page.page.locator(".plots .mark.row:not(.lit)").first
    assert float(others.evaluate("(mark) => getComputedStyle(mark).opacity")) < 0.5
    page.page.locator(".pick-entry").select_option("no model")
    assert page.run(lit) == []


def test_hovering_over_a_plotted_point_shows_its_name(page: Opened) -> None:
    mark = page.page.locator(".plots figure:visible .chart .mark.measured:not(.on-front)").first
    mark.scroll_into_view_if_needed()
    name = mark.locator("text")
    look = "(text) => getComputedStyle(text).visibility"
    assert name.evaluate(look) == "hidden"
    mark.locator(".shape").hover()
    assert name.evaluate(look) == "visible"


def test_clicking_a_plotted_point_opens_its_runs(page: Opened) -> None:
    mark = page.page.locator(".plots figure:visible .chart .mark.measured").first
    target = mark.get_attribute("data-href")
    mark.locator(".shape").click()
    assert page.run("location.hash") == target
    assert page.page.locator(target or "").is_visible()


def test_plots_are_visible_without_scripts(browser: "Browser", path: Path) -> None:
    with opened(browser, path, scripts=False) as page:
        titles = shown(page)
        assert {
            "GLUE-9 against parameters",
            "GLUE-9 against training FLOPs",
        } <= set(titles)
        assert not page.page.locator(".plots select:visible").count()
        page.page.locator(".plots .others > summary").click()
        assert "RTE against parameters" in shown(page)


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (390, "dark")])
def test_plots_fit_a_phone_screen(
    browser: "Browser", path: Path, width: int, scheme: Scheme
) -> None:
    with opened(browser, path, width=width, scheme=scheme) as page:
        unfold(page)
        assert page.run("document.documentElement.scrollWidth") <= width
        heights = page.run(
            "[...document.querySelectorAll('.plots svg.chart text')]"
            ".filter((t) => t.checkVisibility() && t.textContent)"
            ".map((t) => t.getBoundingClientRect().height)"
        )
        assert min(heights) > 8  # in CSS pixels, the height of letters in a footnote


def test_axe_finds_no_accessibility_violation_in_plots(browser: "Browser", path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    with opened(browser, path) as page:
        unfold(page)
        context = {"include": [[f".plots {part}"] for part in ONE_OF_EACH]}
        found = axe.Axe().run(page.page, context=context).response
        faults = [(v["id"], [n["html"] for n in v["nodes"][:3]]) for v in found["violations"]]
        assert faults == []


def test_plots_of_long_leaderboards_are_loaded_when_viewed(
    browser: "Browser", tmp_path: Path
) -> None:
    tasks = ("glue/rte", "glue/cola")
    runs = [
        plotted(f"model {i}", task, 0, 0.5 + i / 200, parameters=10**6 * (i + 1), seconds=60 + i)
        for i in range(FEW_ENTRIES + 1)
        for task in tasks
    ]
    runs += [plotted("model 0", task, 1, 0.5, parameters=10**6) for task in tasks]
    with opened(browser, save(tmp_path, [*runs])) as page:
        page.page.locator(".plots").scroll_into_view_if_needed()
        page.page.locator("figcaption b", has_text="CoLA against parameters").first.wait_for()
        assert shown(page)[0] == "CoLA against parameters"
        page.page.locator(".pick-entry").select_option("model 7")
        page.page.locator(".pick-score").select_option("RTE")
        page.page.locator("figcaption b", has_text="RTE against parameters").wait_for()
        assert page.run("document.querySelectorAll('.choice:not([hidden]) .lit').length") == 3
        page.page.locator(".spreads > summary").click()
        page.page.locator("figcaption b", has_text="RTE, seed by seed").wait_for()
        assert page.run("document.querySelectorAll('.mark.row').length") == 2 * (FEW_ENTRIES + 1)
        assert page.run("document.querySelectorAll('.mark.row.lit').length") == 2
        assert page.complaints == []


def test_plot_can_be_saved_as_svg_and_png(page: Opened) -> None:
    figure = page.page.locator("figure.plot:visible").first
    with page.page.expect_download() as found:
        figure.get_by_role("button", name="as SVG").click()
    root = ET.parse(found.value.path()).getroot()
    shapes = [each for each in root.iter() if each.get("class") == "shape"]
    assert len(shapes) == 3
    assert all((each.get("stroke") or "").startswith("rgb") for each in shapes)
    assert found.value.suggested_filename == "GLUE-9 against parameters.svg"
    with page.page.expect_download() as found:
        figure.get_by_role("button", name="as PNG").click()
    assert Path(found.value.path()).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
