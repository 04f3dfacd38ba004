"""Tests of the comparison of MiniLM's runs on official data with its published scores."""

import html
import json
import shlex
from pathlib import Path

import pytest

from benchharness.cli.commands import commands
from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import make_evaluation, make_job, make_result

SEEDS = (-0.004, -0.002, 0.0, 0.002, 0.004)
SCORES = {
    "glue/cola": {"mcc": 0.471},
    "glue/sst2": {"accuracy": 0.917},
    "glue/mrpc": {"accuracy": 0.860, "f1": 0.901},
    "glue/stsb": {"pearson": 0.885, "spearman": 0.883},
    "glue/qqp": {"accuracy": 0.905, "f1": 0.871},
    "glue/mnli": {"accuracy": 0.832},
    "glue/qnli": {"accuracy": 0.861},
    "glue/rte": {"accuracy": 0.731},
}
"""Median score of five seeds per task: QNLI is below the score in MiniLM's README, RTE above."""

THEIRS = {"cola": 47.5, "sst2": 91.5, "mnli": 83.3, "qnli": 90.5, "rte": 68.8}


def stored(name, weights):
    with open_store("board.sqlite") as store:
        for task, middle in SCORES.items():
            for seed, shift in enumerate(SEEDS, start=1):
                job = make_job(
                    model=name, task=task, seed=seed, data="hub", weights=weights, recipe="paper"
                )
                scores = {metric: value + shift for metric, value in middle.items()}
                evaluations = [
                    make_evaluation(job, task, split, scores=_named(scores, split))
                    for _, split in job.predicted_splits
                ]
                store.add_result(make_result(job, evaluations=tuple(evaluations)))


def _named(scores, split):
    ending = split.partition("_")[2]
    return {f"{name}_{ending}" if ending else name: value for name, value in scores.items()}


@pytest.fixture
def minilm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored("minilm", "hub:nreimers/MiniLM-L6-H384-uncased@3276f0fac9d818781d7a1327b3ff818fc4e643c0")


def test_leaderboard_json_has_measured_and_published_scores_with_a_verdict(bench, minilm):
    (board,) = json.loads(bench("leaderboard", "--db", "board.sqlite", "--json").out)
    (entry,) = board["entries"]
    found = {each["task"].removeprefix("glue/"): each for each in entry["reproduction"]}
    for task, theirs in THEIRS.items():
        each = found[task]
        assert each["theirs"] == theirs
        assert each["ours"] == pytest.approx(entry["tasks"][f"glue/{task}"]["median"] * 100)
        assert each["difference"] == pytest.approx(each["ours"] - theirs)
    verdicts = {task: each["verdict"] for task, each in found.items()}
    assert verdicts == {
        "cola": "within noise",
        "sst2": "within noise",
        "mrpc": "not comparable",
        "qqp": "not comparable",
        "mnli": "within noise",
        "qnli": "below",
        "rte": "above",
    }
    assert "whether it is accuracy or f1" in found["mrpc"]["reason"]
    assert found["rte"]["system"] == "MiniLM-L6-H384"


def test_leaderboard_prints_the_published_score_comparison_per_task(bench, minilm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    ended = bench("leaderboard", "--db", "board.sqlite")
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert any(line.startswith("minilm CoLA mcc 47.1 47.5 -0.4 ±") for line in lines)
    assert any(line.startswith("QNLI accuracy 86.1 90.5 -4.4 ±1.") for line in lines)
    assert any(line.endswith("below") for line in lines)


def test_report_compares_with_published_scores_below_the_table_and_in_run_details(bench, minilm):
    assert bench("report", "--db", "board.sqlite", "--out", "page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.count("Reproduction of published scores") == 1
    below = page.partition("Reproduction of published scores")[2].partition("</table>")[0]
    assert below.count(">within noise</b>") == 3
    assert (below.count(">below</b>"), below.count(">above</b>")) == (1, 1)
    assert below.count(">not comparable</b>") == 2
    assert "whether it is accuracy or f1" in below
    assert "microsoft/unilm minilm/README.md" in below
    assert "<b>below" in page.partition("</table>")[2]


def test_model_without_published_scores_has_no_reproduction_table(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored("my-own", "sha256:" + "0" * 64)
    ended = bench("leaderboard", "--db", "board.sqlite")
    assert "reproduction" not in ended.out
    assert bench("report", "--db", "board.sqlite", "--out", "page.html").code == 0
    assert "Reproduction of published scores" not in Path("page.html").read_text(encoding="utf-8")


def test_scores_below_or_above_published_ones_are_shown_with_a_command_that_explains_them(
    bench, minilm, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (board,) = json.loads(bench("leaderboard", "--db", "board.sqlite", "--json").out)
    found = board["entries"][0]["reproduction"]
    told = {each["task"]: each for each in found if each["explain"]}
    assert {each["verdict"] for each in told.values()} == {"below", "above"}
    assert not {"below", "above"} & {each["verdict"] for each in found if not each["explain"]}
    assert bench("report", "--db", "board.sqlite", "--out", "page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    for each in told.values():
        assert html.escape(each["explain"], quote=True).replace("&#x27;", "&#39;") in page
        words = shlex.split(each["explain"])[1:]
        if words[0] not in commands():
            continue
        ended = bench(*words, "--db", "board.sqlite", "--json")
        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["gap"] * 100 == pytest.approx(-each["difference"])
