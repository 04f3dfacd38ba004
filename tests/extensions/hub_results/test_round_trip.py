"""Files of benchharness on the hub are read back, and exported again with the same bytes."""

import json
import random
from dataclasses import replace

import pytest
import yaml

from benchharness.errors import BenchError, DataError
from benchharness.extensions.exports.cards import (
    RESULTS_FILE,
    hub_tasks,
    model_card_data,
    to_eval_results,
    to_model_index,
)
from benchharness.extensions.hub_results.benchmarks import known_tasks, to_eval_yaml
from benchharness.extensions.hub_results.records import imported_content, to_results
from benchharness.extensions.hub_results.repository import Repository
from benchharness.extensions.hub_results.scores import read_scores
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.result import measures_of
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.suites import SUITES, TASKS
from tests.helpers.boards import make_job, make_row

HUB_SUITES = ("glue", "superglue", "squad", "race", "swag", "xtreme")


def drawn_board(name, draw, without=("xtreme/tydiqa",)):
    """Return the board of a model with random scores, some of them 0 or 1, and three seeds."""
    suite, rows = SUITES[name], []
    for task in [task for task in suite.rule.cells if task not in without]:
        metrics = {metric.name: metric for metric in TASKS[task].metrics}
        for seed in range(3):
            scores = {}
            for score, measure in measures_of(task).items():
                if measure.split in TASKS[task].dev_splits and measure.metric in metrics:
                    low, high = metrics[measure.metric].bounds
                    scores[score] = draw.choice((low, high, 0.0, draw.uniform(low, high)))
            fields = {"task": task, "seed": seed, "scores": scores, "data": "hub"}
            finished = f"2026-0{draw.randrange(1, 10)}-02T12:00:00Z"
            rows.append(make_row(f"model {draw.random()}"[:7], finished=finished, **fields))
    (board,) = build_boards(rows, suite)
    return board


def pushed(*files, commit="a" * 40, date="2026-03-04T05:06:07Z"):
    """Return the repository of a model to which `bench export --push` has written these texts."""
    names = {True: "README.md", False: RESULTS_FILE}
    texts = {
        names["model-index" in text]: f"---\n{text}---\n" if "model-index" in text else text
        for text in files
    }
    url = "https://hub.example/me"
    return Repository(name="me/mine", commit=commit, date=date, url=url, files=texts)


def add(store, found):
    return store.add_results(to_results(found, read_scores(found)))


def card_of(content):
    return f"{model_card_data(**content)}\n"


@pytest.mark.parametrize("seed", range(20))
def test_imported_results_are_exported_with_the_same_bytes(tmp_path, seed):
    draw = random.Random(seed)
    board = drawn_board(HUB_SUITES[seed % len(HUB_SUITES)], draw)
    results, index = to_eval_results([board]), to_model_index([board])
    with open_store(tmp_path / "new.sqlite") as store:
        assert add(store, pushed(results, index)) > 0
        assert imported_content(store, "me/mine", "eval-results") == (results, 0)
        assert card_of(imported_content(store, "me/mine", "model-index")[0]) == index


@pytest.mark.parametrize("name", HUB_SUITES)
def test_imported_scores_equal_the_exported_ones(name):
    board = drawn_board(name, random.Random(name))
    entries = yaml.safe_load(to_eval_results([board]))
    found = read_scores(pushed(to_eval_results([board]))).scores
    assert [100 * each.value for each in found] == pytest.approx([e["value"] for e in entries])
    assert not any(each.flag for each in found)
    index = read_scores(pushed(to_model_index([board]))).scores
    medians = {(each.task, each.split, each.metric): each.value for each in index}
    assert len(medians) == len(index) >= len(found)
    for each in found:
        if "and" not in each.metric:
            assert each.value == pytest.approx(medians[each.task, each.split, each.metric])


def test_scores_per_language_that_a_card_cannot_distinguish_are_left_out():
    """TyDi QA has all languages in one split on the hub, and a model-index has no language."""
    board = drawn_board("xtreme", random.Random(0), without=())
    results, index = (pushed(text) for text in (to_eval_results([board]), to_model_index([board])))
    languages = {each.split for each in read_scores(results).scores if "tydiqa" in each.task}
    assert len(languages) == 9
    assert not [each for each in read_scores(index).scores if "tydiqa" in each.task]
    assert read_scores(index).others == {"google-research-datasets/tydiqa": 20}


