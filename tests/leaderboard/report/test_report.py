import os
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.job import Setting
from benchharness.leaderboard.report.run import build_run
from benchharness.leaderboard.report.write import render_report, write_page
from benchharness.leaderboard.result import Failure, Result
from tests.helpers.boards import GLUE, make_job, make_rows, make_runs, row_of
from tests.helpers.gold import check_gold
from tests.helpers.report_page import PACKED, WHEN, Page, report, unpacked
from tests.helpers.results import make_cost, make_failure, make_result


@pytest.fixture(scope="module")
def runs() -> list[Result | Failure]:
    return make_runs()


@pytest.fixture(scope="module")
def html(runs: list[Result | Failure]) -> str:
    return report(runs)


@pytest.mark.gold
def test_report_matches_the_reference_file() -> None:
    tasks = ("glue/mrpc", "glue/rte")
    some = [run for run in make_runs() if run.job.task in tasks and run.job.seed < 2]
    kept = [run for run in some if run.job.model in ("minilm", "distilbert-base")]
    check_gold("report.html", report(kept))


def test_report_loads_no_external_resources(html: str) -> None:
    page = Page(html)
    assert page.values("src") == []
    # Only published rows would also have links to their sources.
    assert {href[0] for href in page.values("href")} == {"#"}
    assert "@import" not in html
    assert "url(" not in html
    assert not {tag for tag, _ in page.elements} & {"link", "iframe", "object", "embed", "base"}


def test_report_content_security_policy_allows_only_the_page_itself(html: str) -> None:
    (policy,) = (v for v in Page(html).values("content") if "default-src" in v)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_report_links_have_targets_and_ids_are_unique(html: str) -> None:
    page = Page(html)
    ids = Counter(page.values("id"))
    assert {href[1:] for href in page.values("href")} <= ids.keys()
    assert max(ids.values()) == 1


def test_run_on_two_leaderboards_has_a_single_report_section(tmp_path: Path) -> None:
    small, cut = make_result(make_job(task="glue/wnli")), make_result(make_job(limit=64))
    prints = {"glue/rte:train": "1" * 64, "glue/rte:dev": "2" * 64}
    full = make_result(make_job(fingerprints=prints))
    rows = [replace(row_of(small), largest_split=60), row_of(cut), row_of(full)]
    boards = build_boards(rows, GLUE)
    assert len(boards) == 2
    write_page(tmp_path / "x.html", render_report(boards, [small, cut, full], "today"))
    page = Page((tmp_path / "x.html").read_text())
    ids = Counter(page.values("id"))
    assert max(ids.values()) == 1
    assert all(href[1:] in ids for href in page.values("href"))


def test_report_scores_link_to_the_sections_of_their_runs(
    html: str, runs: list[Result | Failure]
) -> None:
    page = Page(html)
    links = [a["href"] for tag, a in page.elements if tag == "a" and "title" in a]
    # Four models have results on nine tasks and AX, and one model on five tasks.
    assert len(links) == 4 * 10 + 5
    assert {f"run-{run.job.key[:16]}" for run in runs} <= set(page.values("id"))


def test_report_shows_settings_weights_data_and_versions_of_each_run() -> None:
    job = make_job(
        task="glue/rte",
        seed=7,
        settings={"learning_rate": 3e-5},
        limit=100,
        weights="hub:org/model@abc123",
    )
    text = Page(report([make_result(job)])).text
    assert "learning_rate 3e-05 a paper" in text
    assert "hub:org/model@abc123" in text
    assert all(f"{split} {digest}" in text for split, digest in job.fingerprints.items())
    assert "at most 100 per split" in text
    assert "peak memory 0.50 GiB" in text
    assert "torch 2.13.0" in text
    assert job.key in text


def test_report_omits_the_recipe_if_the_entry_name_contains_the_changed_settings() -> None:
    job = make_job(overridden=True)
    setting = {**job.settings, "epochs": Setting(value=1, source="--set")}
    html = report([make_result(replace(job, settings=setting))])
    assert re.findall(r"</h3> <small>(.*?) run", html) == ["1"]


def test_report_shows_learning_curves_of_each_run(html: str) -> None:
    page = Page(html[html.index('<details class="run"') :])
    lines = [a["d"] or "" for _, a in page.elements if (a.get("class") or "").startswith("line")]
    # Numbers of coordinates, including those of the lines in legends.
    assert {len(line.split()) for line in lines} == {1, 4, 12}
    labels = page.values("aria-label")
    assert "training loss over steps" in labels
    assert "training loss of every seed over steps" in labels


def test_report_lists_failed_jobs_with_their_reason() -> None:
    failure = make_failure(details="step 6: 4.2\n  step 7: <nan>")
    html = report([failure])
    assert Page(html).text.count("the loss became nan at step 7; try a lower") >= 2
    assert "step 6: 4.2\n  step 7: &lt;nan&gt;" in html
    assert "1 failed" in Page(html).text


def test_report_legend_explains_only_displayed_formats_and_intervals() -> None:
    several = report(make_runs())
    alone = report(run for run in make_runs() if run.job.model == "distilbert-base")
    assert "<b>Bold</b> marks the best" in several
    assert "<b>Bold</b> marks the best" not in alone
    for page in (alone, several):  # intervals were not requested
        assert "Below each rank" not in page
        assert "95 % interval is <b>below" not in page


