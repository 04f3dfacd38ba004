"""Tests that shared files (report, exports, model cards) contain no local path or user name."""

import getpass
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import benchharness as bh
from benchharness.errors import DataError, ForeignCodeError
from benchharness.extensions.curves import figures
from benchharness.extensions.custom_data.metrics import Script
from benchharness.extensions.custom_data.task import OwnData, define
from benchharness.leaderboard import sharing
from benchharness.leaderboard.job import Setting, Start
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.sharing import path_label, shared_job, without_paths
from benchharness.leaderboard.store.store import open_store
from benchharness.stored import predictions
from benchharness.tasks.foreign_code import Code
from benchharness.tasks.suites import find_task
from tests.helpers.boards import SCORES
from tests.helpers.results import make_evaluation, make_job, make_result

DB = ("--db", "board.sqlite")
USER = "annabella-q"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Create a home directory with data and a checkpoint; one folder name has a space."""
    folder = tmp_path / "home" / USER
    (folder / "glue data").mkdir(parents=True)
    (folder / "my-bert").mkdir()
    for cached in (sharing._home, sharing._users):
        cached.cache_clear()
    for name, value in {"HOME": folder, "USER": USER, "LOGNAME": USER}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    yield folder
    monkeypatch.undo()
    for cached in (sharing._home, sharing._users):
        cached.cache_clear()


def runs(home):
    """Return runs on custom data: finished, failed and scored from files."""
    data, checkpoint = str(home / "glue data"), str(home / "my-bert")
    facts = {"data": data, "checkpoint": checkpoint, "model": "my-bert", "precision": "fp32"}
    rte = make_job(task="glue/rte", recipe="paper", **facts)
    for task in SCORES:
        job = make_job(task=task, recipe="paper", **facts)
        source = f"{home}/recipes/mine.toml: learning_rate"
        job = replace(
            job,
            settings={**job.settings, "learning_rate": Setting(value=3e-5, source=source)},
            start=Start(kind="checkpoint", name=f"{home}/other-bert", model="bert"),
        )
        evaluations = [
            make_evaluation(
                job, t, s, scores={n + s.removeprefix("dev"): v for n, v in SCORES[t].items()}
            )
            for t, s in job.predicted_splits
        ]
        told = {"machine": {"cache": [f"{home}/.cache"], "note": f"file://{home}/x"}}
        yield replace(make_result(job), evaluations=tuple(evaluations), provenance=told)
    trace = (
        f'Traceback:\n  File "{home}/lib/torch/nn.py", line 3\nat ~{USER}/x and {data}/RTE/dev.tsv'
    )
    failed = replace(job, task="glue/rte", seed=9, fingerprints=rte.fingerprints)
    yield Failure.of(failed, "failed", f"{data}/RTE/dev.tsv is not UTF-8.", trace)
    job = make_job(
        task="glue/rte", seed=0, recipe="scored here", kind="scored", **facts | {"model": "theirs"}
    )
    settings = {"predictions": Setting(value="sha256:0", source=f"../home/{USER}/p/rte.tsv")}
    yield make_result(replace(job, settings=settings, weights="scored"))


@pytest.fixture
def stored(home):
    with open_store("board.sqlite") as store:
        for run in runs(home):
            add = store.add_failure if isinstance(run, Failure) else store.add_result
            add(run)
    return home


def shared(bench, *more):
    """Return every kind of shared file, by name."""
    found = {}
    for form in ("csv", "json", "markdown", "latex"):
        ended = bench("export", "--format", form, *DB, *more)
        assert ended.code == 0, ended.err
        found[form] = ended.out
    for form in ("model-index", "eval-results"):
        ended = bench("export", "--format", form, "--model", "my-bert", *DB, *more)
        assert ended.code == 0, ended.err
        found[form] = ended.out
    for intervals in ("--intervals", "--no-intervals"):
        ended = bench("report", "--out", "page.html", intervals, *DB, *more)
        assert ended.code == 0, ended.err
        found[f"page {intervals}"] = Path("page.html").read_text(encoding="utf-8")
    return found


def test_shared_files_contain_no_home_directory_data_folder_or_user_name(bench, stored):
    secrets = (USER, str(stored), str(stored.parent), str(stored / "glue data"), getpass.getuser())
    for name, text in shared(bench).items():
        assert len(text) > 100
        for secret in secrets:
            if secret != "root":
                assert secret not in text, (
                    name,
                    secret,
                    text[max(0, text.find(secret) - 90) :][:200],
                )
    page = Path("page.html").read_text(encoding="utf-8")
    label = path_label(str(stored / "glue data"))
    assert label.startswith("glue data#")
    assert f"files in {label}" in page
    assert f"{label}/RTE/dev.tsv is not UTF-8." in page
    assert path_label(str(stored / "my-bert")) in page
    assert "mine.toml#" in page
    lines = json.loads(bench("export", "--format", "json", *DB).out)
    assert {line["data"] for line in lines} == {label}


def test_option_show_paths_keeps_local_paths(bench, stored):
    found = shared(bench, "--show-paths")
    for name in ("csv", "json", "page --intervals"):
        assert str(stored / "glue data") in found[name]
    assert str(stored / "my-bert") in found["page --no-intervals"]


def test_report_has_the_run_keys_that_are_in_the_database(bench, stored):
    """Redaction does not change the key of a job."""
    with open_store("board.sqlite") as store:
        keys = [row.key for row in store.runs() if row.status == "finished"]
    bench("report", "--out", "page.html", *DB)
    page = Path("page.html").read_text(encoding="utf-8")
    assert all(f'id="run-{key[:16]}"' in page for key in keys)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see /srv/x/y.tsv.", "see y.tsv#e8ef14."),
        ("https://huggingface.co/a/b glue/rte and/or 3/4 // /", "same"),
        ("./a/b ../a MNLI-m/mm", "same"),
        ("{a} </s> {b} <b>x</b> [INST] {a} [/INST]", "same"),
    ],
)
def test_redaction_replaces_only_local_paths(text, shown):
    found = without_paths(text)
    if shown == "same":
        assert found == text
    else:
        assert found == f"see {path_label('/srv/x/y.tsv')}."
    assert os.sep + "srv" not in found


@pytest.mark.parametrize("home", ["/home/me", "/home/you", "/home/m e", "/"])
def test_redacted_path_has_the_same_label_for_every_home_directory(home, monkeypatch):
    monkeypatch.setattr(sharing, "_home", lambda: home)
    for path in ("/home/me/mine.toml", "/home/me/a/b.tsv", "/srv/glue"):
        label = path_label(path)
        assert without_paths(f"{path}: rate, file://{path}.") == f"{label}: rate, file://{label}."


@pytest.mark.parametrize("home", ["/home/annabella-q", "/home/annabella q"])
def test_home_directory_is_redacted_anywhere_in_a_text(home, monkeypatch):
    monkeypatch.setattr(sharing, "_home", lambda: home)
    monkeypatch.setattr(sharing, "_users", lambda: (Path(home).name,))
    for text in (home, f"in {home}.", f"-I{home}/x", f"{home}/a/b.tsv", f"~/x and '{home}'"):
        assert "annabella" not in without_paths(text)
    assert "mine.toml#" in without_paths(f"evaluate:{home}/mine.toml")


def test_error_messages_about_metrics_and_curves_have_no_local_path(bench, stored, monkeypatch):
    """Change the metric script after the run, so that commands print an error with its path."""
    said = f"evaluate:{stored}/my scripts/m.py has changed"

    def changed(*_, **__):
        raise ForeignCodeError(f"the metric {said}.")

    finished = [run for run in runs(stored) if isinstance(run, Result) and run.job.kind == "model"]
    with open_store("board.sqlite") as store:  # a second leaderboard entry, for comparisons
        facts = {"model": "another", "weights": "others"}
        store.add_results(replace(run, job=replace(run.job, **facts)) for run in finished)
    place = f"{stored}/my scripts/m.py"
    monkeypatch.setattr(predictions, "predicted_split", changed)
    monkeypatch.setattr(predictions, "code_of", lambda _: [Code(place, "")])
    monkeypatch.setattr(figures, "curves_of", changed)
    bench("report", "--out", "page.html", "--intervals", *DB)
    page = Path("page.html").read_text(encoding="utf-8")
    assert f"cover only seeds: the metric evaluate:{path_label(place)} has changed" in page
    found = bh.compare("my-bert", "another", db="board.sqlite").to_csv()
    assert path_label(place) in found
    assert USER not in found
    assert "has no plot of checkpoints of one pretraining run: the metric evaluate:my#" in page
    assert USER not in page
    bench("report", "--out", "page.html", "--intervals", *DB, "--show-paths")
    assert said in Path("page.html").read_text(encoding="utf-8")


def scored_by(word):
    columns = {"text": ("text",), "label": ("label",)}
    scripts = {word: Script("5" * 64, 1.0)}
    own = OwnData(title="reviews", kind="class", columns=columns, metrics=(word,), scripts=scripts)
    return replace(own, labels=("bad", "good"))


@pytest.mark.parametrize("is_first", [True, False])
def test_custom_task_keeps_its_name_if_the_path_of_its_script_is_redacted(is_first, tmp_path):
    """Read the full and the redacted definition in either order; the full one has the scripts."""
    own = scored_by(f"evaluate:{tmp_path}/my metrics/mine.py,score=mine")
    job = make_job(task=own.name, definition=own.to_json())
    shared = shared_job(job)
    assert str(tmp_path) not in str(shared.definition)
    assert "evaluate:mine.py#" in str(shared.definition)
    assert (shared.key, shared.task) == (job.key, job.task)
    assert shared_job(shared) == shared
    told = [shared.definition, job.definition]
    names = {
        (task.name, task.metrics[0].name) for task in map(define, told if is_first else told[::-1])
    }
    assert names == {(own.name, "mine")}
    assert find_task(own.name).definition == job.definition


def test_custom_task_with_an_invalid_script_digest_is_reported_as_damaged():
    plain = scored_by("evaluate:mine.py").to_json()
    for digits in ("../../x", 5, "abcde"):
        with pytest.raises(DataError, match="is damaged"):
            OwnData.from_json({**plain, "digits": digits})
