"""Tests of `bench robustness` with models that were trained on rows with a planted shortcut."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np
import pytest

from benchharness.extensions.kept_models.load import load_trained
from benchharness.extensions.kept_models.predict import predict
from benchharness.extensions.robustness.perturb import PERTURBATIONS, perturbed, refusal
from benchharness.extensions.robustness.records import Records
from benchharness.extensions.robustness.shown import facts, section
from benchharness.leaderboard.boards.cell import score_names
from benchharness.leaderboard.store.store import open_store
from benchharness.stored import gather_boards
from benchharness.tasks.answers.base import CONSTANT
from benchharness.tasks.glue import NLI_LABELS
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import SUITES, find_task
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job
from tests.helpers.plans import plan_jobs

WORDS = dict(zip(NLI_LABELS, ("good", "dull", "never"), strict=True))
"""Last word of the hypotheses with each label in train and dev: the planted shortcut."""

QUICK = {"epochs": "5", "batch_size": "16", "max_tokens": "32", "learning_rate": "1e-3"}


def sentence(draw):
    who, does = draw.choice(("farmer", "nurse", "singer")), draw.choice(("found", "closed", "lost"))
    return f"The {who} {does} the {draw.choice(('guitar', 'taxi', 'hat'))}"


def nli_rows(count, seed, *, planted):
    draw = Random(seed)
    for n in range(count):
        label = NLI_LABELS[n % 3]
        ending = f" {WORDS[label]}." if planted else "."
        yield {
            "sentence1": f"{sentence(draw)}.",
            "sentence2": sentence(draw) + ending,
            "gold_label": label,
        }


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_hans(path, rows=60):
    columns = ("gold_label", "sentence1", "sentence2", "pairID", "heuristic", "subcase", "template")
    draw, lines = Random(9), ["\t".join(columns)]
    for n in range(rows):
        gold = ("entailment", "non-entailment")[n % 2]
        kind = ("lexical_overlap", "subsequence", "constituent")[n % 3]
        told = sentence(draw)
        cells = (gold, f"{told} .", f"{told} .", f"ex{n}", kind, f"{kind}{n % 2}", "temp1")
        lines.append("\t".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a folder with a database of two seeds, their models, and the files of two sets."""
    folder = tmp_path_factory.mktemp("trained")
    for split, count in (("train", 210), ("dev", 90)):
        rows = nli_rows(count, split, planted=True)
        write_rows(folder / f"data/snli/snli_1.0_{split}.jsonl", rows)
    hard = nli_rows(150, "hard", planted=False)
    write_rows(folder / "sets/snli_1.0_test_hard.jsonl", hard)
    write_hans(folder / "sets/heuristics_evaluation_set.txt")
    options = {"overrides": QUICK, "precision": "fp32"}
    jobs = plan_jobs("tiny", "snli/snli", str(folder / "data"), (1, 2), **options).jobs
    with open_store(str(folder / "board.sqlite")) as store:
        for job in jobs:
            store.add_result(run_job(job, keep=folder / "models" / job.key))
    return folder


@pytest.fixture
def here(trained, tmp_path, bench):
    """Return a function that calls `bench robustness` in a copy of the folder `trained`."""
    for name in ("board.sqlite", "models", "sets"):
        (shutil.copytree if name != "board.sqlite" else shutil.copy)(
            trained / name, tmp_path / name
        )

    def call(*words, system="tiny"):
        return bench("robustness", system, *words, "--db", "board.sqlite")

    return call


SETS = ("--sets", "snli-hard,hans", "--sets-data", "sets")


def measured(ended):
    """Return the records in the JSON output, which has a single leaderboard, keyed by name."""
    assert ended.code == 0, ended.err
    (found,) = json.loads(ended.out)
    return {each["name"]: each for each in found["results"]}


