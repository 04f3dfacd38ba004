"""Tests of the page that `bench report` writes: leaderboards, split files, significance tests."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from benchharness.stored import find_rows
from benchharness.stored.predictions import contrasts_of
from tests.helpers.browser import choose, opened
from tests.helpers.compared_runs import made
from tests.helpers.results import make_failure

MODELS = {"good": [{0}, {1}, {2}], "near": [{3}, {4, 5}, {6}], "bad": [set(range(50))] * 3}
"""The rows of RTE that each seed has wrong."""


def fill(path, models):
    with open_store(path) as store:
        for model, seeds in models.items():
            for seed, wrong in enumerate(seeds):
                store.add_result(made(model, "glue/rte", seed, wrong))
        store.add_failure(make_failure(made("good", "glue/rte", 9, {0}).job))


@pytest.fixture
def report(bench):
    """Write the page of three models with three seeds each and a failed run."""
    fill("board.sqlite", MODELS)

    def write(*words, db="board.sqlite"):
        ended = bench("report", "--db", db, "--out", "page.html", *words)
        assert ended.code == 0, ended.err
        return Path("page.html").read_text(encoding="utf-8")

    return write


def test_report_page_has_title_description_and_version(report):
    page = report("--title", "Encoders <2026>", "--description", "All of our runs.")
    assert "<title>Encoders &lt;2026&gt;</title>" in page
    assert '<p class="description">All of our runs.</p>' in page
    assert re.search(r"<footer>.*Made by benchharness \d", page, re.DOTALL)


def test_split_report_has_runs_in_separate_files_with_links(report):
    page = report("--split")
    assert 'class="run"' not in page
    links = set(re.findall(r'href="(page\.runs/[^"#]+)#([^"]+)"', page))
    assert len({file for file, _ in links}) == 3
    assert "also move the folder" in page
    for file, anchor in links:
        runs = Path(file).read_text(encoding="utf-8")
        assert f'id="{anchor}"' in runs
        assert 'href="../page.html"' in runs
        assert "default-src &#39;none&#39;" in runs
    failed = re.search(r'<h2 id="failures">.*?href="(page\.runs/[^"#]+)', page, re.DOTALL)
    assert "diverged" in Path(failed[1]).read_text(encoding="utf-8")


def test_split_report_rewrites_only_changed_files_of_runs(report):
    report("--split")
    folder = Path("page.runs")
    (folder / "my-notes.html").write_text("mine")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    fill("other.sqlite", {"good": MODELS["good"], "near": [*MODELS["near"], {7}]})
    report("--split", db="other.sqlite")
    after = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    (gone,) = before.keys() - after.keys()
    assert gone.startswith("bad-")
    (changed,) = (name for name in after if after[name] != before.get(name))
    assert changed.startswith("near-")


def test_large_report_is_split_and_its_first_page_keeps_all_table_rows(report, monkeypatch):
    monkeypatch.setattr("benchharness.stored.report.PACKED_RUNS", 5)
    monkeypatch.setattr("benchharness.stored.report.MOST_RUNS", 3)
    page = report()
    assert page.count('<tr id="row-') == 3
    assert "the plots against cost show the best 1 of 3 entries" in page
    assert not re.search(r'href="#runs?-', page)
    assert 'class="run"' in report("--no-split")


def test_split_report_whose_folder_cannot_be_created_is_a_one_sentence_error(report, bench):
    Path("page.runs").write_text("a file")
    ended = bench("report", "--db", "board.sqlite", "--out", "page.html", "--split")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "page.runs could not be written: " in ended.err
    assert not Path("page.html").exists()


def test_report_page_has_the_significance_tests_of_bench_compare(report):
    page = report()
    (found,) = re.findall(r'data-contrasts="([^"]*)"', page)
    by_pair = {frozenset(pair): said["RTE"] for *pair, said in json.loads(unescape(found))}
    row = re.compile(r'<tr id="(row-\w+)".*?<span class="name">(.*?)</span>', re.DOTALL)
    names = dict(row.findall(page))
    assert {frozenset(names[row] for row in pair) for pair in by_pair} == {
        frozenset(pair) for pair in (("good", "near"), ("near", "bad"), ("good", "bad"))
    }
    with open_store("board.sqlite") as store:
        for pair, said in by_pair.items():
            systems = [names[row] for row in sorted(pair, key=lambda row: "bad" in names[row])]
            (rows,) = find_rows(store, systems)
            (contrast,) = contrasts_of(store, rows, "dev", with_slices=False)
            assert f"p = {contrast.corrected:.2g} after Holm" in said
            assert said.startswith("* ") == contrast.is_shown
    assert sum(said.startswith("* ") for said in by_pair.values()) == 2


def test_report_without_intervals_has_no_significance_tests(report):
    assert "data-contrasts" not in report("--no-intervals")


@pytest.mark.browser
def test_comparison_view_marks_significant_differences_with_an_asterisk(report, browser):
    report()
    with opened(browser, Path("page.html").resolve()) as found:
        choose(found, "good", "near", "bad")
        cells = found.page.locator(".compare tbody tr", has_text="RTE").locator("td")
        assert [text.endswith("*") for text in cells.all_inner_texts()] == [False, False, True]
        cells.nth(2).hover()
        assert "after Holm" in found.page.locator("#tip").inner_text()
        assert found.complaints == []
