import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import BenchError
from benchharness.extensions.submission.answer_file import Labels
from benchharness.extensions.submission.files import SUBMISSIONS
from benchharness.extensions.submission.inspection import check
from benchharness.extensions.submission.write import choose_runs
from benchharness.leaderboard.result import Evaluation, to_row
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.examples import ChoicePrediction, PairPrediction, Prediction, SpanPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import Data
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import SUITES, find_task
from benchharness.tasks.task import PairTask
from tests.helpers.boards import make_row
from tests.helpers.prediction_files import guess
from tests.helpers.results import make_job, make_result
from tests.helpers.small_submissions import clean, members, shrink, shrink_all, zipped

GLUE = SUITES["glue"]
CALL = ("submit", "--model", "minilm", "--suite", "glue", "--db", "board.sqlite")


@pytest.fixture
def small(monkeypatch):
    """Shrink every file of GLUE's submission to six rows."""
    shrunk = {name: shrink(submission) for name, submission in SUBMISSIONS.items()}
    monkeypatch.setattr("benchharness.extensions.submission.write.SUBMISSIONS", shrunk)
    shrink_all(monkeypatch)


def predicted(task: str, rows: int, seed: int) -> list[Prediction]:
    spec = find_task(task)
    assert isinstance(spec, PairTask)
    draw = random.Random(f"{task} {seed}")
    labels: Sequence[str | float] = spec.labels or (0.5, 2.25, 7.0)
    return [PairPrediction(id=str(i), label=draw.choice(labels)) for i in range(rows)]


def store_run(
    task: str,
    *,
    seed: int = 1,
    rows: int = 6,
    scores: dict[str, float] | None = None,
    splits: Sequence[str] = (),
    predictions: Sequence[Prediction] = (),
    **fields: object,
) -> str:
    """Store a run with predictions of the task's test splits; return its key."""
    names = [f"{task}:{split}" for split in splits or find_task(task).test_splits]
    names += ["glue/ax:test"] if task == "glue/mnli" and not splits else []
    job = make_job(task=task, seed=seed, **{"data": "hub", **fields})
    job = replace(job, fingerprints={**job.fingerprints, **dict.fromkeys(names, "f" * 64)})
    dev = Evaluation(task=task, split="dev", fingerprint="d", scores=scores or {}, predictions=())
    found = [] if "dev" in splits else [dev]
    for name in names:
        owner, split = name.rsplit(":", 1)
        given = predictions or predicted(owner, rows, seed)
        found.append(
            Evaluation(
                task=owner,
                split=split,
                fingerprint="f" * 64,
                scores={},
                predictions=as_rows(given),
            )
        )
    with open_store("board.sqlite") as store:
        store.add_result(make_result(job, evaluations=tuple(found)))
    return job.key


def store_glue(**fields: object) -> dict[str, str]:
    return {task: store_run(task, **fields) for task in GLUE.rule.cells}


# Writing submissions.


def test_glue_submission_passes_the_submission_check(bench, small):
    keys = store_glue()
    ended = bench(*CALL, "--json")
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    assert summary["out"] == "glue-minilm.zip"
    runs = {file["file"]: file["run"] for file in summary["files"]}
    assert runs["CoLA.tsv"] == keys["glue/cola"]
    assert {runs[name] for name in ("MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv")} == {keys["glue/mnli"]}
    assert check(Path("glue-minilm.zip")) == ()


def test_each_submission_file_has_predictions_in_the_servers_format(bench, small):
    store_glue(seed=3)
    bench(*CALL, "--out", "out.zip")
    found = members(Path("out.zip"))
    for file in SUBMISSIONS["glue"].files:
        lines = found[file.name].decode().splitlines()[1:]
        for line, prediction in zip(lines, predicted(file.task, 6, 3), strict=True):
            index, answer = line.split("\t")
            assert index == prediction.id
            if isinstance(file.answers, Labels):
                assert answer == file.answers.written[prediction.label]
            else:
                assert answer == f"{min(prediction.label, 5):.3f}"


