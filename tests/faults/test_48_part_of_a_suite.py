"""Tests of fault 48: the score of a suite needs every task; leaderboards list missing tasks."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchharness.cli.app import app
from benchharness.errors import DataError
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import SUITES
from tests.helpers.boards import SCORES, make_job
from tests.helpers.results import make_evaluation, make_failure, make_result


def _store(path: Path, tasks: tuple[str, ...]) -> None:
    with open_store(path) as store:
        for task in tasks:
            job = make_job(task=task)
            found = [
                make_evaluation(job, task, split, scores=_scores(task, split))
                for task, split in job.predicted_splits
            ]
            store.add_result(make_result(job, evaluations=tuple(found)))


def _scores(task: str, split: str) -> dict[str, float]:
    ending = split.removeprefix("dev")
    return {name + ending: value for name, value in SCORES[task].items()}


def _entry(path: Path) -> dict[str, object]:
    ended = CliRunner().invoke(app, ["leaderboard", "--json", "--db", str(path)])
    (board,) = json.loads(ended.output)
    (entry,) = board["entries"]
    return dict(entry)


ALL = tuple(SUITES["glue"].rule.cells)


def test_48_suite_with_all_tasks_has_a_score(tmp_path: Path) -> None:
    _store(tmp_path / "board.sqlite", ALL)
    entry = _entry(tmp_path / "board.sqlite")
    assert isinstance(entry["score"], float)
    assert (entry["rank"], entry["missing"]) == (1, [])


def test_48_tasks_without_files_are_skipped_and_listed_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(mini_folder() / "glue" / "CoLA", tmp_path / "sets" / "CoLA")
    words = ["run", "--model", "majority", "--suite", "glue", "--data", "sets", "--no-baselines"]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, DataError)
    assert "lacks files for 9 of the 10 tasks" in str(refused.exception)
    ended = CliRunner().invoke(app, [*words, "--skip-missing", "--db", "board.sqlite"])
    assert ended.exit_code == 0, ended.output
    entry = _entry(tmp_path / "board.sqlite")
    assert (entry["score"], entry["missing"]) == (None, [name for name in ALL if name != ALL[0]])


@pytest.mark.parametrize("missing", ALL)
def test_48_suite_with_a_missing_task_has_no_score_or_rank(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "board.sqlite"
    _store(path, tuple(task for task in ALL if task != missing))
    with open_store(path) as store:
        store.add_failure(make_failure(make_job(task=missing)))
    entry = _entry(path)
    assert (entry["score"], entry["rank"], entry["missing"]) == (None, None, [missing])
    shown = CliRunner().invoke(app, ["leaderboard", "--db", str(path)])
    assert "no GLUE-9 score: " in shown.output
