"""Custom data: detected, run on tiny, stored, and shown by processes without the rows."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

import benchharness as bh
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.custom_data.task import OwnData, own_task
from benchharness.heads import head_for
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.examples import PairExample
from benchharness.tasks.suites import TASKS
from benchharness.worker.job import run_job
from tests.helpers.fake_worker import make_job
from tests.helpers.fuzz.of_models import tables_as_they_were
from tests.helpers.hub_files import write_dataset_config
from tests.helpers.hub_server import serve_hub
from tests.helpers.own_files import GOOD, TWO, as_csv, labelled
from tests.helpers.plans import plan_job
from tests.helpers.stopped_jobs import EVERY_STEP, deterministic, outcome_of, start, wait_for_step

RUN = (
    "run",
    "--model",
    "tiny",
    "--seeds",
    "1",
    "--set",
    "epochs=1",
    "--device",
    "cpu",
    "--jobs",
    "1",
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Multi-label run from Python."""
    folder = tmp_path_factory.mktemp("own")
    path = GOOD["lists of labels"].write(folder)
    options = {"seeds": 1, "set": {"epochs": 1}, "device": "cpu", "jobs": 1}
    return bh.run("tiny", data_file=path, db=folder / "own.sqlite", **options)


def test_multi_label_model_and_its_baselines_are_scored(ran):
    assert not ran.failures
    assert "3 labels: comedy, crime, drama); micro F1" in ran.said[0]
    frame = ran.frame().set_index("model")
    assert set(frame.index) == {"tiny", "majority", "bag-of-words"}
    assert frame.loc["bag-of-words", "score"] > 0.6
    assert (frame["score"] == frame["micro_f1"]).all()
    found = bh.predictions(ran.keys[0], db=ran.db)
    assert len(found) == 12
    (board,) = ran.boards()
    assert board.board.title == "films"


@pytest.mark.soak
def test_leaderboard_and_report_do_not_need_the_custom_data_file(ran, tmp_path):
    asked = (
        ("leaderboard", "--suite", "films", "--json"),
        ("show", "films", "--json"),
        ("report", "--out", str(tmp_path / "x.html")),
    )
    code = (
        "from benchharness.cli.app import app\n"
        f"for words in {asked!r}:\n"
        f"    app([*words, '--db', {str(ran.db)!r}], standalone_mode=False)\n"
        "    print('---')"
    )
    command = [sys.executable, "-P", "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    boards, shown, *_ = ended.stdout.split("---\n")
    (board,) = json.loads(boards)
    assert board["entries"][0]["name"].startswith("tiny")
    assert json.loads(shown)["head"] == "pair"
    assert "films" in (tmp_path / "x.html").read_text()


def test_job_contains_its_task_definition(ran):
    with open_store(ran.db, create=False) as store:
        job = store.result(ran.keys[0]).job
    assert job.definition == TASKS[job.task].definition
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job
    assert own_task(OwnData.from_json(job.definition)).name == job.task
    # Jobs on other tasks have no definition, neither in their keys nor in their facts.
    other = make_job()
    assert other.definition is None
    assert replace(other, definition={"a": 1}).key == other.key


@pytest.mark.soak
def test_killed_job_on_custom_data_resumes_to_the_result_of_an_uninterrupted_job(tmp_path):
    found, values = find_own(str(GOOD["comma"].write(tmp_path))), {"epochs": "3", "batch_size": "8"}
    where = {"overrides": values, "limit": 48, "precision": "fp32"}
    job = plan_job("tiny", [found.task], found.data, **where)
    expected, snapshots = run_job(job), tmp_path / "snapshots"
    options = ("--snapshots", snapshots, "--checkpoint-every", EVERY_STEP)
    killed = start(job, tmp_path / "killed.json", *options)
    wait_for_step(snapshots, 3, killed)
    killed.kill()
    killed.wait()
    assert start(job, tmp_path / "again.json", *options).wait() == 0
    again = outcome_of(tmp_path / "again.json")
    assert deterministic(again) == deterministic(expected)
    assert again.provenance["resumed"]["times"] == 1


def test_finished_jobs_are_not_rerun_if_their_data_file_was_moved(ran, tmp_path):
    path = tmp_path / "elsewhere"
    path.mkdir()
    moved = GOOD["lists of labels"].write(path)
    options = {"seeds": 1, "set": {"epochs": 1}, "device": "cpu", "jobs": 1, "db": ran.db}
    again = bh.run("tiny", data_file=moved, **options)
    assert again.keys == ran.keys
    with open_store(ran.db, create=False) as store:
        assert all(len(store.attempts(key)) == 1 for key in ran.keys)


def test_command_line_plans_the_same_custom_data_jobs_as_the_python_api(bench, ran, tmp_path):
    path = GOOD["lists of labels"].write(tmp_path)
    ended = bench(*RUN, "--data-file", str(path), "--dry-run", "--json")
    assert ended.code == 0
    assert [job["key"] for job in json.loads(ended.out)["jobs"]] == list(ran.keys)
    assert ended.err.startswith("text multi-label classification: plot -> genres")
    assert "rows: 48 train, 12 dev; dev is 20%" in ended.err


def test_every_task_kind_can_be_planned_from_a_data_file(bench, tmp_path):
    for kind in ("class", "number", "tags", "spans", "choice"):
        (tmp_path / kind).mkdir()
        path = next(f for f in GOOD.values() if f.kind == kind).write(tmp_path / kind)
        ended = bench(*RUN, "--data-file", str(path), "--dry-run", "--test")
        assert ended.code == 0, ended.err
        assert "3 jobs (1 model x 1 task x 1 seed and 2 " in ended.out


def test_malformed_data_file_is_a_one_line_error_and_writes_nothing(bench, tmp_path):
    Path("ragged.csv").write_text(as_csv([["text", "label"], *TWO, ["one", "two", "three"]]))
    Path("stars.csv").write_text(as_csv([["review", "stars"], *labelled([1, 2, 3, 4, 5])]))
    for path, said in (
        ("ragged.csv", "ragged.csv line 62 has 3 fields"),
        ("stars.csv", "choose one"),
    ):
        ended = bench(*RUN, "--data-file", path)
        assert ended.code == 4
        assert said in ended.err
        assert len(ended.err.splitlines()) == 1
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data-file", "x.csv", "--hf", "a/b"], "--data-file and --hf cannot be combined"),
        (
            ["--data-file", "x.csv", "--task", "rte"],
            "cannot be combined with --task",
        ),
        (
            ["--data-file", "x.csv", "--data", "mini", "--suite", "glue"],
            "cannot be combined with --suite and --data",
        ),
        (
            ["--task", "rte", "--metric", "f1"],
            "--metric describes your own data: pass --data-file or --hf",
        ),
        (["--data-file", "nowhere.csv"], "does not exist"),
        (["--hf", "nonsense"], "--hf 'nonsense' is not the name of a data set"),
    ],
)
def test_conflicting_custom_data_options_are_an_error(bench, words, said):
    ended = bench(*RUN, *words)
    assert ended.code in (2, 4)
    assert said in ended.err