def test_submit_command_prints_the_run_of_each_file(bench, small):
    keys = store_glue()
    ended = bench(*CALL)
    lines = ended.out.splitlines()
    assert lines[0] == f"CoLA.tsv: run {keys['glue/cola'][:12]}, minilm, bert, seed 1"
    assert lines[-1] == "written: glue-minilm.zip"


def test_run_with_the_best_dev_score_is_submitted_unless_a_seed_is_given(bench, small):
    store_glue(seed=1)
    best = store_run("glue/cola", seed=2, scores={"mcc": 0.6})
    other = store_run("glue/cola", seed=3, scores={"mcc": 0.5})
    assert f"CoLA.tsv: run {best[:12]}" in bench(*CALL).out
    ended = bench(*CALL, "--seed", "3", "--fill")
    assert f"CoLA.tsv: run {other[:12]}" in ended.out
    assert "RTE.tsv: this task was not run" in ended.out
    assert "AX.tsv: no run of MNLI has predicted it, so all answers are the same" in ended.out


def test_submission_with_a_missing_task_is_an_error_unless_filled(bench, small):
    store_run("glue/rte")
    ended = bench(*CALL)
    assert ended.code == 2
    assert "the test split of glue/cola, glue/sst2" in ended.err
    assert "glue/rte" not in ended.err
    assert bench(*CALL, "--fill").code == 0
    assert members(Path("glue-minilm.zip"))["MNLI-m.tsv"].count(b"neutral") == 6
    assert check(Path("glue-minilm.zip")) == ()


def test_submitting_runs_without_test_predictions_is_an_error(bench, small):
    with open_store("board.sqlite") as store:
        store.add_result(make_result(make_job(task="glue/rte", data="hub")))
    ended = bench(*CALL, "--fill")
    assert ended.code == 2
    assert "run `bench run --test` on the official data" in ended.err


def test_submission_with_a_wrong_number_of_predictions_is_an_error(bench, small):
    store_run("glue/rte", rows=5)
    ended = bench(*CALL, "--fill")
    assert ended.code == 2
    assert "it has 5 answers, expected 6" in ended.err
    assert not Path("glue-minilm.zip").exists()


def test_submit_command_accepts_a_model_alias(bench, small):
    store_run("glue/rte", model="roberta-base")
    call = ("submit", "--model", "roberta", "--suite", "glue", "--db", "board.sqlite", "--fill")
    assert bench(*call).code == 0
    assert Path("glue-roberta.zip").exists()


def test_submitting_to_a_suite_with_public_labels_is_an_error(bench):
    store_run("snli/snli")
    ended = bench("submit", "--model", "minilm", "--suite", "snli", "--db", "board.sqlite")
    assert ended.code == 2
    assert "there is no submission for snli" in ended.err


@pytest.mark.parametrize(("word", "suite"), [("--fill", "squad"), ("--threshold=-1", "glue")])
def test_submit_option_of_another_suite_is_an_error(bench, word, suite):
    store_run("glue/cola")
    ended = bench("submit", "--model", "minilm", "--suite", suite, word, "--db", "board.sqlite")
    name = word.partition("=")[0]
    assert ended.code == 2
    assert f"{name} works for" in ended.err
    assert f"not for {suite}: remove it." in ended.err


def test_unwritable_submission_path_is_an_error(bench, small):
    store_run("glue/rte")
    ended = bench(*CALL, "--fill", "--out", "nowhere/out.zip")
    assert ended.code == 2
    assert ended.err.startswith("bench: the submission nowhere/out.zip")


def as_rows(predictions: Sequence[Prediction]) -> tuple[dict[str, Any], ...]:
    return tuple(map(to_row, predictions))


