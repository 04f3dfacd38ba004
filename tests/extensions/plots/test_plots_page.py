"""Tests of the plots in a page: the SVG is read as a browser would, and compared with its ticks."""

import re
from html.parser import HTMLParser
from math import log10

import pytest

from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.report.addition import Background
from benchharness.leaderboard.report.sizes import ModelSize
from benchharness.leaderboard.report.write import render_report
from benchharness.leaderboard.result import Failure, Result
from benchharness.tasks.suites import SUITES
from tests.helpers.boards import GLUE, make_runs, plotted, row_of, suite_of
from tests.helpers.hostile import HOSTILE_HTML
from tests.helpers.report_page import WHEN
from tests.helpers.results import make_failure


class Svgs(HTMLParser):
    """Elements of every chart with their attributes, and the text inside each."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.charts: list[list[tuple[str, dict[str, str | None], list[str]]]] = []
        self.inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "svg" and found.get("class") == "chart":
            self.inside = True
            self.charts.append([])
        if self.inside:
            self.charts[-1].append((tag, found, []))

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "svg"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.charts[-1][-1][2].append(data.strip())

    def chart(self, title: str) -> list[tuple[str, dict[str, str | None], list[str]]]:
        """Return the chart with this title."""
        return next(
            c for c in self.charts if any(t == "title" and "".join(x) == title for t, _, x in c)
        )


def html_of(runs: list[Result | Failure], sizes: dict[str, ModelSize] | None = None) -> str:
    boards = build_boards([row_of(run) for run in runs], GLUE)
    return render_report(boards, runs, WHEN, Background(sizes=sizes or {}))


def plots_of(html: str) -> str:
    after = r'(?=<section class="(?:board|details|failures)|</main>)'
    return "".join(re.findall(r'<section class="plots".*?' + after, html, re.DOTALL))


@pytest.fixture(scope="module")
def html() -> str:
    return html_of(list(make_runs()))


def test_plot_circles_are_at_the_positions_that_the_tick_labels_imply() -> None:
    models = {"small": (5e6, 0.5), "middle": (50e6, 0.61), "large": (500e6, 0.74)}
    runs: list[Result | Failure] = [
        plotted(name, score=score, parameters=int(size)) for name, (size, score) in models.items()
    ]
    chart = Svgs(html_of(runs)).chart("RTE against parameters")
    texts = [(a, "".join(x)) for tag, a, x in chart if tag == "text"]
    across = {t[:-1]: float(a["x"] or 0) for a, t in texts if t.endswith("M")}
    up = {t: float(a["y"] or 0) - 3.5 for a, t in texts if re.fullmatch(r"\d+", t)}
    notes = ["".join(x) for tag, _, x in chart if tag == "title"][1:]
    shapes = [a["d"] or "" for _, a, _ in chart if a.get("class") == "shape"]
    circles = [tuple(map(float, re.findall(r"[\d.]+", d)[:2])) for d in shapes]
    assert len(notes) == len(circles) == 3
    # Equal ratios of sizes and equal differences of scores have equal distances.
    xs = dict(zip((note.split()[0] for note in notes), circles, strict=True))
    assert xs["middle"][0] - xs["small"][0] == pytest.approx(
        xs["large"][0] - xs["middle"][0], abs=1
    )
    per_point = (up["50"] - up["70"]) / 20
    for name, (_, score) in models.items():
        assert xs[name][1] == pytest.approx(up["50"] - per_point * (100 * score - 50), abs=0.2)
    per_decade = xs["middle"][0] - xs["small"][0]
    assert len(across) >= 2
    for text, x in across.items():
        assert x == pytest.approx(xs["small"][0] + per_decade * log10(float(text) / 5), abs=0.5)


def test_every_chart_has_an_image_role_title_description_and_table(html: str) -> None:
    charts = Svgs(html).charts
    assert len(charts) > 20
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for chart in charts:
        _, svg, _ = chart[0]
        assert svg["role"] == "img"
        assert svg["aria-labelledby"] in ids
        assert svg["aria-describedby"] in ids
        assert chart[1][0] == "title"
        assert chart[2][0] == "desc"
        assert len("".join(chart[2][2])) > 10
        # Elements of an image cannot be focused, so there must be no links in it.
        assert not any(tag == "a" for tag, _, _ in chart)
    assert html.count('<details class="numbers">') >= len(GLUE.rule.cells)


def test_links_of_plots_have_targets_in_the_page(html: str) -> None:
    ids = set(re.findall(r'\bid="([^"]+)"', html))
    targets = set(re.findall(r'(?:data-href|href)="#([^"]+)"', html))
    assert targets
    assert targets <= ids


def test_plots_contain_no_inline_style_and_no_script(html: str) -> None:
    plots = plots_of(html)
    assert "<svg" in plots
    assert not re.search(r"\sstyle=|<script|<style|\son[a-z]+=", plots)


def test_hostile_names_are_escaped_in_plots() -> None:
    names = [*HOSTILE_HTML, "a\u202eb", "]]>", "data-entry='x' \"", "-->"]
    runs: list[Result | Failure] = [
        plotted(name, score=0.5 + i / 50, parameters=10**7 * (i + 1))
        for i, name in enumerate(names)
    ]
    plain: list[Result | Failure] = [
        plotted(f"model {i}", score=0.5 + i / 50, parameters=10**7 * (i + 1))
        for i in range(len(names))
    ]

    def tags(page: str) -> list[str]:
        # Labels of other lengths may be placed elsewhere or left out, so ignore texts.
        return [tag for chart in Svgs(page).charts for tag, _, _ in chart if tag != "text"]

    hostile = html_of(runs)
    assert tags(hostile) == tags(html_of(plain))
    assert "<img" not in hostile
    assert "\u202e" not in hostile


def test_report_without_finished_runs_has_no_plots() -> None:
    assert '<section class="plots"' not in html_of([])
    assert '<section class="plots"' not in html_of([make_failure()])


def test_report_has_no_plots_of_a_single_model() -> None:
    page = html_of([plotted(), plotted("tiny", score=0.5, parameters=670_000)])
    titles = {"".join(chart[1][2]) for chart in Svgs(page).charts}
    assert {"RTE against parameters", "RTE against training FLOPs"} <= titles
    assert "RTE, seed by seed" not in titles, "each model has a single seed"
    assert Svgs(html_of([plotted()])).charts == []


def test_plot_of_the_suite_score_comes_first_if_models_have_it() -> None:
    whole = plots_of(html_of([*suite_of("minilm", 0.6), *suite_of("tiny", 0.5, parameters=9)]))
    assert whole.index("GLUE-9 against parameters") < whole.index('<details class="others">')
    cola = [plotted(n, "glue/cola", parameters=size) for n, size in (("minilm", 5), ("tiny", 9))]
    part = plots_of(html_of([plotted(), plotted("tiny", parameters=9), plotted("small"), *cola]))
    assert part.index("RTE against parameters") < part.index('<details class="others">')


def test_report_has_one_learning_curve_chart_for_all_seeds(html: str) -> None:
    assert "training loss of every seed" in html
    assert re.search(r"dev accuracy of every seed", html)
    assert html.count("Learning curves of every seed") == 4 * len(GLUE.rule.cells)


def test_report_shows_the_runs_of_a_leaderboard_between_its_table_and_its_plots(html: str) -> None:
    table, runs, plots = (html.index(f'id="board-1{end}"') for end in ("", "-runs", "-plots"))
    assert table < runs < plots


def test_categories_are_shown_without_plots_of_seeds_or_costs() -> None:
    scores = {"em": 0.5, "f1": 0.6, "f1_hasans": 0.8, "f1_noans": 0.4}
    run = plotted(task="squad/v2.0", scores=scores)
    page = render_report(build_boards([row_of(run)], SUITES["squad"]), [run], WHEN)
    assert ">Scores by category</h3>" in page
    assert "Spread over seeds" not in page
