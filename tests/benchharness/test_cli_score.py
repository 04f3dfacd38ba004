import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from benchharness.tasks import parse_data
from benchharness.tasks.read import read
from benchharness.tasks.suites import TASKS
from benchharness.tasks.task import score
from tests.helpers.prediction_files import guess, write
from tests.helpers.squad_oracle import evaluate_v1, evaluate_v2

MINI = parse_data("mini")


@pytest.fixture
def made(bench, tmp_path):
    """Writes random predictions of a task's split; gives the file, the guesses and the examples."""

    def make(name, split="dev", seed=0):
        rows = read(TASKS[name], split, MINI)
        draw = random.Random(f"{seed} {split}")
        guesses = [guess(TASKS[name], example, draw) for example in rows.examples]
        folder = tmp_path / split
        folder.mkdir(exist_ok=True)
        return write(TASKS[name], guesses, rows.examples, folder), guesses, rows.examples

    return make


def call(bench, *words):
    ended = bench("score", *words, "--data", "mini", "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.dev_splits])
def test_the_scores_are_the_tasks_own(name, bench, made):
    path, guesses, examples = made(name)
    found = call(bench, path, "--task", name)
    assert found["splits"]["dev"]["scores"] == dict(score(TASKS[name], "dev", guesses, examples))
    assert found["splits"]["dev"]["predictions"] == len(examples)
    assert found["stored"] is None


@pytest.mark.parametrize("name", ["glue/ax", "superglue/axb", "superglue/axg"])
def test_a_diagnostic_is_scored_on_its_test_rows(name, bench, made):
    path, guesses, examples = made(name, "test")
    found = call(bench, path, "--task", name)
    assert found["splits"]["test"]["scores"] == dict(score(TASKS[name], "test", guesses, examples))


def test_both_dev_splits_of_mnli(bench, made):
    files = [made("glue/mnli", split)[0] for split in ("dev", "dev_mm")]
    found = call(bench, *files, "--task", "mnli")
    assert list(found["splits"]) == ["dev", "dev_mm"]
    assert "accuracy_mm" in found["splits"]["dev_mm"]["scores"]
    (other,) = call(bench, files[1], "--task", "mnli", "--split", "dev_mm")["splits"].values()
    assert other == found["splits"]["dev_mm"]


def plain(examples):
    return [{"id": e.id, "answers": [text for text, _ in e.answers]} for e in examples]


def test_squad_1_is_scored_as_the_script_does(bench, made):
    for seed in range(10):
        path, guesses, examples = made("squad/v1.1", seed=seed)
        found = call(bench, path, "--task", "squad/v1.1")["splits"]["dev"]
        answers = {p.id: p.text for p in guesses}
        assert found["official"] == evaluate_v1(plain(examples), answers)


@pytest.mark.parametrize("threshold", [None, 1.0, 0.25, -2.0])
def test_squad_2_is_scored_as_the_script_does(threshold, bench, made, tmp_path):
    for seed in range(5):
        path, guesses, examples = made("squad/v2.0", seed=seed)
        answers = {p.id: p.text for p in guesses}
        scores, options = None, ()
        if threshold is not None:
            draw = random.Random(seed)
            scores = {p.id: draw.choice([draw.uniform(-4, 4), 0.25, 1.0]) for p in guesses}
            (tmp_path / "na.json").write_text(json.dumps(scores))
            options = ("--na-prob", "na.json", "--na-prob-threshold", threshold)
        found = call(bench, path, "--task", "squad/v2.0", *options)["splits"]["dev"]
        expected = evaluate_v2(
            plain(examples), answers, scores, 1.0 if threshold is None else threshold
        )
        assert found["official"] == expected
        assert found["scores"]["f1"] == pytest.approx(expected["f1"] / 100, abs=1e-12)
        assert found["scores"]["em"] == pytest.approx(expected["exact"] / 100, abs=1e-12)


@pytest.mark.skipif("BENCH_TEST_DATA" not in os.environ, reason="BENCH_TEST_DATA is not set")
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_the_official_files_are_scored_as_the_scripts_do(version, bench, tmp_path):
    task, folder = TASKS[f"squad/{version}"], os.environ["BENCH_TEST_DATA"]
    examples = read(task, "dev", parse_data(folder)).examples
    draw = random.Random(version)
    answers = {
        e.id: draw.choice([*(text for text, _ in e.answers), *e.context.split()[:3], ""])
        for e in examples
    }
    (tmp_path / "predictions.json").write_text(json.dumps(answers))
    ended = bench("score", "predictions.json", "--task", task.name, "--data", folder, "--json")
    assert ended.code == 0, ended.err
    if version == "v1.1":
        expected = evaluate_v1(plain(examples), answers)
    else:
        expected = evaluate_v2(plain(examples), answers, None, 1.0)
    assert json.loads(ended.out)["splits"]["dev"]["official"] == expected


def test_the_text_says_what_was_scored(bench, made):
    path, _, examples = made("squad/v1.1")
    ended = bench("score", path, "--task", "squad/v1.1", "--data", "mini")
    first, *lines = ended.out.splitlines()
    assert first == f"SQuAD 1.1 dev (mini), {len(examples)} predictions"
    assert lines[0].split()[0] == "em"
    assert "as the official script prints them, in percent:" in lines
    assert lines[-1].split()[0] == "f1"


def test_what_was_read_leniently_is_on_stderr(bench, made):
    path, _, _ = made("glue/rte")
    path.write_text(path.read_text().replace("prediction", "predictions"))
    ended = bench("score", path, "--task", "glue/rte", "--data", "mini")
    assert ended.code == 0
    assert ended.err.startswith("bench: RTE.tsv line 1: the header is 'index\\tpredictions'")


def test_one_answer_throughout_is_flagged(bench, made):
    path, _, examples = made("glue/rte")
    rows = "".join(f"{e.id}\tentailment\n" for e in examples)
    path.write_text(f"index\tprediction\n{rows}")
    found = call(bench, path, "--task", "glue/rte")
    assert found["splits"]["dev"]["flags"] == ["constant predictions"]


# storing


STORE = ("--store", "--model", "theirs", "--db", "board.sqlite")
LAYOUTS = (
    *("glue/cola", "glue/stsb", "glue/rte", "superglue/boolq", "superglue/copa", "snli/snli"),
    *("superglue/multirc", "superglue/record", "squad/v1.1", "squad/v2.0", "race/all"),
    *("swag/regular", "conll2003/ner"),
)
"""A task for every way in which predictions are written."""


@pytest.mark.parametrize("name", LAYOUTS)
def test_predictions_of_every_layout_can_be_stored(name, bench, made):
    path, _, examples = made(name)
    found = call(bench, path, "--task", name, *STORE)
    with open_store("board.sqlite") as store:
        (evaluation,) = store.result(found["stored"]).evaluations
    assert dict(evaluation.scores) == found["splits"]["dev"]["scores"]
    assert len(evaluation.predictions) == len(examples)


def test_stored_scores_stand_on_the_board_as_scored_here(bench, made):
    for name in ("glue/cola", "glue/rte"):
        call(bench, made(name)[0], "--task", name, *STORE)
    files = [made("glue/mnli", split)[0] for split in ("dev", "dev_mm")]
    call(bench, *files, "--task", "glue/mnli", *STORE)
    (board,) = json.loads(bench("leaderboard", "--db", "board.sqlite", "--json").out)
    (entry,) = board["entries"]
    assert (entry["model"], entry["recipe"]) == ("theirs", "scored here")
    assert set(entry["tasks"]) == {"glue/cola", "glue/rte", "glue/mnli"}


def test_the_same_answers_are_the_same_job(bench, made):
    path, _, _ = made("glue/rte")
    first = call(bench, path, "--task", "glue/rte", *STORE)["stored"]
    moved = path.with_name("moved.tsv")
    moved.write_bytes(path.read_bytes())
    assert call(bench, moved, "--task", "glue/rte", *STORE)["stored"] == first
    other, _, _ = made("glue/rte", seed=1)
    assert call(bench, other, "--task", "glue/rte", *STORE)["stored"] != first
    with open_store("board.sqlite") as store:
        assert len(store.runs()) == 2


def test_a_stored_score_has_its_predictions_and_no_training(bench, made):
    path, guesses, _ = made("glue/rte")
    key = call(bench, path, "--task", "glue/rte", *STORE)["stored"]
    with open_store("board.sqlite") as store:
        result = store.result(key)
    assert [row["label"] for row in result.evaluations[0].predictions] == [p.label for p in guesses]
    assert (result.cost.steps, result.curve) == (0, ())
    assert not any(name.endswith(":train") for name in result.job.fingerprints)


def test_the_report_shows_how_it_was_scored(bench, made):
    path, _, _ = made("squad/v2.0")
    ids = [e.id for e in read(TASKS["squad/v2.0"], "dev", MINI).examples]
    Path("na.json").write_text(json.dumps(dict.fromkeys(ids, -1.0)))
    options = ("--na-prob", "na.json", "--na-prob-threshold", "0.5")
    call(bench, path, "--task", "squad/v2.0", *options, *STORE)
    assert bench("report", "--db", "board.sqlite", "--out", "page.html").code == 0
    page = Path("page.html").read_text()
    assert "scored here" in page
    assert "--task squad/v2.0 --data mini --split dev --na-prob na.json" in page
    assert "--na-prob-threshold 0.5 --store --model theirs" in page
    assert "training speed" not in page


# refusals


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--task", "glue/rte", "--store"), 2, "--store and --model NAME belong together"),
        (("--task", "glue/rte", "--model", "x"), 2, "--store and --model NAME belong together"),
        (("--task", "glue/rtee"), 2, "Did you mean 'glue/rte'?"),
        (("--task", "glue/rte", "--split", "eval"), 2, "has no split 'eval'"),
        (("--task", "glue/rte", "--split", "test"), 2, "hides its labels"),
        (("--task", "glue/cola"), 4, "cannot be scored"),
        (("--task", "glue/rte", "--split", "dev", "--split", "test"), 2, "do not pair with"),
        (("--task", "glue/rte", "--na-prob", "x"), 4, "only SQuAD"),
    ],
)
def test_bad_input_is_one_sentence_and_its_exit_code(words, code, sentence, bench, made):
    path, _, _ = made("glue/rte")
    ended = bench("score", path, *words, "--data", "mini")
    assert ended.code == code, ended.err
    assert sentence in ended.err
    assert ended.err.count("\n") == 1


def test_more_files_than_splits_are_refused(bench, made):
    path, _, _ = made("glue/rte")
    ended = bench("score", path, path, "--task", "glue/rte", "--data", "mini")
    assert ended.code == 2
    assert "2 prediction files do not pair with the splits dev of glue/rte" in ended.err


def test_scoring_needs_no_torch(made):
    files = []
    for number, name in enumerate(LAYOUTS):
        path, _, _ = made(name)
        files.append((str(path.rename(path.with_name(f"{number}{path.suffix}"))), name))
    code = (
        "import sys\n"
        "from benchharness.cli.app import app\n"
        f"for path, task in {files!r}:\n"
        "    words = ['score', path, '--task', task, '--data', 'mini', '--json']\n"
        "    app(words, standalone_mode=False)\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    ended = subprocess.run((sys.executable, "-P", "-c", code), check=True, capture_output=True)
    assert ended.stdout.count(b'"splits"') == len(LAYOUTS)