@pytest.fixture
def superglue(monkeypatch, bench):
    """Stored runs of every SuperGLUE task on the embedded files, read from a folder."""
    data, files = Data(source="files", folder=mini_folder()), []
    with open_store("board.sqlite") as store:
        for file in SUBMISSIONS["superglue"].files:
            task = find_task(file.task)
            rows = read(task, "test", data)
            files.append(replace(file, rows=len(rows.examples), paragraphs=None, questions=None))
            draw = random.Random(0)
            guesses = [guess(task, example, draw) for example in rows.examples]
            leader = task.trained_on or task.name
            fingerprints = {f"{task.name}:test": rows.fingerprint}
            job = make_job(task=leader, data=str(data), fingerprints=fingerprints)
            tested = Evaluation(
                task=task.name,
                split="test",
                fingerprint=rows.fingerprint,
                scores={},
                predictions=as_rows(guesses),
            )
            if task.trained_on is None:
                store.add_result(make_result(job, evaluations=(tested,)))
    shrunk = {"superglue": replace(SUBMISSIONS["superglue"], files=tuple(files))}
    monkeypatch.setattr("benchharness.extensions.submission.write.SUBMISSIONS", shrunk)
    monkeypatch.setattr("benchharness.extensions.submission.inspection.SUBMISSIONS", shrunk)
    return shrunk["superglue"]


SUPER = ("submit", "--model", "minilm", "--suite", "superglue", "--db", "board.sqlite")


def test_superglue_submission_passes_the_submission_check(bench, superglue):
    assert "superglue/axb, superglue/axg" in bench(*SUPER).err
    ended = bench(*SUPER, "--fill")
    assert ended.code == 0, ended.err
    assert check(Path("superglue-minilm.zip")) == ()
    found = members(Path("superglue-minilm.zip"))
    assert list(found) == [file.name for file in superglue.files]
    first = json.loads(found["ReCoRD.jsonl"].splitlines()[0])
    example = read(
        find_task("superglue/record"), "test", Data(source="files", folder=mini_folder())
    )
    assert first["label"] in example.examples[0].options


def test_predictions_for_changed_rows_are_not_submitted(bench, superglue, monkeypatch):
    monkeypatch.setattr(
        "benchharness.splits.read",
        lambda *arguments: replace(read(*arguments), fingerprint="0" * 64),
    )
    ended = bench(*SUPER, "--fill")
    assert ended.code == 4
    assert "superglue/record test" in ended.err
    assert "has changed since run" in ended.err


def test_squad_submission_applies_the_no_answer_threshold(bench):
    spans = [
        SpanPrediction(id="a", text="Rome", no_answer_score=1.0),
        SpanPrediction(id="b", text="Oslo", no_answer_score=-2.0),
    ]
    for task in ("squad/v1.1", "squad/v2.0"):
        store_run(task, splits=("dev",), predictions=spans)
    call = ("submit", "--model", "minilm", "--suite", "squad", "--db", "board.sqlite")
    assert bench(*call).code == 0
    folder = Path("squad-minilm")
    assert json.loads((folder / "v1.1" / "predictions.json").read_text()) == {
        "a": "Rome",
        "b": "Oslo",
    }
    assert json.loads((folder / "v2.0" / "predictions.json").read_text()) == {"a": "", "b": "Oslo"}
    assert json.loads((folder / "v2.0" / "na_prob.json").read_text()) == {"a": 1.0, "b": -2.0}
    assert not (folder / "v1.1" / "na_prob.json").exists()
    bench(*call, "--threshold", "-3")
    assert json.loads((folder / "v2.0" / "predictions.json").read_text()) == {"a": "", "b": ""}


def test_race_submission_is_a_table_of_ids_and_letters(bench, monkeypatch):
    monkeypatch.setattr("benchharness.extensions.submission.table.QUESTIONS", 2)
    choices = [ChoicePrediction(id=f"high{i}/0", option=i) for i in range(2)]
    store_run("race/all", predictions=choices)
    call = ("submit", "--model", "minilm", "--suite", "race", "--db", "board.sqlite")
    assert bench(*call).out.endswith("written: race-minilm.tsv\n")
    assert Path("race-minilm.tsv").read_text() == "id\tanswer\nhigh0/0\tA\nhigh1/0\tB\n"