def test_write_task_option_writes_a_runnable_plugin(bench, tmp_path):
    path = GOOD["a number for two"].write(tmp_path)
    ended = bench("run", "--write-task", "--data-file", str(path))
    assert ended.code == 0, ended.err
    assert "-> similarity (0 to 4.9)" in ended.out
    text = Path("sts.py").read_text()
    assert len(text.splitlines()) < 25
    options = ("--data", path, "--dry-run", "--no-baselines", "--json")
    with tables_as_they_were():
        ended = bench(*RUN, "--plugin", "sts.py", "--task", "mine/sts", *options)
    (job,) = json.loads(ended.out)["jobs"]
    assert job["task"] == "mine/sts"
    again = bench("run", "--write-task", "--data-file", str(path))
    assert again.code == 2
    assert "sts.py exists already" in again.err


# Heads for several labels, and for large numbers.


def labels_task():
    columns = {"text": ("t",), "labels": ("l",)}
    own = OwnData(
        title="t", kind="labels", columns=columns, labels=("a", "b", "c"), metrics=("micro_f1",)
    )
    return own_task(own)


def test_multi_label_loss_equals_bce_with_logits():
    task = labels_task()
    head = head_for(task)
    examples = [
        PairExample(id="1", text_a="x", label=("a", "c")),
        PairExample(id="2", text_a="y", label=()),
    ]
    targets = torch.from_numpy(head.targets(None, examples, task))
    assert targets.tolist() == [[1, 0, 1], [0, 0, 0]]
    logits = torch.tensor([[2.0, -1.0, 0.5], [-3.0, 0.1, 0.0]])
    losses = head.loss(logits, targets)
    # The formula of torch's BCEWithLogitsLoss.
    wanted = functional.binary_cross_entropy_with_logits(logits, targets)
    assert losses.shape == (2,)
    assert losses.mean() == pytest.approx(wanted.item())
    found = head.decode(logits.numpy(), None, examples, task)
    assert [prediction.label for prediction in found] == [("a", "c"), ("b",)]
    assert found[0].scores == pytest.approx(torch.sigmoid(logits[0]).tolist())