def test_sheet_shows_a_planted_shortcut_as_a_problem(here, bench):
    assert here("--sets", "snli-hard", "--sets-data", "sets").code == 0
    ended = bench("sheet", "tiny", "--db", "board.sqlite", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["problems"][0] == "Robustness"
    found = json.loads(ended.out)["sections"]["Robustness"]
    assert found["text"].startswith("Not better than the most frequent class on SNLI-hard")
    (record,) = found["facts"]["records"]
    assert record["is_bad"]
    assert not found["missing"]
    assert bench("sheet", "tiny", "--db", "board.sqlite", "--out", "sheet.html").code == 0
    page = Path("sheet.html").read_text(encoding="utf-8")
    tiles = re.findall(r'<div class="tile( bad)?"><h2><a href="#(part-\d+)"', page)
    assert tiles[0][0] == " bad"
    assert f'<h2 id="{tiles[0][1]}">Robustness</h2>' in page


def test_model_with_a_planted_shortcut_scores_at_chance_on_challenge_sets(here):
    found = measured(here(*SETS, "--perturb", "typos,case", "--json"))
    hard = found["snli-hard"]
    score = hard["scores"]["accuracy"]
    assert hard["own"] >= 0.95
    assert 0.2 < score["value"] < 0.47
    assert score["low"] < 1 / 3 < score["high"]
    assert hard["facts"]["majority"] == pytest.approx(1 / 3)
    assert (hard["rows"], hard["seeds"]) == (150, [1, 2])
    for name in ("typos", "case"):
        each = found[name]
        assert each["own"] == hard["own"], "predicted again, with the same models"
        drop, after = each["drop"], each["scores"]["accuracy"]["value"]
        assert drop["value"] == pytest.approx(each["own"] - after)
        assert drop["low"] <= drop["value"] <= drop["high"]
    assert found["typos"]["facts"]["changed"] == 90
    assert found["case"]["drop"]["value"] == 0.0, "tiny has no capitals"


def test_challenge_set_scores_equal_accuracy_of_kept_models_with_merged_classes(here, tmp_path):
    found = measured(here("--sets", "hans", "--sets-data", "sets", "--json"))["hans"]
    lines = (tmp_path / "sets/heuristics_evaluation_set.txt").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    for place, key in enumerate(found["runs"]):
        model = load_trained(tmp_path / "models" / key)
        example = next(nli_rows(1, 0, planted=True))
        assert example["gold_label"] in model.task.labels
        texts = [model.task.convert({"idx": n, "premise": r[1], "hypothesis": r[2], "label": None})
                 for n, r in enumerate(rows)]  # fmt: skip
        guesses = [each.label == "entailment" for each in predict(model, texts).predictions]
        right = [
            guess == (row[0] == "entailment") for guess, row in zip(guesses, rows, strict=True)
        ]
        assert found["scores"]["accuracy"]["seeds"][place] == sum(right) / len(rows)
    assert found["facts"]["counts_as"]["neutral"] == "not entailment"
    assert len(found["scores"]) == 7
    assert set(found["facts"]["slices"]) >= {"heuristic subsequence", "template temp1"}


def test_interval_of_a_drop_is_paired_by_row(here, trained):
    with open_store("board.sqlite") as store:
        key = store.runs()[0].key
    found = measured(here("--perturb", "typos", "--json", system=key[:12]))["typos"]
    model = load_trained(trained / "models" / key)
    clean = read(model.task, "dev", parse_data(str(trained / "data"))).examples
    noisy = [perturbed(each, "typos", 1) for each in clean]
    golds = [each.label for each in clean]
    one, other = (
        np.array([p.label for p in predict(model, rows).predictions]) == golds
        for rows in (clean, noisy)
    )
    drops = one.astype(float) - other
    draws = np.random.default_rng(3).integers(len(drops), size=(4_000, len(drops)))
    low, high = np.quantile(drops[draws].mean(axis=1), (0.025, 0.975))
    assert found["drop"]["value"] == pytest.approx(drops.mean())
    assert found["drop"]["value"] > 0
    assert found["drop"]["low"] == pytest.approx(low, abs=0.015)
    assert found["drop"]["high"] == pytest.approx(high, abs=0.015)


def test_tables_show_the_own_dev_score_and_the_challenge_set_scores(here):
    ended = here(*SETS, "--perturb", "all", "--limit", "30")
    assert ended.code == 0, ended.err
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert sum(line.startswith("SNLI, 2 seeds: ") for line in lines) == 2
    assert any(line.startswith("SNLI-hard test 30 accuracy ") for line in lines)
    assert any(line.startswith("accuracy_constituent_entailed ") for line in lines)
    assert any(line.startswith("typos 30 of 30 accuracy ") for line in lines)


def test_results_are_shown_by_the_report_the_leaderboard_and_the_json_of_runs(
    here, bench, tmp_path
):
    assert here(*SETS, "--perturb", "typos").code == 0
    assert here("--perturb", "typos", "--limit", "9").code == 0
    assert here("--perturb", "typos", "--limit", "9").code == 0
    with open_store("board.sqlite") as store:
        (board,) = gather_boards(store)
        runs = board.entries[0].cells["snli/snli"].runs
        records = Records(store).about(runs)
        assert [(r.name, r.limit) for r in records] == [
            ("snli-hard", None), ("hans", None), ("typos", None), ("typos", 9),
        ]  # fmt: skip
        assert Records(store).about(runs[:1]) == [], "the results are about both seeds"
        again = [replace(run, finished="2030-01-01T00:00:00Z") for run in runs]
        assert Records(store).about(again) == [], "the runs were repeated"
    assert bench("report", "--db", "board.sqlite", "--out", "page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "The kept models of these runs were scored on challenge sets" in page
    assert "<td>typos, seed 1, at most 9 rows</td>" in page
    board = bench("leaderboard", "--db", "board.sqlite").out
    assert "robustness: SNLI-hard " in " ".join(board.split())
    runs = json.loads(bench("show", "runs", "--db", "board.sqlite", "--json").out)
    assert all(len(run["robustness"]["records"]) == 4 for run in runs)
    (tmp_path / "board.sqlite.robustness").write_text("not a database")
    ended = here("--perturb", "case")
    assert ended.code != 0
    assert "delete the file if it is damaged" in ended.err


def test_warnings_about_a_run_are_shown_with_its_robustness(here, bench):
    with open_store("board.sqlite") as store:
        result = store.result(store.runs()[0].key)
    flagged = [replace(each, flags=(CONSTANT,)) for each in result.evaluations]
    with open_store("flagged.sqlite") as store:
        store.add_result(replace(result, evaluations=tuple(flagged)))
    words = ("tiny", *SETS, "--perturb", "case", "--db", "flagged.sqlite")
    ended = bench("robustness", *words)
    assert ended.code == 0, ended.err
    assert CONSTANT in ended.out
    assert CONSTANT in bench("robustness", *words, "--json").out
    with open_store("flagged.sqlite") as store:
        (board,) = gather_boards(store)
        assert "!</td>" in section(store, board)
        assert all("!" in each["text"] for each in facts(store, store.runs()).values())


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "pass --sets (challenge sets to score), or --perturb"),
        (("--sets", "hams"), 2, "no challenge set is called 'hams'"),
        (("--perturb", "noise"), 2, "no perturbation is called 'noise'"),
        (("--sets", "addsent"), 2, "AddSent tests models of SQuAD 1.1, but tiny was trained on"),
        (("--sets", "mnli-hard-m"), 4, "MNLI-hard m is not on the hub: pass --sets-data DIR"),
        (("--sets", "anli", "--sets-data", "sets"), 4, "has no rows of ANLI R1"),
        (("--sets", "all", "--sets-data", "models"), 2, "or has rows in --sets-data"),
        (("--sets", "hans", "--sets-data", "nowhere"), 4, "'nowhere' does not exist"),
    ],
)
def test_bad_input_of_bench_robustness_is_reported_in_one_sentence(words, code, said, here):
    ended = here(*words)
    assert (ended.code, ended.out) == (code, "")
    assert said in " ".join(ended.err.split())
    assert "Traceback" not in ended.err