READING = ("submit", "--model", "minilm", "--db", "board.sqlite", "--suite")


def test_quac_and_coqa_submissions_have_the_format_of_their_scripts(bench):
    classes = ("n", "m")
    turns = [
        SpanPrediction(id="C_1_q#0", text="Rome", no_answer_score=-1.0, classes=classes),
        SpanPrediction(id="C_1_q#1", text="Oslo", no_answer_score=2.0, classes=classes),
    ]
    store_run("quac/quac", splits=("dev",), predictions=turns)
    assert bench(*READING, "quac").out.endswith("written: quac-minilm.jsonl\n")
    assert json.loads(Path("quac-minilm.jsonl").read_text()) == {
        "qid": ["C_1_q#0", "C_1_q#1"],
        "best_span_str": ["Rome", "CANNOTANSWER"],
        "yesno": ["n", "n"],
        "followup": ["m", "m"],
    }
    said = [SpanPrediction(id="a/b/2", text="yes")]
    store_run("coqa/coqa", splits=("dev",), predictions=said)
    assert bench(*READING, "coqa").code == 0
    rows = json.loads(Path("coqa-minilm.json").read_text())
    assert rows == [{"id": "a/b", "turn_id": 2, "answer": "yes"}]


def test_hotpotqa_submission_has_titles_of_supporting_facts(bench, monkeypatch):
    monkeypatch.setattr(
        "benchharness.splits.read",
        lambda *arguments: replace(read(*arguments), fingerprint="f" * 64),
    )
    rows = read(find_task("hotpotqa/distractor"), "dev", Data(source="mini")).examples
    facts = [SpanPrediction(id=row.id, text="Anna", facts=(0, 3)) for row in rows]
    files = {"splits": ("dev",), "data": str(mini_folder())}
    store_run("hotpotqa/distractor", predictions=facts, **files)
    ended = bench(*READING, "hotpotqa")
    assert ended.code == 0, ended.err
    found = json.loads(Path("hotpotqa-minilm.json").read_text())
    assert found["answer"] == {row.id: "Anna" for row in rows}
    lines = rows[0].context.split("\n")
    assert found["sp"][rows[0].id] == [[lines[1], 0], [lines[3], 1]]


# Selecting runs.


def able(task: str = "glue/rte", **fields: object):
    row = make_row(task=task, **{"data": "hub", **fields})
    return replace(row, fingerprints={**row.fingerprints, f"{task}:test": "f"})


WANTED = [("glue/rte", "test"), ("glue/cola", "test")]


@pytest.mark.parametrize("fields", [{"data": "mini"}, {"limit": 9}, {"status": "killed"}])
def test_runs_on_synthetic_or_limited_data_and_failed_runs_are_not_submitted(fields):
    with pytest.raises(BenchError, match="no stored run has the predictions to submit"):
        choose_runs([able(**fields)], WANTED, GLUE)


def test_runs_of_an_older_checkpoint_with_the_same_name_are_ignored():
    old = able(scores=0.9, weights="old", finished="2026-08-01T12:00:00Z")
    new = able(scores=0.5, weights="new", finished="2026-08-02T12:00:00Z")
    assert choose_runs([new, old], WANTED, GLUE) == {"glue/rte": new}


def test_newest_of_equally_good_runs_is_submitted():
    rows = [able(seed=n, finished=f"2026-08-0{n}T12:00:00Z") for n in (1, 3, 2)]
    assert choose_runs(rows, WANTED, GLUE)["glue/rte"].seed == 3


