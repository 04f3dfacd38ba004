"""Tests that anomalies of a released data set are printed, stored and shown with a score."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchharness.extensions.retrieval.files import AGAIN, NO_DOCUMENT
from benchharness.tasks.sources.files import mini_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a data set with ArguAna's anomaly and a duplicated judgement."""
    found = Path(shutil.copytree(mini_folder() / "beir" / "mini", tmp_path / "mine"))
    with (found / "qrels" / "test.tsv").open("a") as file:
        file.write("test190a\tabsent\t1\ntest190a\tabsent\t1\n")
    return found


def test_data_set_anomalies_are_printed_stored_and_noted_by_bench_score(
    bench: Any, folder: Path
) -> None:
    task = ("--task", "retrieval/folder", "--data", str(folder))
    ran = bench("run", "--model", "bag-of-words", *task, "--no-baselines", "--db", "b.sqlite")
    assert ran.code == 0, ran.err
    place = "1 in retrieval/folder:test"
    assert f"{NO_DOCUMENT}: {place}." in ran.err
    assert f"{AGAIN}: {place}." in ran.err
    (run,) = json.loads(bench("show", "runs", "--db", "b.sqlite", "--json").out)
    shown = json.loads(bench("show", run["key"], "--db", "b.sqlite", "--json").out)
    split = shown["provenance"]["data"]["retrieval/folder:test"]
    assert split["odd"] == {NO_DOCUMENT: 1, AGAIN: 1}
    words = ("submit", "--model", "bag-of-words", "--suite", "retrieval", "--db", "b.sqlite")
    written = bench(*words, "--out", "sent")
    assert written.code == 0, written.err
    scored = bench("score", "sent/folder/run.trec", *task, "--json", "--split", "test")
    assert scored.code == 0, scored.err
    (found,) = json.loads(scored.out)["splits"].values()
    assert found["scores"] == shown["evaluations"]["retrieval/folder:test"]["scores"]
    assert found["notes"] == [f"{NO_DOCUMENT}: {place}.", f"{AGAIN}: {place}."]


def test_data_set_with_inconsistent_files_is_an_error_without_a_traceback(
    bench: Any, folder: Path
) -> None:
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nnobody\td1\t1\n")
    ended = bench(
        "run", "--model", "bag-of-words", "--task", "retrieval/folder", "--data", str(folder)
    )
    assert ended.code == 4
    assert "get all files from the same data set" in ended.err
    assert "Traceback" not in ended.err