@pytest.mark.parametrize(
    ("name", "seen"), [("a\u202eb", r"a\u202eb"), ("a\x00b", r"a\x00b"), ("a\ud800b", r"a\ud800b")]
)
def test_report_escapes_invisible_characters(name: str, seen: str, tmp_path: Path) -> None:
    html = report([make_result(make_job(model=name))])
    assert seen in Page(html).text
    assert name not in html
    html.encode()


def test_command_in_the_report_reproduces_the_job() -> None:
    changed = {
        "learning_rate": Setting(value=3e-5, source="--set"),
        "epochs": Setting(value=3.0, source="arXiv:1810.04805"),
    }
    job = replace(
        make_job(model="it's", data="my data", seed=4, limit=64, recipe="paper", overridden=True),
        settings=changed,
        weights="sha256:0123",
        checkpoint="/models/it's",
    )
    assert build_run(make_result(job)).command == (
        "bench run --model '/models/it'\"'\"'s' --suite glue --task rte --data 'my data' --seed 4 "
        "--precision fp32 --recipe paper --set learning_rate=3e-05 --limit 64"
    )


def test_command_in_the_report_has_the_test_option_if_the_run_predicted_test_rows() -> None:
    job = make_job(task="glue/mnli")
    assert "--test" not in build_run(make_result(job)).command
    own, followed = ("glue/mnli:test", "glue/ax:test")
    tested = replace(job, fingerprints={**job.fingerprints, own: "f"})
    assert build_run(make_result(tested)).command.endswith(" --test")
    beside = replace(job, fingerprints={**job.fingerprints, followed: "f"})
    assert "--test" not in build_run(make_result(beside)).command


def test_command_in_the_report_has_every_value_of_a_recipe_from_a_file() -> None:
    job = make_job(recipe="mine", own_recipe=True, settings={"learning_rate": 3e-5, "epochs": 2.0})
    command = build_run(make_result(job)).command
    assert command.endswith("--set learning_rate=3e-05 --set epochs=2.0")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (200, "3 min 20 s"), (7260, "2 h 1 min")],
)
def test_report_shows_durations_in_readable_units(seconds: float, text: str) -> None:
    section = build_run(make_result(cost=make_cost(seconds=seconds)))
    assert dict(section.cost)["wall time"] == text


def test_report_marks_the_best_score_of_a_column_and_ranks_rows(html: str) -> None:
    best = re.findall(r'<td class="number score best.*?>(\d+\.\d)<', html, re.DOTALL)
    assert len(best) == 1
    rows = re.findall(r'<span class="name">(.*?)</span>', html)
    assert rows == ["roberta-base", "bert-base", "minilm", "tiny", "distilbert-base"]


def test_report_legend_explains_the_column_score_only_if_there_is_one(
    html: str, runs: list[Result | Failure], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "The column “score” is GLUE-9" in html
    some = [run for run in runs if run.job.task in ("glue/mrpc", "glue/rte")]
    assert "The column “score”" not in report(some), "the page hides a column without scores"
    monkeypatch.setattr(Board, "has_score", False)  # as if the only task were a custom task
    page = report(runs)
    assert "The column “score”" not in page
    assert "<dt>score</dt>" not in page


def test_report_legend_cites_the_source_of_the_score_rule(html: str) -> None:
    assert f"score GLUE-9: {GLUE.rule.cite}" in Page(html).text


def test_report_shows_scores_of_runs_without_details() -> None:
    boards = build_boards(make_rows(values=[0.5, 0.6]), GLUE)
    page = Page(render_report(boards, [], WHEN))
    assert "median 55.0, mean 55.0 ± 7.1" in page.text
    assert "details" in {tag for tag, _ in page.elements}


def test_run_on_no_leaderboard_has_a_report_section() -> None:
    text = Page(render_report((), [make_result()], WHEN)).text
    assert "Runs that are on no leaderboard" in text
    assert "minilm on RTE" in text


def test_report_of_an_empty_store_shows_an_example_command() -> None:
    assert "bench run --model tiny" in Page(render_report((), [], WHEN)).text


def test_report_is_reproducible(runs: list[Result | Failure], html: str) -> None:
    assert report(runs) == html


def test_failed_write_keeps_the_previous_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_page(path, render_report((), [], WHEN))
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.soak
def test_report_of_hundreds_of_runs_takes_seconds_of_the_processor() -> None:
    many = [
        replace(
            run, job=replace(run.job, model=f"m{number}", weights=f"{run.job.weights} {number}")
        )
        for number in range(4)
        for run in make_runs()
    ]
    start = time.process_time()
    html = report(many)
    assert time.process_time() - start < 20
    parts = [html, *map(unpacked, re.findall(PACKED, html))]
    assert len(parts) > 1
    assert sum(part.count('class="run"') for part in parts) == len(many)


def test_report_scripts_and_styles_are_under_60_kb(html: str) -> None:
    parts = re.findall(r"<(script|style)>(.*?)</\1>", html, re.DOTALL)
    assert len(parts) == 10
    assert sum(len(text.encode()) for _, text in parts) < 60_000