def test_run_with_more_predicted_splits_is_preferred_to_a_better_score():
    mnli = [("glue/mnli", "test"), ("glue/ax", "test")]
    part = able("glue/mnli", scores=0.9, seed=1)
    whole = able("glue/mnli", scores=0.8, seed=2)
    whole = replace(whole, fingerprints={**whole.fingerprints, "glue/ax:test": "f"})
    assert choose_runs([part, whole], mnli, GLUE)["glue/mnli"].seed == 2


# Checking and repairing submissions.


@pytest.fixture
def damaged(small, tmp_path):
    files = clean("glue")
    files["RTE.tsv"] = files["RTE.tsv"].replace(b"prediction", b"predictions")
    (tmp_path / "damaged.zip").write_bytes(zipped(files))
    return "damaged.zip"


def test_submit_check_lists_errors_and_exits_with_4(bench, damaged):
    ended = bench("submit", "--check", damaged)
    assert ended.code == 4
    assert ended.err == "bench: damaged.zip has 1 problem.\n"
    first, last, hint = ended.out.splitlines()
    assert first.startswith("RTE.tsv line 1: the header is")
    assert last == "damaged.zip: 1 problem"
    assert "can fix 1 of them" in hint


def test_submit_check_prints_json(bench, damaged):
    ended = bench("submit", "--check", damaged, "--json")
    assert (ended.code, ended.err) == (4, "bench: damaged.zip has 1 problem.\n")
    found = json.loads(ended.out)
    assert found["file"] == "damaged.zip"
    (fault,) = found["faults"]
    assert (fault["file"], fault["line"], fault["mendable"]) == ("RTE.tsv", 1, True)


def test_repair_writes_a_new_file_and_lists_repaired_errors(bench, damaged):
    ended = bench("submit", "--repair", damaged)
    assert ended.code == 0
    assert ended.out.startswith("repaired: RTE.tsv line 1: the header")
    assert ended.out.endswith("written: damaged-repaired.zip\n")
    assert members(Path("damaged-repaired.zip")) == clean("glue")
    again = bench("submit", "--check", "damaged-repaired.zip")
    assert (again.code, again.out) == (0, "damaged-repaired.zip: no problems\n")


def test_unrepairable_submission_exits_with_4_and_writes_nothing(bench, small):
    files = clean("glue")
    del files["AX.tsv"]
    Path("part.zip").write_bytes(zipped(files))
    ended = bench("submit", "--repair", "part.zip", "--out", "out.zip")
    assert ended.code == 4
    assert "part.zip: AX.tsv is missing" in ended.err
    assert not Path("out.zip").exists()


def test_list_of_many_submission_errors_is_shortened_in_text_but_not_in_json(bench, small):
    files = clean("glue")
    for rows, more in ((30, "12 problems"), (19, "1 problem")):
        lines = (b"%d\t7%d\n" % (i, i) for i in range(rows))
        files["CoLA.tsv"] = b"index\tprediction\n" + b"".join(lines)
        Path("many.zip").write_bytes(zipped(files))
        printed = bench("submit", "--check", "many.zip").out
        assert printed.count("CoLA.tsv line") + printed.count("CoLA.tsv: it has") == 20
        assert f"CoLA.tsv has {more} more than shown. Pass --json to list all." in printed
        faults = json.loads(bench("submit", "--check", "many.zip", "--json").out)["faults"]
        # One error for the number of answers, one per unknown label, and one for all surplus
        # indices.
        assert len(faults) == 1 + rows + 1


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--model", "tiny"),
        ("--suite", "glue"),
        ("--check", "a.zip", "--repair", "a.zip"),
        ("--model", "tiny", "--suite", "glue", "--check", "a.zip"),
    ],
)
def test_submit_command_needs_exactly_one_action(bench, words):
    ended = bench("submit", *words)
    assert ended.code == 2
    assert ended.err.startswith("bench: pass one of these: --model NAME")


def test_checking_a_missing_submission_exits_with_4(bench):
    ended = bench("submit", "--check", "nowhere.zip")
    assert ended.code == 4
    assert ended.err.startswith("bench: nowhere.zip cannot be read")
