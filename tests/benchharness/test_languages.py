"""Tests of XTREME jobs: one job scores all languages, which leaderboards and files list."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchharness.errors import BenchError
from benchharness.extensions.submission.write import FORMS, Wanted, gather
from benchharness.leaderboard.boards.board import build_boards, language_tables
from benchharness.leaderboard.boards.terminal import render_languages
from benchharness.leaderboard.report.write import render_report
from benchharness.models import find_model
from benchharness.recipes import resolve_recipe
from benchharness.tasks.examples import PairPrediction, TagPrediction
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import SUITES, find_task
from benchharness.worker.job import run_job
from tests.helpers.boards import row_of
from tests.helpers.mini_jobs import make_job

XTREME = SUITES["xtreme"]


@pytest.fixture(scope="module")
def answered():
    """Return the result of the job that predicts XQuAD and MLQA."""
    return run_job(make_job("xtreme/squad-en", limit=8, epochs="1", evaluations="1"))


def test_one_xtreme_job_scores_all_languages(answered):
    wanted = {"xtreme/squad-en:dev"} | {
        f"{name}:{split}"
        for name in ("xtreme/xquad", "xtreme/mlqa")
        for split in find_task(name).source.splits
    }
    assert {each.name for each in answered.evaluations} == wanted
    scores = {e.name: e.scores for e in answered.evaluations}
    assert set(scores["xtreme/mlqa:test_zh"]) == {"em_zh", "f1_zh"}
    assert set(scores["xtreme/mlqa:dev"]) == {"em", "f1"}


def test_leaderboard_has_the_mean_and_the_score_of_every_language(answered):
    (board,) = build_boards([row_of(answered)], XTREME)
    cell = board.entries[0].cells["xtreme/xquad"]
    found = {n: v for e in answered.evaluations for n, v in e.scores.items() if e.task == cell.task}
    assert cell.values[0] == pytest.approx(sum(found.values()) / 22)
    xquad, mlqa = language_tables(board)
    assert (xquad.title, mlqa.title) == ("XQuAD", "MLQA")
    assert mlqa.heads == ("en", "es", "de", "ar", "hi", "vi", "zh")
    ((name, values),) = xquad.rows
    assert values[xquad.heads.index("hi")] == f"{50 * (found['em_hi'] + found['f1_hi']):.1f}"
    file = StringIO()
    render_languages(board, Console(file=file, width=60))
    lines = file.getvalue()
    assert all(f" {head} " in lines.replace("\n", " \n") for head in xquad.heads)
    assert max(map(len, lines.splitlines())) <= 60
    page = render_report([board], [], "today")
    assert "XQuAD by language" in page
    assert name in page


def test_predictions_are_written_in_xtremes_submission_format(answered, store):
    job = replace(answered.job, data=str(mini_folder()), limit=None)
    store.add_result(replace(answered, job=job))
    files = {str(f.path): f.content for f in gather(store, store.runs(), Wanted(suite=XTREME))}
    assert {Path(path).parent.name for path in files} == {"xquad", "mlqa"}
    assert len(files) == 18
    answers = json.loads(files["mlqa/test-zh.json"])
    assert len(answers) == len(answered.evaluation("xtreme/mlqa:test_zh").predictions)


def test_xtreme_submission_has_one_label_or_tag_per_line():
    write = FORMS["xtreme"].write
    tags = [TagPrediction(id="0", tags=("O", "B-LOC")), TagPrediction(id="1", tags=("O",))]
    assert write(find_task("xtreme/panx"), tags, (), None) == {"test-{}.tsv": b"O\nB-LOC\n\nO\n\n"}
    pairs = [PairPrediction(id="0", label="neutral"), PairPrediction(id="1", label="entailment")]
    found = write(find_task("xtreme/xnli"), pairs, (), None)
    assert found == {"test-{}.tsv": b"neutral\nentailment\n"}


def test_training_language_is_part_of_the_job_key_and_selects_the_rows():
    english, german, both = (
        make_job("xtreme/pawsx", limit=8, train_languages=code) for code in ("", "de", "de+fr")
    )
    assert english == make_job("xtreme/pawsx", limit=8)
    name = "xtreme/pawsx:train"
    assert len({job.fingerprints[name] for job in (english, german, both)}) == 3
    assert german.fingerprints | {name: ""} == english.fingerprints | {name: ""}
    result = run_job(german)
    assert len(result.evaluations) == 8
    with pytest.raises(BenchError, match=r"xtreme/pawsx has no training rows in 'xx': set .* en, "):
        make_job("xtreme/pawsx", limit=8, train_languages="xx")
    with pytest.raises(BenchError, match=r"glue/rte has no training rows in 'de': set .* en\."):
        make_job("glue/rte", limit=8, train_languages="de")


@pytest.mark.parametrize(
    ("model", "task", "values"),
    [
        ("xlm-r", "xnli", {"learning_rate": 2e-5, "epochs": 5.0, "max_tokens": 128}),
        ("xlm-r-large", "xnli", {"learning_rate": 3e-5, "epochs": 5.0, "best_checkpoint": True}),
        ("xlm-r", "squad-en", {"learning_rate": 3e-5, "warmup_steps": 500, "stride": 128}),
        ("mdeberta", "xnli", {"max_tokens": 256, "warmup_steps": 3000}),
        ("mdeberta", "udpos", {"epochs": 10.0, "batch_size": 32, "max_tokens": 128}),
        ("mmbert", "pawsx", {"epochs": 2.0, "learning_rate": 2e-5}),
        ("mmbert", "tydiqa", {"epochs": 3.0, "learning_rate": 3e-5, "weight_decay": 1e-4}),
        ("tiny", "panx", {"learning_rate": 1e-3}),
    ],
)
def test_xtreme_settings_are_from_the_xtreme_scripts_or_the_model_authors(model, task, values):
    found = resolve_recipe(find_model(model), f"xtreme/{task}", None, {}).settings
    assert {name: found[name].value for name in values} == values
    if model == "mmbert":
        assert "warmup_steps" not in found
