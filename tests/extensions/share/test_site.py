"""Tests of the website of a repository: many rows, size, speed, accessibility, sorting, filters."""

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.browser import faults, opened
from tests.helpers.hostile import HOSTILE_HTML
from tests.helpers.shared_rows import archive_of, edited, made_repository, made_run, scored

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def people_with(models: int, people: int, seeds: int = 1, tasks=("glue/rte",)):
    """Return synthetic archives of models of different accuracy, spread over contributors.

    Args:
        models: Number of models.
        people: Number of contributors.
        seeds: Number of seeds per model and task.
        tasks: Names of the tasks.
    """
    drawing = random.Random(1)
    files: dict[str, dict[str, list]] = {f"person{n}": {} for n in range(people)}
    for number in range(models):
        skill = drawing.uniform(0.2, 2.0)
        runs = [
            made_run(f"model-{number}", seed, task=task, skill=skill)
            for task in tasks
            for seed in range(1, seeds + 1)
        ]
        files[f"person{number % people}"][f"model-{number}.jsonl.gz"] = runs
    return files


def test_site_has_separate_rows_per_contributor_with_date_and_check(bench, tmp_path):
    files = people_with(6, 3)
    files["person0"]["same.jsonl.gz"] = [made_run("same", 1)]
    files["person1"]["same.jsonl.gz"] = [made_run("same", 2), made_run("same", 3)]
    # Two people ran the same job, and got different predictions.
    files["person2"]["same.jsonl.gz"] = [made_run("same", 1, draw="elsewhere")]
    root = made_repository(tmp_path / "board", files)
    ended = bench("share", "build", str(root), "--out", "site")
    page = Path("site/index.html").read_text()
    assert "9 rows on 1 board" in ended.out
    for who in range(3):
        assert f"same (person{who})" in page
    assert "by person1, 2026-08-04, recomputed" in page
    details = list(Path("site/index.runs").glob("*.html"))
    assert len(details) == 9
    assert all(f'href="index.runs/{each.name}' in page for each in details)
    assert bench("share", "build", str(root), "--out", "site").code == 0, "a second build updates"


def test_collapsed_run_is_flagged_on_the_site_and_in_the_check(bench, tmp_path):
    run = made_run("stuck", 1)
    rows = [{**row, "label": "entailment", "scores": [0.75, 0.25]}
            for row in run.evaluations[0].predictions]  # fmt: skip
    root = made_repository(tmp_path / "board", {"ada": {"a.jsonl.gz": [scored(run, rows)]}})
    ended = bench("share", "check", str(root))
    assert (ended.code, "constant predictions" in ended.out) == (0, True)
    assert bench("share", "build", str(root), "--out", "site").code == 0
    assert "constant predictions" in Path("site/index.html").read_text()


def test_html_in_archives_and_verdicts_is_escaped_on_the_site(bench, tmp_path):
    files = people_with(1, 1)
    root = made_repository(tmp_path / "board", files)
    for number, name in enumerate(HOSTILE_HTML):
        run = edited(
            made_run(f"m{number}", 1),
            lambda data, name=name: data["provenance"]["machine"].update(cpu=name),
        )
        archive_of(root / "contributors" / "eve" / f"m{number}.jsonl.gz", [run])
    verdict = {
        "round": HOSTILE_HTML[0], "key": "0" * 64, "run": "x", "kind": "different",
        "differs": HOSTILE_HTML[1], "sentences": HOSTILE_HTML, "answers": 0, "rows": 0,
        "moved": 0.0, "tests": [], "machine": {"host": HOSTILE_HTML[2]}, "versions": {},
        "seconds": 0.0, "finished": HOSTILE_HTML[3],
    }  # fmt: skip
    (root / "contributors" / "eve" / "v.json").write_text(json.dumps([verdict]))
    assert bench("share", "build", str(root), "--out", "site").code == 0
    for path in (tmp_path / "site").rglob("*.html"):
        text = path.read_text()
        assert "<script>document.title" not in text
        assert "<img src=x" not in text


def check_in_browser(browser: "Browser", page: Path, rows: int) -> None:
    """Check that the site can be sorted and filtered, and that axe finds no accessibility fault."""
    with opened(browser, page) as report:
        assert not [url for url in report.requests if not url.startswith("file://")]
        assert report.complaints == []
        body = report.page.locator("tbody.measured")
        assert body.locator(".found").first.inner_text() == f"{rows:,}"
        before = report.names()
        report.page.get_by_role("button", name="model", exact=True).click()
        names = report.names()
        assert names[0].startswith("model-0 (person0)"), names[:3]
        assert names != before
        assert len(names) == len(before) > 5
        report.page.get_by_role("searchbox").fill("by person1,")
        found = report.names()
        assert found
        assert all("(person1)" in name for name in found)
        assert body.locator("tr:visible .said", has_text="by person1,").count() == len(found)
        report.page.get_by_role("searchbox").fill("")
        assert faults(report) == []


@pytest.mark.browser
def test_small_site_sorts_filters_and_is_accessible(browser, bench, tmp_path):
    root = made_repository(tmp_path / "board", people_with(6, 3))
    assert bench("share", "build", str(root), "--out", "site").code == 0
    check_in_browser(browser, tmp_path / "site" / "index.html", 6)


GLUE = ("glue/rte", "glue/mrpc", "glue/cola", "glue/sst2", "glue/qnli", "glue/wnli", "glue/qqp")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.browser
def test_site_of_300_models_is_small_and_opens_fast(browser, bench, tmp_path):
    root = made_repository(tmp_path / "board", people_with(300, 20, tasks=GLUE))
    ended = bench("share", "build", str(root), "--out", "site")
    page = tmp_path / "site" / "index.html"
    assert "300 rows" in ended.out
    with opened(browser, page, timed=True) as report:
        seconds = report.processor_seconds()
    print(f"{page.stat().st_size:,} bytes, {seconds:.2f} s to open")  # noqa: T201  (with -s)
    assert page.stat().st_size < 1_500_000
    assert seconds < 2
    check_in_browser(browser, page, 300)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_repository_of_20_contributors_with_1000_rows_is_checked_and_built(bench, tmp_path):
    root = made_repository(tmp_path / "board", people_with(1_000, 20))
    ended = bench("share", "check", str(root), "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["runs"], found["faults"]) == (0, 1_000, [])
    ended = bench("share", "build", str(root), "--out", "site")
    assert "1000 rows on 1 board" in ended.out