def test_regression_targets_are_scaled_and_predictions_unscaled():
    columns = {"text": ("t",), "number": ("n",)}
    own = OwnData(
        title="t",
        kind="number",
        columns=columns,
        metrics=("pearson",),
        value_range=(1e5, 3e5),
        scale=(2e5, 5e4),
    )
    task = own_task(own)
    head = head_for(task)
    examples = [PairExample(id="1", text_a="x", label=250_000.0)]
    assert head.targets(None, examples, task).tolist() == [1.0]
    (found,) = head.decode(np.array([[1.0]], dtype=np.float32), None, examples, task)
    assert found.label == 250_000.0


def test_multi_label_predictions_score_equally_from_a_file_and_a_list(tmp_path):
    found = find_own(str(GOOD["lists of labels"].write(tmp_path)))
    examples = bh.load(found.task.name, "dev", found.data)
    lines = [f"{n}\t{', '.join(labels)}" for n, labels in enumerate(examples["label"])]
    (tmp_path / "answers.tsv").write_text("\n".join(["index\tprediction", *lines]) + "\n")
    assert bh.score(found.task.name, tmp_path / "answers.tsv", found.data)["micro_f1"] == 1
    assert bh.score(found.task.name, list(examples["label"]), found.data)["micro_f1"] == 1


# Data sets on the hub.


@pytest.mark.soak
def test_run_on_a_hub_data_set_records_the_commit_of_the_data_set(tmp_path):
    """Labels have the names of its ClassLabel; "main" is resolved once."""
    commit = "c" * 40
    rows = [{"sentence": text, "label": int(label == "pos")} for text, label in TWO]
    folder = tmp_path / "hub" / "datasets" / "org" / "reviews" / commit
    folder.mkdir(parents=True)
    splits = {"train": rows[:40], "validation": rows[40:]}
    write_dataset_config(folder, "default", splits, ("neg", "pos"))
    words = ["run", "--model", "majority", "--hf", "org/reviews", "--no-baselines", "--json"]
    with serve_hub(tmp_path / "hub") as hub:
        unset = ("HF_HUB_OFFLINE", "HF_DATASETS_CACHE", "HF_HUB_CACHE")
        kept = {name: value for name, value in os.environ.items() if name not in unset}
        environment = kept | {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "benchharness", *words]
        ended = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )
    assert ended.returncode == 0, ended.stderr
    assert "sentence -> label (2 classes: neg, pos)" in ended.stderr
    assert "rows: 40 train, 20 dev" in ended.stderr
    (found,) = bh.runs(tmp_path / "results" / "leaderboard.sqlite").to_dict("records")
    assert found["task"].endswith("/reviews")
    with open_store(tmp_path / "results" / "leaderboard.sqlite", create=False) as store:
        definition = store.result(found["key"]).job.definition
    assert (definition["hub"], definition["revision"]) == ("org/reviews", commit)


# Messages that are printed only once.


def test_leaderboard_of_a_single_task_has_no_column_for_the_suite_score(bench, tmp_path):
    rows = [[text if n % 9 else "", label] for n, (text, label) in enumerate(TWO)]
    (tmp_path / "gaps.csv").write_text(as_csv([["text", "label"], *rows]))
    words = ["run", "--model", "majority", "--no-baselines", "--seeds", "1", "--data-file"]
    ended = bench(*words, str(tmp_path / "gaps.csv"))
    assert ended.code == 0, ended.err
    both = ended.out + ended.err
    assert both.count("left out of train") == 1
    assert "examples that the benchmark leaves out" not in both
    (head,) = (line for line in ended.out.splitlines() if line.startswith("model"))
    assert head.split() == ["model", "gaps"]
    table = bench("export", "--suite", "gaps", "--format", "markdown").out
    assert "score" not in table


def test_file_without_a_header_is_accepted_by_command_line_and_python_api(bench, tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text(as_csv(TWO))
    refused = bench(*RUN, "--data-file", str(path), "--columns", "text=1,label=2", "--dry-run")
    assert refused.code == 4
    assert "--no-header" in refused.err
    seen = bench(*RUN, "--data-file", str(path), "--dry-run", "--json")
    assert "text classification: 1 -> 2 (2 classes: neg, pos)" in seen.err
    assert "bare.csv is a row instead of column names: it is read as with --no-header" in seen.err
    ended = bench(*RUN, "--data-file", str(path), "--no-header", "--dry-run", "--json")
    assert "text classification: 1 -> 2 (2 classes: neg, pos)" in ended.err
    assert bench("run", "--write-task", "--data-file", str(path), "--no-header").code == 0
    assert "no_header=True" in Path("bare.py").read_text()
    options = {"columns": {"text": "1", "label": "2"}, "no_header": True, "seeds": 1}
    found = bh.run("majority", data_file=path, db=tmp_path / "bare.sqlite", **options)
    assert found.said[0].startswith("text classification: 1 -> 2")