def test_runs_without_a_kept_model_are_reported(here, tmp_path):
    with open_store("board.sqlite") as store:
        first, second = (run.key for run in store.runs())
    shutil.rmtree(tmp_path / "models" / second)
    ended = here("--perturb", "case", "--json")
    assert measured(ended)["case"]["runs"] == [first]
    assert "SNLI: only 1 of 2 seeds kept a model" in ended.err
    ended = here("--perturb", "case", system=second[:12])
    assert ended.code == 2
    assert f"or `bench model {second[:12]} --retrain`" in " ".join(ended.err.split())


KINDS = ("glue/mnli", "glue/stsb", "glue/cola", "squad/v2.0", "race/all", "conll2003/ner",
         "superglue/wsc", "superglue/multirc", "lexglue/ecthr_a", "xtreme/xnli",
         "xtreme/pawsx")  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("task", KINDS)
def test_kept_models_of_every_kind_of_task_are_scored_on_perturbed_rows(task, bench, tmp_path):
    job = make_job(task, limit=24)
    with open_store("board.sqlite") as store:
        store.add_result(run_job(job, keep=tmp_path / "models" / job.key))
    ended = bench("robustness", "tiny", "--perturb", "all", "--db", "board.sqlite", "--json")
    found = measured(ended)
    known = find_task(task)
    assert {*found} == {name for name in PERTURBATIONS if not refusal(known, name)}
    for each in found.values():
        after = next(iter(each["scores"].values()))["value"]
        assert each["drop"]["value"] == pytest.approx(each["own"] - after)
    with open_store("board.sqlite") as store:
        (row,) = store.runs()
        names = score_names(task, SUITES[known.suite].rule)
        if known.suite != "xtreme":  # whose score is over all languages
            stored = fmean(row.scores[task][name] for name in names)
            assert found["case"]["own"] == pytest.approx(stored, abs=1e-6)
    others = {"glue/mnli": "dev+dev_mm"} | dict.fromkeys(KINDS[-2:], "dev+test_en")
    assert {each["split"] for each in found.values()} == {others.get(task, "dev")}


