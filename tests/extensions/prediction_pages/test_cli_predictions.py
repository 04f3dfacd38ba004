"""Tests of `bench report predictions` and of `--predictions` in report and export."""

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from benchharness.leaderboard.store.store import open_store
from benchharness.splits import evaluate_split
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.compared_runs import made
from tests.helpers.results import make_job, make_result

DB = ("--db", "board.sqlite")
RTE = "index\tsentence1\tsentence2\tlabel\n"
WORDS = "a secret sentence of the folder"


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """Store two seeds of two models on RTE and CoLA of mini data."""
    path = tmp_path_factory.mktemp("board") / "board.sqlite"
    with open_store(path) as store:
        for seed in (0, 1):
            for task in ("glue/rte", "glue/cola"):
                store.add_result(made("good", task, seed, {seed, 5}))
                store.add_result(made("bad", task, seed, set(range(20))))
    return path


@pytest.fixture
def stored(bench, board):
    shutil.copy(board, "board.sqlite")
    return bench


@pytest.fixture
def folder(bench, tmp_path):
    """Store a run on a custom data folder in a home directory that pages must not name."""
    place = tmp_path / "home" / "anna" / "glue"
    (place / "RTE").mkdir(parents=True)
    lines = [f"{n}\t{WORDS} {n}\tit is {n}\tentailment" for n in range(4)]
    for split in ("train", "dev"):
        (place / "RTE" / f"{split}.tsv").write_text(RTE + "\n".join(lines) + "\n")
    rows = read(find_task("glue/rte"), "dev", parse_data(str(place)))
    digests = {f"glue/rte:{split}": rows.fingerprint for split in ("train", "dev")}
    job = make_job(model="mine", data=str(place), fingerprints=digests)
    guesses = [
        PairPrediction(id=e.id, label="entailment", scores=(0.9, 0.1)) for e in rows.examples
    ]
    result = make_result(job, evaluations=(evaluate_split("glue/rte:dev", rows, guesses),))
    with open_store("board.sqlite") as store:
        store.add_result(result)
    return place


def only_page(folder="predictions/board"):
    (page,) = Path(folder).glob("*.html")
    return page.read_text(encoding="utf-8")


def test_prediction_pages_are_in_a_folder_named_after_the_database(stored):
    shutil.copy("board.sqlite", "other.sqlite")
    for name in ("board", "other"):
        stored("report", "predictions", "good", "--task", "glue/rte", "--db", f"{name}.sqlite")
        assert only_page(f"predictions/{name}")


def test_report_predictions_writes_one_page_per_task_for_one_or_two_models(stored):
    ended = stored("report", "predictions", "good", *DB)
    assert (ended.code, ended.err) == (0, "")
    pages = [Path(line.removeprefix("predictions: ")) for line in ended.out.splitlines()]
    assert [page.name.split("-")[0] for page in pages] == ["cola", "rte"]
    assert "good <span" in pages[1].read_text()
    stored("report", "predictions", "good", "bad", "--task", "glue/rte", "--out", "two", *DB)
    page = only_page("two")
    assert "and bad" in page
    # Of the 20 rows that bad predicts wrongly, good predicts 17 correctly with both seeds, and two
    # with one seed.
    assert "Flips: 19 examples" in page


def test_prediction_pages_of_test_and_dev_are_different_files(bench):
    asked = ("--model", "majority", "--suite", "snli", "--data", "mini", "--limit", "8", "--test")
    assert bench("run", *asked, "--no-baselines", *DB).code == 0
    pages = [
        bench("report", "predictions", "majority", "--split", name, *DB).out
        for name in ("dev", "test")
    ]
    dev, test = (Path(out.strip().removeprefix("predictions: ")) for out in pages)
    assert test == dev.with_stem(f"{dev.stem}-test")
    assert dev.is_file()


def test_changed_data_are_a_warning_and_the_page_has_no_example_texts(bench, folder):
    assert bench("report", "predictions", "mine", *DB).err == ""
    assert f"{WORDS} 2" in only_page()
    file = folder / "RTE" / "dev.tsv"
    file.write_text(file.read_text().replace("it is 3", "it was 3"))
    ended = bench("report", "predictions", "mine", *DB)
    assert ended.code == 0
    found = re.fullmatch(
        r"bench: a page has no texts, because (RTE dev in glue#\w{6} has changed since these runs "
        r"read it \(the digest differs\)\.)\n",
        ended.err,
    )
    page = only_page()
    assert found
    assert found[1] in page
    assert "anna" not in page
    assert WORDS not in page
    assert "example-4" in page


def test_missing_data_are_a_warning_without_the_local_path(bench, folder):
    shutil.rmtree(folder / "RTE")
    ended = bench("report", "predictions", "mine", *DB)
    assert (ended.code, ended.err.count("\n")) == (0, 1)
    assert "RTE dev could not be read: the data folder glue#" in ended.err
    assert "anna" not in ended.err
    assert "could not be read" in only_page()


