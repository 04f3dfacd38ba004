"""End-to-end tests of `bench` with real training of the tiny encoder on mini data.

Runs that are killed have a process of their own, others are called in this one.
"""

import json
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.helpers.bench_process import all_gone, start, wait_for_line, workers_of

SHORT = ("--limit", "32", "--set", "epochs=1", "--device", "cpu", "--jobs", "1", "--seeds", "1")
ALONE = (*SHORT, "--no-baselines")
TWO_TASKS = ("--model", "tiny", "--suite", "glue", "--task", "cola", "--task", "stsb")


def runs(bench):
    code, out, _ = bench("show", "runs", "--json")
    assert code == 0
    return json.loads(out)


def table(bench):
    """Return the leaderboard as data: scores and keys, nothing that depends on the clock."""
    return bench("leaderboard", "--json").out


@pytest.fixture(scope="module")
def kept():
    """Folder of the first test that needs a run, and the output of the run."""
    return []


@pytest.fixture
def finished(bench, kept, tmp_path, tmp_path_factory, monkeypatch):
    """Folder in which two tasks were run, and the output of the run."""
    if not kept:
        folder = tmp_path_factory.mktemp("finished")
        monkeypatch.chdir(folder)
        kept.extend((folder, bench("run", "--data", "mini", *ALONE, *TWO_TASKS)))
        monkeypatch.chdir(tmp_path)
    return kept


def test_bench_run_prints_the_leaderboard_and_writes_the_report(finished):
    folder, (code, out, err) = finished
    assert code == 0, err
    assert out.startswith("2 jobs (1 model x 2 tasks x 1 seed, data: mini)")
    assert "GLUE on mini data, at most 32 rows per split" in out
    assert "report: results/leaderboard.html. " in out
    assert "[2/2] tiny STS-B seed" in err or "[2/2] tiny CoLA seed" in err
    page = (folder / "results" / "leaderboard.html").read_text(encoding="utf-8")
    assert "tiny" in page
    assert "stsb" in page


def test_bench_run_stores_every_score(finished, bench, monkeypatch):
    monkeypatch.chdir(finished[0])
    rows = {row["task"]: row for row in runs(bench)}
    assert set(rows) == {"glue/cola", "glue/stsb"}
    for row in rows.values():
        assert (row["model"], row["suite"], row["data"], row["seed"]) == ("tiny", "glue", "mini", 1)
        assert row["status"] == "finished"
        assert len(row["key"]) == 64
        assert row["seconds"] > 0
    assert -1 <= rows["glue/cola"]["scores"]["glue/cola"]["mcc"] <= 1
    assert set(rows["glue/stsb"]["scores"]["glue/stsb"]) == {"pearson", "spearman"}


def test_repeated_command_skips_finished_jobs(finished, bench, monkeypatch):
    monkeypatch.chdir(finished[0])
    before = table(bench)
    code, out, err = bench("run", "--data", "mini", *ALONE, *TWO_TASKS)
    assert (code, err) == (0, "")
    assert "2 stored already: there is nothing to run." in out
    assert table(bench) == before


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_killed_and_resumed_run_gives_the_same_table(finished, bench, tmp_path, monkeypatch):
    folder, _ = finished
    process = start(tmp_path, "run", "--data", "mini", *ALONE, *TWO_TASKS)
    wait_for_line(process, "[1/2]")
    while not (workers := workers_of(process)):
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    assert all_gone(workers)
    assert len(runs(bench)) == 1
    code, out, err = bench("run", "--data", "mini", *ALONE, *TWO_TASKS)
    assert code == 0, err
    assert "2 of 2 jobs are finished, 1 of them" in out
    found = table(bench)
    monkeypatch.chdir(folder)
    assert found == table(bench)


def test_baselines_are_on_the_leaderboard_without_a_rank(bench):
    code, out, err = bench("run", "--model", "majority", "--task", "cola", "--data", "mini")
    assert code == 0, err
    assert out.startswith("2 jobs (2 baselines x 1 task, data: mini)")
    rows = json.loads(bench("show", "runs", "--json").out)
    assert {row["model"]: row["seed"] for row in rows} == {"majority": 0, "bag-of-words": 0}
    (board,) = json.loads(bench("leaderboard", "--json").out)
    entries = {entry["model"]: entry for entry in board["entries"]}
    assert {(entry["kind"], entry["rank"]) for entry in entries.values()} == {("baseline", None)}
    assert entries["majority"]["tasks"]["glue/cola"]["median"] == 0.0
    assert entries["bag-of-words"]["tasks"]["glue/cola"]["median"] > 0.0


def test_bench_run_stores_the_status_diverged_and_exits_with_1_if_training_diverges(bench):
    wild = ("--set", "learning_rate=1e30", "--set", "batch_size=4")
    code, out, err = bench("run", "--data", "mini", *ALONE, *TWO_TASKS[:6], *wild)
    assert code == 1
    (row,) = json.loads(bench("show", "runs", "--json").out)
    assert row["status"] == "diverged"
    assert row["error"] in err
    assert "0 of 1 job is finished, 1 failed." in out


def test_bench_run_exits_with_4_and_one_sentence_if_encoder_weights_are_missing(bench, tmp_path):
    checkpoint = tmp_path / "hollow"
    checkpoint.mkdir()
    config = {
        "model_type": "bert",
        "vocab_size": 5,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    (checkpoint / "config.json").write_text(json.dumps(config))
    (checkpoint / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    words = {"embeddings.word_embeddings.weight": np.zeros((5, 8), dtype=np.float32)}
    save_file(words, checkpoint / "model.safetensors")
    code, out, err = bench("run", "--data", "mini", *ALONE, "--model", "hollow", *TWO_TASKS[2:])
    assert code == 4, err
    assert err.count(" lacks ") == 1
    assert "hollow lacks 36 weights of its encoder" in err.splitlines()[-1]
    assert "0 of 2 jobs are finished, 1 failed." in out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--model", "tinny", "--suite", "glue"), 2, "'tinny'. Did you mean 'tiny'?"),
        (("--model", "tiny", "--suite", "gleu"), 2, "'gleu'. Did you mean 'glue'?"),
        (("--model", "tiny", "--task", "glue/colla"), 2, "Did you mean 'glue/cola'?"),
        (("--model", "tiny", "--suite", "glue", "--set", "epoks=1"), 2, "Did you mean 'epochs'?"),
        (
            ("--model", "tiny", "--suite", "glue", "--data", "nowhere"),
            4,
            "'nowhere' does not exist",
        ),
        (("--model", "tiny", "--task", "cola", "--data", "."), 4, "CoLA"),
        (("--model", ".", "--suite", "glue"), 4, "is not a checkpoint"),
        (("--model", "tiny", "--task", "cola", "--db", "."), 5, "is a folder"),
    ],
)
def test_bench_run_reports_invalid_input_in_one_sentence_with_an_exit_code(
    bench, tmp_path, words, code, sentence
):
    ended, out, err = bench("run", "--data", "mini", *ALONE, *words)
    assert ended == code
    assert sentence in err
    assert err.startswith("bench: ")
    assert err.count("\n") == 1 + ("lacks files" in err)  # followed by one line per task
    assert out == ""
    assert list(tmp_path.iterdir()) == []
