"""Tests of the report in a browser, opened from disk."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scipy.stats import ttest_ind

from benchharness.leaderboard.statistics import holm
from tests.helpers.browser import Opened, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser
from tests.helpers.browser import choose, save_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_report(tmp_path_factory.mktemp("report"))


@pytest.fixture
def report(browser: "Browser", path: Path) -> Iterator[Opened]:
    with opened(browser, path) as found:
        yield found
        assert found.complaints == []
        assert len(found.requests) == 1


def test_report_opens_from_disk_without_other_requests(report: Opened, path: Path) -> None:
    assert report.requests == [path.as_uri()]
    assert "roberta-base" in report.names()
    assert report.run("() => performance.getEntriesByType('resource').length") == 0


def test_report_content_security_policy_blocks_injected_scripts(
    browser: "Browser", path: Path
) -> None:
    with opened(browser, path) as found:
        ran = found.run(
            """() => {
                const script = document.createElement("script");
                script.append("document.title = 'owned'");
                document.body.append(script);
                const tag = document.createElement("p");
                try { tag.innerHTML = "<b>x</b>"; } catch { return [document.title, "refused"]; }
                return [document.title, "taken"];
            }"""
        )
        assert ran == ["Leaderboard", "refused"]


def test_every_report_row_is_visible_without_scripts(browser: "Browser", path: Path) -> None:
    with opened(browser, path, scripts=False) as found:
        assert found.page.locator("table.rows tbody tr:visible .name").count() == 5 + 3 + 98 + 89
        assert found.page.locator("button:visible, .choose input:visible").count() == 0


def test_report_sorting_puts_missing_scores_last(report: Opened) -> None:
    head = report.page.locator("th", has_text="RTE").first
    seen = []
    for _ in range(3):
        head.get_by_role("button").click()
        seen.append([head.get_attribute("aria-sort"), *report.names()])
    best_first = ["roberta-base", "bert-base", "minilm", "tiny"]
    assert seen == [
        ["descending", *best_first, "distilbert-base"],
        ["ascending", *reversed(best_first), "distilbert-base"],
        [None, *best_first, "distilbert-base"],
    ]


def test_sorting_of_the_report_keeps_rows_of_the_same_kind_together(report: Opened) -> None:
    report.page.get_by_role("button", name="model", exact=True).click()
    assert report.names() == sorted(report.names())
    kinds = report.run("() => [...document.querySelectorAll('tbody')].map((b) => b.className)")
    order = ["measured", "scored", "ensemble", "baseline", "published", "published"]
    assert kinds[:6] == order


def test_report_can_be_sorted_by_keyboard_with_the_sorted_column_marked(report: Opened) -> None:
    for name in ("CoLA", "SST-2"):
        report.page.get_by_role("button", name=name, exact=True).focus()
        report.page.keyboard.press("Enter")
    assert report.page.locator("[aria-sort]").all_inner_texts() == ["SST-2"]


def test_report_search_matches_all_words_and_shows_the_number_of_matches(report: Opened) -> None:
    box = report.page.get_by_role("searchbox")
    count = report.page.locator(".count")
    box.fill("Base 3 seeds")
    assert report.names() == ["roberta-base", "bert-base"]
    assert count.inner_text() == "2 of 195 rows match"
    head, chip = "tbody.measured .kind .found", "label.measured .found"
    for place in (head, chip):
        assert report.page.locator(place).inner_text() == "2 of 5"
    box.fill("ALBERT papers")
    assert count.inner_text() == "0 of 195 rows match"
    box.fill("albert")
    assert set(report.names("published")) >= {"ALBERT (1.5M)"}
    box.fill("")
    assert len(report.names()) == 5
    assert count.inner_text() == ""
    assert report.page.locator(head).inner_text() == "5"


def test_report_can_be_sorted_by_parameter_count(report: Opened) -> None:
    sizes = report.page.locator("tbody.measured td.size")
    report.page.get_by_role("button", name="params", exact=True).click()
    assert [text[-1] for text in sizes.all_inner_texts()] == ["M"] * 5
    values = sizes.evaluate_all("(cells) => cells.map((cell) => Number(cell.dataset.value))")
    assert values == sorted(values)


def test_row_groups_of_the_report_can_be_hidden_and_collapsed(report: Opened) -> None:
    report.page.get_by_label("Measured here").uncheck()
    assert report.names() == []
    assert report.names("published") == []
    fold = report.page.get_by_role("button", name="Published, dev")
    assert fold.get_attribute("aria-expanded") == "false"
    fold.click()
    assert fold.get_attribute("aria-expanded") == "true"
    assert len(report.names("published")) == 98


def test_report_columns_can_be_hidden(report: Opened) -> None:
    cells = report.page.locator("tbody.measured tr").nth(1).locator("td:visible, th:visible")
    before = cells.count()
    report.page.locator(".columns > summary").first.click()
    report.page.locator(".columns").get_by_role("checkbox", name="wnli").uncheck()
    assert cells.count() == before - 1
    assert not report.page.locator("th", has_text="wnli").first.is_visible()


def line(report: Opened, task: str) -> list[str]:
    row = report.page.locator(".compare tbody tr", has_text=task).first
    return [" ".join(text.split()) for text in row.locator("td").all_inner_texts()]


def test_selected_report_entries_are_compared_next_to_each_other(report: Opened) -> None:
    report.page.get_by_role("button", name="Published, dev").click()
    choose(report, "minilm", "roberta-base", "ALBERT (1.5M)")
    report.page.get_by_role("button", name="Compare").click()
    assert report.run("() => document.activeElement.textContent") == "Side by side"
    heads = report.page.locator(".compare thead .name").all_inner_texts()
    assert heads == ["minilm", "roberta-base", "ALBERT (1.5M)"]
    ours, other, published = line(report, "CoLA")
    number = float(ours.split()[0])
    assert other.split()[1] == f"+{float(other.split()[0]) - number:.1f}*"
    assert "roberta-base with a t-test over seeds" in report.page.inner_text(".compare p")
    assert published == f"71.4 +{71.4 - number:.1f}"
    assert "in accuracy" in line(report, "mrpc")[2]
    best = report.page.locator(".compare tr", has_text="CoLA").locator("td.best").all_inner_texts()
    assert [text.split()[0] for text in best] == ["71.4"]


def test_report_does_not_compare_scores_of_different_splits(report: Opened) -> None:
    report.page.get_by_role("button", name="Published, test").click()
    choose(report, "minilm", "Human Baselines")
    _, published = line(report, "score")
    assert published == "87.1 test GLUE-9"
    assert report.page.locator(".compare td.best").count() == 0


def test_report_url_restores_a_comparison(report: Opened, browser: "Browser", path: Path) -> None:
    choose(report, "tiny", "bert-base")
    anchor = report.page.url.partition("report.html")[2]
    assert anchor.startswith("#compare=")
    with opened(browser, path, anchor=anchor) as found:
        heads = found.page.locator(".compare thead .name").all_inner_texts()
        assert heads == ["tiny", "bert-base"]
        assert found.page.locator(".choose input:checked").count() == 2
        found.page.get_by_role("button", name="remove tiny").click()
        assert found.page.locator(".compare thead .name").all_inner_texts() == ["bert-base"]
        found.page.get_by_role("button", name="Clear").click()
        assert not found.page.locator(".compare").first.is_visible()
        assert found.page.url == path.as_uri()


def test_clicking_a_score_opens_its_runs_and_links_open_single_runs(report: Opened) -> None:
    report.page.locator("tbody.measured td a").first.click()
    group = report.page.locator("section.group:target")
    assert group.locator("h4").text_content() == "roberta-base on CoLA"
    assert group.is_visible()
    assert group.locator("details.run:visible").count() == 0, "the table above has all seeds"
    number = report.page.locator("details.entry[open] .overview td a").first
    number.click()
    run = report.page.locator(f"details{number.get_attribute('href')}")
    assert "bench run --model" in run.inner_text()
    failed = report.page.locator(".failures a")
    failed.click()
    run = report.page.locator(f"details{failed.get_attribute('href')}")
    assert run.get_attribute("open") is not None


def test_t_test_that_the_report_computes_in_the_browser_matches_scipy(report: Opened) -> None:
    draw = random.Random(3)
    for one, other in ((2, 2), (3, 5), (10, 2), (5, 5)):
        samples = [
            [draw.gauss(80, 2) for _ in range(one)],
            [draw.gauss(85, 1) for _ in range(other)],
        ]
        found = report.run("([a, b]) => welch(a, b)", samples)
        assert found == pytest.approx(ttest_ind(*samples, equal_var=False).pvalue, rel=1e-3)
    assert report.run("() => welch([1, 1], [1, 1])") is None
    p_values = [0.01, 0.04, 0.03]
    script = """(ps) => {
        const rows = [0, 1].map(() => ({ cells: ps.map((p) => ({ seeds: [p, p], basis: "" })) }));
        const heads = ["a", "b", "c"].map((t) => ({ textContent: t, matches: () => false }));
        const real = welch;
        welch = ([p]) => p;
        const found = seedTests({ heads }, ...rows);
        welch = real;
        return found;
    }"""
    said = report.run(script, p_values)
    told = [float(said[name].split("p = ")[1].split()[0]) for name in "abc"]
    assert told == pytest.approx(holm(p_values), rel=0.01)
    assert [said[name][0] for name in "abc"] == ["*", "W", "W"]


def test_report_colour_scheme_can_be_selected(report: Opened) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = report.run(ground)
    report.page.get_by_label("Colours").select_option("dark")
    assert report.run(ground) != light


def test_report_description_is_on_a_separate_line_below_the_heading(
    browser: "Browser", path: Path
) -> None:
    with opened(browser, path, width=1440) as found:
        heading, said = found.run(
            """() => {
                const said = document.createElement("p");
                said.className = "description";
                document.querySelector(".theme").after(said);
                said.append("Ours");
                const top = (sign) => document.querySelector(sign).getBoundingClientRect();
                return [top("h1").bottom, top(".description").top];
            }"""
        )
        assert said >= heading


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_report_never_scrolls_sideways_and_names_remain_visible(
    browser: "Browser", path: Path, width: int
) -> None:
    script = """() => {
        document.querySelectorAll("details").forEach((each) => { each.open = true; });
        const body = document.documentElement;
        const table = document.querySelector(".scroll");
        table.scrollLeft = 10000;
        const name = document.querySelector("tbody .model").getBoundingClientRect();
        const frame = table.getBoundingClientRect();
        return [body.scrollWidth <= body.clientWidth, name.left >= frame.left];
    }"""
    with opened(browser, path, width=width) as found:
        choose(found, "minilm", "tiny")
        assert found.run(script) == [True, True]
