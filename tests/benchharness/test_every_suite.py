"""Tests of `bench run --suite seeds`: every task of every suite in one command."""

import json
from functools import partial
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import TASKS, find_suites
from tests.helpers.doc_blocks import DOCS

SEEDS = ("run", "--model", "tiny", "--suite", "seeds", "--seed", "1", "--db", "board.sqlite")
SHORT = (
    *("--limit", "12", "--set", "epochs=1", "--set", "evaluations=1"),
    *("--precision", "fp32", "--no-baselines"),
)
SEEDS_SUITES = {suite.name: suite for suite in find_suites("seeds")}
SEEDS_TASKS = {name: TASKS[name] for suite in SEEDS_SUITES.values() for name in suite.tasks}
TRAINED = {name for name, task in SEEDS_TASKS.items() if task.has_train}


FROM_OVERLAP = {
    "glue/mrpc", "glue/stsb", "glue/mnli", "glue/rte", "superglue/rte", "superglue/boolq",
    "snli/snli", "sst/sst5-phrases",
}  # fmt: skip
"""Tasks on which the bag of words scores above the tiny encoder, as docs/tasks.md states."""


class OneProcess:
    """An engine that runs jobs in this process, because two dozen processes take too long."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def run(self, jobs, report):
        from benchharness.worker.job import run_job

        for job in jobs:
            yield run_job(job, partial(report, job))


def planned(ended):
    """Return the tasks of the planned jobs, by model."""
    assert ended.code == 0, ended.err
    tasks = {}
    for job in json.loads(ended.out)["jobs"]:
        tasks.setdefault(job["model"], []).append(job["task"])
    return tasks


@pytest.mark.parametrize("source", ["mini", str(mini_folder())], ids=["mini", "files"])
def test_suite_seeds_plans_every_task_for_every_model_and_baseline(source, bench):
    found = planned(bench(*SEEDS, "--data", source, "--dry-run", "--json"))
    assert "tiny" in found
    assert all(sorted(tasks) == sorted(TRAINED) for tasks in found.values())


@pytest.mark.slow
@pytest.mark.soak
def test_suite_seeds_runs_every_task_and_fills_the_report(bench, monkeypatch):
    monkeypatch.setattr("benchharness.engines.local.LocalEngine", OneProcess)
    ended = bench(*SEEDS, *SHORT, "--data", "mini", "--json")
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    assert (summary["missing"], summary["failed"]) == (0, [])

    with open_store("board.sqlite", create=False) as store:
        rows = store.runs()
    scores = {task: found for row in rows for task, found in row.scores.items()}
    assert (len(rows), set(scores)) == (
        len(TRAINED),
        {n for n, task in SEEDS_TASKS.items() if task.is_trained},
    )
    for name, found in scores.items():
        assert {metric.name for metric in TASKS[name].metrics} <= set(found)

    boards = json.loads(bench("leaderboard", "--db", "board.sqlite", "--json").out)
    assert {board["suite"] for board in boards} == set(SEEDS_SUITES)
    assert all(entry["score"] is not None for board in boards for entry in board["entries"])
    page = Path(summary["report"]).read_text(encoding="utf-8")
    assert all(suite.title in page for suite in SEEDS_SUITES.values())

    again = bench(*SEEDS, *SHORT, "--data", mini_folder())
    assert "stored already: there is nothing to run" in again.out, "both sources give the same jobs"


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_tiny_encoder_learns_from_mini_data(bench):
    """No run collapses, and only the listed tasks score below the bag of words."""
    ended = bench(*SEEDS, "--data", "mini", "--json")
    assert ended.code == 0, ended.err
    boards = json.loads(bench("leaderboard", "--db", "board.sqlite", "--json").out)
    medians, collapsed = {}, set()
    for entry in (entry for board in boards for entry in board["entries"]):
        for task in entry["tasks"].keys() & TRAINED:
            medians[entry["model"], task] = entry["tasks"][task]["median"]
            if entry["tasks"][task]["collapsed"]:
                collapsed.add(task)
    below = {t for t in TRAINED if medians["tiny", t] <= medians["bag-of-words", t]}
    assert (collapsed, below - FROM_OVERLAP) == (set(), set())
    page = (DOCS / "tasks.md").read_text(encoding="utf-8")
    assert all(TASKS[task].title in page for task in FROM_OVERLAP)
