"""The report in a real browser, opened from disk."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from leaderboard.board import build_boards
from leaderboard.report import write_report
from leaderboard.result import Failure, Result
from tests.leaderboard.boards import GLUE, make_job, make_runs, row_of
from tests.leaderboard.results import make_failure, make_result
from tests.leaderboard.test_report import HOSTILE, WHEN

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--virtual-time-budget=2000",
    "--enable-logging=stderr",
)

# The policy of the report keeps foreign scripts out of it, so a page around it asks the questions;
# the flag --allow-file-access-from-files makes the two files one origin.
AROUND = """<!doctype html><iframe id="report" src="report.html" width="%d" height="800"></iframe>
<pre id="answer"></pre><script>
document.getElementById("report").onload = (event) => {
  const page = event.target.contentDocument;
  const all = (selector) => [...page.querySelectorAll(selector)];
  const answer = (() => { %s })();
  document.getElementById("answer").textContent = JSON.stringify(answer);
};
</script>"""

Ask = Callable[..., Any]


def browse(folder: Path, file: Path) -> tuple[str, str]:
    """The page's elements after its scripts ran, and the browser's log."""
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [str(CHROMIUM), *FLAGS, profile, "--allow-file-access-from-files", "--dump-dom"]
    done = subprocess.run(
        [*command, file.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout, done.stderr


def save(folder: Path, runs: list[Result | Failure]) -> Path:
    path = folder / "report.html"
    write_report(path, build_boards([row_of(run) for run in runs], GLUE), runs, WHEN)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    save(folder, make_runs())
    return folder


@pytest.fixture
def ask(folder: Path) -> Ask:
    def answer(script: str, width: int = 1200) -> Any:
        around = folder / "around.html"
        around.write_text(AROUND % (width, script), encoding="utf-8")
        page, _ = browse(folder, around)
        found = re.search(r'<pre id="answer">(.*?)</pre>', page, re.DOTALL)
        assert found, page[:2000]
        return json.loads(unescape(found[1]))

    return answer


def test_opens_from_disk_with_no_complaint(folder: Path) -> None:
    page, log = browse(folder, folder / "report.html")
    assert "roberta-base" in page
    assert "CONSOLE" not in log


def test_asks_for_nothing_else(ask: Ask) -> None:
    script = (
        """return event.target.contentWindow.performance.getEntriesByType("resource").length;"""
    )
    assert ask(script) == 0


def test_hostile_names_run_nothing(tmp_path: Path) -> None:
    names = [*HOSTILE, "a\u202eb", "a\ud800b"]
    runs: list[Result | Failure] = [make_result(make_job(model=name)) for name in names]
    runs += [make_failure(make_job(model=name, seed=1), error=name) for name in names]
    page, log = browse(tmp_path, save(tmp_path, runs))
    assert "<title>Leaderboard</title>" in page
    assert "CONSOLE" not in log
    assert unescape(page).count("<img src=x") >= 2
    assert "<img" not in page


def test_head_sorts_its_column_and_empty_cells_stay_last(ask: Ask) -> None:
    script = """
        const head = all("thead th").find((th) => th.textContent.trim() === "rte");
        const models = () => all("tbody .name").map((name) => name.textContent);
        const seen = [];
        for (let time = 0; time < 2; time += 1) {
          head.querySelector("button").click();
          seen.push([head.getAttribute("aria-sort"), ...models()]);
        }
        return seen;"""
    best_first = ["roberta-base", "bert-base", "minilm", "tiny"]
    assert ask(script) == [
        ["descending", *best_first, "distilbert-base"],
        ["ascending", *reversed(best_first), "distilbert-base"],
    ]


def test_only_one_column_says_that_it_is_sorted(ask: Ask) -> None:
    script = """
        all(".board thead button").forEach((button) => button.click());
        return all("[aria-sort]").map((head) => head.textContent.trim());"""
    assert ask(script) == ["ax"]


def test_filter_keeps_what_has_every_word(ask: Ask) -> None:
    script = """
        const box = page.querySelector("input[type=search]");
        const left = (text) => {
          box.value = text;
          box.dispatchEvent(new Event("input"));
          const rows = all(".board tbody tr").filter((row) => row.offsetHeight > 0);
          const count = page.querySelector(".count").textContent;
          return [rows.map((row) => row.querySelector(".name").textContent), count];
        };
        return [left("Base 3 seeds"), left("nothing"), left("")[0].length];"""
    assert ask(script) == [
        [["roberta-base", "bert-base"], "2 of 5 shown"],
        [[], "0 of 5 shown"],
        5,
    ]


def test_everything_is_reached_by_keyboard(ask: Ask) -> None:
    script = """
        const can = (element) => { element.focus(); return page.activeElement === element; };
        return ["thead button", ".scroll", "td a", "summary", "input"].map(
          (selector) => can(page.querySelector(selector)));"""
    assert ask(script) == [True] * 5


def test_link_to_a_run_opens_it(ask: Ask) -> None:
    script = """
        const link = page.querySelector(".failures a");
        const run = page.getElementById(link.hash.slice(1));
        const before = run.open;
        event.target.contentWindow.location.hash = link.hash;
        event.target.contentWindow.dispatchEvent(new HashChangeEvent("hashchange"));
        return [before, run.open];"""
    assert ask(script) == [False, True]


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_page_never_scrolls_sideways_and_names_stay_in_sight(ask: Ask, width: int) -> None:
    script = """
        all("details").forEach((each) => { each.open = true; });
        const body = page.documentElement;
        const table = page.querySelector(".scroll");
        table.scrollLeft = 10000;
        const name = page.querySelector("tbody .model").getBoundingClientRect();
        const frame = table.getBoundingClientRect();
        return [body.scrollWidth <= body.clientWidth, name.left >= frame.left, table.scrollLeft];"""
    fits, in_sight, scrolled = ask(script, width)
    assert fits
    assert in_sight
    assert (scrolled > 0) == (width < 1000)