def test_option_no_texts_omits_example_texts_and_is_noted_on_the_page(bench, folder):
    bench("report", "predictions", "mine", "--no-texts", *DB)
    page = only_page()
    assert "--no-texts" in page
    assert WORDS not in page
    assert "entailment" in page


def test_report_links_to_a_prediction_page_for_every_score(stored):
    ended = stored("report", "--predictions", "--out", "out/page.html", *DB)
    assert (ended.code, ended.err) == (0, "")
    folder = Path("out/page-predictions")
    names = sorted(page.name for page in folder.iterdir())
    assert len(names) == 4
    board = Path("out/page.html").read_text()
    for name in names:
        assert f'href="page-predictions/{name}"' in board
        assert 'href="../page.html"' in (folder / name).read_text()
    # If the report is written for fewer entries, outdated pages are deleted, but no other files.
    (folder / "mine.html").write_text("<html>my notes</html>")
    with open_store("part.sqlite") as store:
        store.add_result(made("good", "glue/rte", 0, set()))
    stored("report", "--predictions", "--no-texts", "--out", "out/page.html", "--db", "part.sqlite")
    left = sorted(page.name for page in folder.iterdir())
    assert len(left) == 2
    assert "mine.html" in left
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["report", "predictions", "nobody"], "no leaderboard has results of nobody"),
        (
            ["report", "predictions", "good", "--out", "/proc/none/x"],
            "could not be written to /proc/none/x",
        ),
        (
            ["report", "predictions", "good", "--out", "file"],
            "could not be written to file: it is a file",
        ),
        (["report", "--predictions", "--out", "/proc/none/x.html"], "could not be written"),
        (["report", "--no-texts"], "Add --predictions"),
        (["export", "--no-texts"], "Add --predictions"),
        (["export", "--format", "jsonl"], "Add --predictions"),
        (["export", "--predictions", "--format", "latex"], "but not as latex"),
        (["export", "--predictions", "--format", "parquet"], "Use --out FILE"),
        (["export", "--predictions", "--all", "x.jsonl.gz"], "--all writes the whole database"),
        (["export", "--predictions", "--out", "/proc/none/x"], "could not be written"),
    ],
)
def test_prediction_page_that_cannot_be_written_is_reported_in_one_sentence(
    stored, words, sentence
):
    Path("file").write_text("here")
    ended = stored(*words, *DB)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert Path("file").read_text() == "here"


def test_predictions_are_exported_to_stdout_and_to_files(stored):
    ended = stored("export", "--predictions", "--task", "glue/rte", "--model", "good", *DB)
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    examples = read(find_task("glue/rte"), "dev", parse_data("mini")).examples
    assert len(rows) == 2 * len(examples)
    assert {(row["task"], row["split"], row["model"]) for row in rows} == {
        ("glue/rte", "dev", "good")
    }
    first = [row for row in rows if row["seed"] == "0"]
    assert [row["gold"] for row in first] == [example.label for example in examples]
    wrong = [n for n, row in enumerate(first) if row["gold"] != row["predicted"]]
    assert wrong == [0, 5] == [n for n, row in enumerate(first) if row["right"] == "False"]
    words = ("export", "--predictions", "--format", "parquet", "--out", "all.parquet")
    ended = stored(*words, *DB)
    found = pd.read_parquet("all.parquet")
    assert ended.out == f"export: all.parquet, {len(found)} predictions\n"
    assert sum((found["task"] == "glue/rte") & (found["model"] == "good")) == len(rows)


def test_predictions_on_unreadable_data_are_exported_without_gold_answers(bench, folder):
    shutil.rmtree(folder / "RTE")
    ended = bench("export", "--predictions", "--format", "jsonl", *DB)
    assert (ended.code, ended.err.count("\n")) == (0, 1)
    assert "RTE dev could not be read" in ended.err
    rows = list(map(json.loads, ended.out.splitlines()))
    assert len(rows) == 4
    assert {(row["gold"], row["right"], row["predicted"]) for row in rows} == {
        (None, None, "entailment")
    }


def test_prediction_page_distinguishes_two_recipes_of_one_model(bench):
    with open_store("board.sqlite") as store:
        for rate in (1e-5, 2e-5):
            run = made("m", "glue/rte", 0, {1})
            setting = replace(run.job.settings["learning_rate"], value=rate)
            settings = {**run.job.settings, "learning_rate": setting}
            recipe = "fast" if rate == 1e-5 else "paper"
            job = replace(run.job, settings=settings, recipe=recipe)
            store.add_result(replace(run, job=job))
    assert bench("report", "predictions", "m:fast", "m:paper", *DB).code == 0
    page = only_page()
    assert "m, fast <span" in page
    assert "compared with m</span>" in page
