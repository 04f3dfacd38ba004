"""Tests of prediction pages in a browser, opened from disk."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchharness.extensions.prediction_pages.examples import PredictedTask, System
from benchharness.extensions.prediction_pages.page import render_predictions
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.report.write import write_page
from benchharness.tasks.examples import PairPrediction
from tests.helpers.browser import Opened, Scheme, faults, opened
from tests.helpers.drawn_predictions import drawn, mini
from tests.helpers.report_page import WHEN

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

TASK = "squad/v2.0"


def system(name: str, seeds: int) -> System:
    names = tuple(map(str, range(seeds)))
    scores = ({"em": 0.5, "f1": 0.6},) * seeds
    return System(name=name, details="paper", seeds=names, keys=names, scores=scores)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    split = drawn(TASK, one=(0.8, 0.8), other=(0.5, 0.5))
    systems = (system("good", 2), system("poor", 2))
    found = PredictedTask(task=split.task, data="mini data", systems=systems, splits=(split,))
    path = tmp_path_factory.mktemp("predictions") / "page.html"
    write_page(path, render_predictions(found, WHEN, "../report.html"))
    return path


@pytest.fixture
def page(browser: "Browser", path: Path) -> Iterator[Opened]:
    with opened(browser, path) as found:
        yield found
        assert found.complaints == []
        assert found.requests == [path.as_uri()]


def shown(page: Opened) -> list[int]:
    numbers = page.page.locator(".example .facts a").all_inner_texts()
    return [int(number) for number in numbers]


def matching(page: Opened) -> int:
    said = page.page.locator(".count").inner_text()
    return int(said.split()[0]) if said else len(mini(TASK, "dev"))


def choose(page: Opened, name: str, value: str) -> None:
    page.page.locator(f"select.{name}").select_option(value)


def test_examples_load_in_pages_and_can_be_reordered(page: Opened) -> None:
    assert len(shown(page)) == 20
    page.page.get_by_role("button", name="Show 20 more").click()
    assert len(shown(page)) == 40
    assert page.run("() => document.activeElement.closest('li') === list.children[20]")
    choose(page, "order", "place")
    assert shown(page) == list(range(1, 21))


def test_prediction_filters_state_the_number_of_matching_examples(page: Opened) -> None:
    for value in ("none", "some", "all", "1", "-1"):
        option = page.page.locator(f".show option[value='{value}']").inner_text()
        choose(page, "show", value)
        assert f"({matching(page)})" in option
    right = page.page.locator(".example").first.locator(".answers .right")
    assert right.count() >= 1


def test_prediction_page_search_finds_texts_and_example_ids(page: Opened) -> None:
    example = mini(TASK, "dev")[7]
    page.page.get_by_role("searchbox").fill(example.id)
    assert 8 in shown(page)
    page.page.get_by_role("searchbox").fill("no such words")
    assert shown(page) == []
    assert matching(page) == 0


def test_confusion_matrix_cell_filters_examples_and_is_kept_in_the_url(
    page: Opened, browser: "Browser", path: Path
) -> None:
    cell = page.page.locator("td[data-cell='0.1.3'] button")
    cell.focus()
    page.page.keyboard.press("Enter")
    found, numbers = matching(page), shown(page)
    assert 0 < found <= int(cell.inner_text())
    assert set(page.page.locator(".answers > div:first-child dd").all_inner_texts()) == {
        "(no answer)"
    }
    with opened(browser, path, anchor=page.page.url.partition(".html")[2]) as again:
        assert (matching(again), shown(again)) == (found, numbers)
        again.page.get_by_role("button", name="gold no answer, predicted no answer ×").click()
        assert matching(again) == len(mini(TASK, "dev"))
        assert again.page.url == path.as_uri()


def test_url_anchor_shows_the_example_with_the_number_in_it(browser: "Browser", path: Path) -> None:
    with opened(browser, path) as found:
        choose(found, "order", "place")
        assert found.page.url.endswith("#order=place")
        for number, others in ((30, 39), (250, 0)):
            found.run("(hash) => { location.hash = hash; }", f"example-{number}")
            found.page.wait_for_selector(f"#example-{number}")
            assert len(shown(found)) == others + 1
        found.page.get_by_role("button", name="Show the others").click()
        assert shown(found) == list(range(1, 21))
        assert found.complaints == []


def test_prediction_page_shows_the_hardest_examples_without_javascript(
    browser: "Browser", path: Path
) -> None:
    with opened(browser, path, scripts=False) as found:
        assert len(shown(found)) == 20
        assert found.page.locator("select:visible, input:visible, button:visible").count() == 0
        assert "Enable JavaScript" in found.page.locator(".more").inner_text()


WIDTHS = (390, 1024, 1440)


@pytest.mark.parametrize(
    ("scheme", "widths"),
    [
        ("dark", (390,)),
        *(pytest.param(scheme, WIDTHS, marks=pytest.mark.soak) for scheme in ("light", "dark")),
    ],
)
def test_prediction_pages_have_no_accessibility_violations_or_sideways_scroll(
    browser: "Browser", path: Path, scheme: Scheme, widths: tuple[int, ...]
) -> None:
    with opened(browser, path, scheme=scheme) as found:
        found.page.locator(".summary > summary").click()
        for width in WIDTHS:
            found.page.set_viewport_size({"width": width, "height": 900})
            assert width not in widths or faults(found) == []
            body = "document.documentElement"
            assert found.run(f"() => {body}.scrollWidth <= {body}.clientWidth")


@pytest.mark.soak
def test_prediction_page_of_20000_examples_loads_within_seconds(
    browser: "Browser", tmp_path: Path
) -> None:
    """Test 20,000 examples, as MNLI's two dev splits have, of two systems."""
    task, known = drawn("glue/mnli").task, mini("glue/mnli", "dev")
    examples = tuple(replace(known[n % len(known)], id=str(n)) for n in range(20_000))

    def run(seed: int) -> tuple[PairPrediction, ...]:
        scores = [((n * 7 + seed) % 97 / 200, (n * 3 + seed) % 89 / 200) for n in range(20_000)]
        rows = [(a, b, 1 - a - b) for a, b in scores]
        labels = ("entailment", "neutral", "contradiction")
        return tuple(
            PairPrediction(id=str(n), label=labels[row.index(max(row))], scores=row)
            for n, row in enumerate(rows)
        )

    runs = [tuple(map(run, seeds)) for seeds in (range(5), range(5, 10))]
    split = PredictedSplit(task=task, split="dev", examples=examples, one=runs[0], other=runs[1])
    systems = (system("one", 5), system("two", 5))
    found = PredictedTask(task=task, data="mini data", systems=systems, splits=(split,))
    path = tmp_path / "page.html"
    write_page(path, render_predictions(found, WHEN))
    assert path.stat().st_size < 10e6
    with opened(browser, path, timed=True) as page:
        assert page.processor_seconds() < 5
        before = page.processor_seconds()
        choose(page, "show", "none")
        assert page.processor_seconds() - before < 2
        assert page.complaints == []