@pytest.mark.parametrize("name", HUB_SUITES)
def test_each_exported_entry_is_on_a_task_of_its_eval_yaml(name):
    board = drawn_board(name, random.Random(name), without=())
    entries = yaml.safe_load(to_eval_results([board]))
    expected = [each for task in board.tasks for each in hub_tasks(TASKS[task], board.rule)]
    assert len(entries) == len(expected)
    for entry, each in zip(entries, expected, strict=True):
        benchmark = yaml.safe_load(to_eval_yaml(entry["dataset"]["id"]))
        (task,) = [t for t in benchmark["tasks"] if t["id"] == entry["dataset"]["task_id"]]
        # The value was measured on the split that eval.yaml names, and with its metrics.
        assert task["split"] == TASKS[each.task].source.split(each.split).hub
        assert f"{' and '.join(each.metrics)} on {each.split}, " in entry["notes"]
        assert known_tasks().of_id[each.dataset, each.id].split == each.split


def test_value_of_mnli_is_that_of_one_split():
    rows = [
        make_row(task="glue/mnli", seed=n, data="hub", scores={"accuracy": a, "accuracy_mm": b})
        for n, (a, b) in enumerate(((0.5, 0.9), (0.6, 0.7), (0.7, 0.8)))
    ]
    (board,) = build_boards(rows, SUITES["glue"])
    entries = yaml.safe_load(to_eval_results([board]))
    values = {each["dataset"]["task_id"]: each["value"] for each in entries}
    assert values == {"mnli": 60.0, "mnli_mm": 80.0}


def test_import_of_a_newer_commit_replaces_the_rows(tmp_path):
    old, new = (to_eval_results([drawn_board("glue", random.Random(number))]) for number in (1, 2))
    with open_store(tmp_path / "new.sqlite") as store:
        assert add(store, pushed(old)) == add(store, pushed(new, commit="b" * 40)) == 10
        rows = store.runs(model="me/mine")
        assert len(rows) == 10
        assert {row.source.rpartition("/")[0] for row in rows} == {
            "https://hub.example/me/.eval_results"
        }
        assert imported_content(store, "me/mine", "eval-results") == (new, 0)
        assert add(store, pushed(new, commit="b" * 40)) == 0


def test_rows_from_an_archive_of_the_database_are_exported_with_the_same_bytes(bench, tmp_path):
    text = to_eval_results([drawn_board("glue", random.Random(3))])
    db, other, archive = (tmp_path / name for name in ("a.sqlite", "b.sqlite", "c.jsonl.gz"))
    with open_store(db) as store:
        add(store, pushed(text))
    assert bench("export", "--all", archive, "--db", db).code == 0
    assert bench("db", "import", archive, "--db", other).code == 0
    words = ("export", "--imported", "--model", "me/mine", "--format", "eval-results")
    ended = bench(*words, "--db", other)
    assert (ended.code, ended.out, ended.err) == (0, text, "")


def test_renamed_repository_is_exported_by_its_new_name(bench, tmp_path):
    text, db = to_eval_results([drawn_board("race", random.Random(6))]), tmp_path / "a.sqlite"
    with open_store(db) as store:
        add(store, pushed(text))
    assert bench("db", "rename", "me/mine", "theirs", "--db", db).code == 0
    words = ("export", "--imported", "--model", "theirs", "--format", "eval-results")
    assert bench(*words, "--db", db).out == text


def test_incomplete_or_changed_rows_are_not_exported(tmp_path):
    text = to_eval_results([drawn_board("glue", random.Random(4))])
    with open_store(tmp_path / "new.sqlite") as store:
        with pytest.raises(BenchError, match=r"no eval-results of me/mine was imported"):
            imported_content(store, "me/mine", "eval-results")
        add(store, pushed(text))
        with pytest.raises(BenchError, match=r"no model-index of me/mine was imported"):
            imported_content(store, "me/mine", "model-index")
        store.delete([store.runs(model="me/mine")[0].key])
        with pytest.raises(DataError, match="some imported rows of me/mine are missing"):
            imported_content(store, "me/mine", "eval-results")
    (result, *_) = to_results(pushed(text), read_scores(pushed(text)))
    for change in ({"more": 1}, {"fields": {"more": 1}, "count": 1}):
        hub = {**result.provenance["hub"], **change}
        with open_store(tmp_path / f"{len(change)}.sqlite") as store:
            store.add_result(replace(result, provenance={"hub": hub}))
            with pytest.raises(DataError, match="imported rows of me/mine are damaged"):
                imported_content(store, "me/mine", "eval-results")


def test_imported_rows_do_not_change_the_ranking_or_the_export(bench, tmp_path):
    text = to_eval_results([drawn_board("glue", random.Random(5))])
    db = tmp_path / "both.sqlite"
    words = ("leaderboard", "--suite", "glue", "--db", db, "--json")
    with open_store(db) as store:
        from tests.helpers.results import make_result

        store.add_result(make_result(make_job(model="ours", data="hub")))
    (before,) = json.loads(bench(*words).out)
    table = bench("export", "--db", db).out
    with open_store(db) as store:
        add(store, pushed(text))
    (after,) = json.loads(bench(*words).out)
    assert after["entries"] == before["entries"]
    assert [row["system"] for row in after["imported"]] == ["me/mine"]
    assert bench("export", "--db", db).out == table