def squad_file():
    paragraphs = []
    for ending, more in (("", ""), ("-high-conf-turk0", " Dora met Carl in 1801.")):
        context = f"Alma met Bruno in 1900.{more}"
        answers = [{"text": "1900", "answer_start": 18}]
        asked = {"id": f"56a{ending}", "question": "When did they meet?", "answers": answers}
        paragraphs.append({"context": context, "qas": [asked]})
    return {"version": "1.1", "data": [{"title": "Alma", "paragraphs": paragraphs}]}


def boolq_file():
    others = [{"perturbed_q": "did it snow", "answer": "FALSE"}]
    entry = {"title": "Rain", "paragraph": "It rained.", "question": "did it rain"}
    return {"data": [{**entry, "answer": "TRUE", "perturbed_questions": others}]}


def advglue_file():
    names = ("sst2", "qqp", "mnli", "mnli-mm", "qnli", "rte")
    texts = {name: f"some {name}" for name in ("sentence", "question1", "question2")}
    return {name: [{"idx": n, "label": n, **texts} for n in range(2)] for name in names}


FILES = {
    "addsent": ("squad/v1.1", "sample1k-HCVerifyAll.json", squad_file, 4),
    "boolq-contrast": ("superglue/boolq", "boolq_perturbed.json", boolq_file, 3),
    "advglue-qqp": ("glue/qqp", "dev.json", advglue_file, 2),
    "advglue-sst2": ("glue/sst2", "dev.json", advglue_file, 1),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", FILES)
def test_kept_models_are_scored_on_robustness_sets_of_every_file_format(name, bench, tmp_path):
    task, file, made, scores = FILES[name]
    job = make_job(task, limit=16)
    with open_store("board.sqlite") as store:
        store.add_result(run_job(job, keep=tmp_path / "models" / job.key))
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / file).write_text(json.dumps(made()), encoding="utf-8")
    words = ("robustness", "tiny", "--sets", "all", "--sets-data", "sets", "--db", "board.sqlite")
    found = measured(bench(*words, "--json"))[name]
    assert found["rows"] == 2
    assert len(found["scores"]) == scores
    assert all(0 <= each["value"] <= 1 for each in found["scores"].values())
    assert bench(*words).code == 0
