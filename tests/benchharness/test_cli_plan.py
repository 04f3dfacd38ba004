import json
from dataclasses import replace

import pytest

from benchharness.leaderboard.store.store import open_store
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.results import make_evaluation, make_job, make_result

RTE = {"good": (0.80, 0.82, 0.84), "bad": (0.70, 0.75, 0.80)}


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Store two models with three seeds of RTE, one of them also with CoLA."""
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        for model, values in RTE.items():
            for seed, value in enumerate(values):
                store.add_result(result(model, "glue/rte", seed, {"accuracy": value}))
        store.add_result(result("good", "glue/cola", 0, {"mcc": 0.5}))


def result(model, task, seed, scores):
    job = make_job(model=model, task=task, seed=seed)
    evaluation = make_evaluation(job, task, "dev", scores=scores)
    return replace(make_result(job), evaluations=(evaluation,))


def test_plan_table_shows_the_current_and_the_needed_number_of_seeds(bench, stored):
    ended = bench("plan", "good", "bad", "--db", "board.sqlite")
    assert ended.code == 0, ended.err
    lines = [line.split() for line in ended.out.splitlines()]
    assert ended.out.startswith("GLUE on mini data: good, bert and bad, bert")
    assert ["task", "good", "bad", "difference", "p-value", "seeds", "now"] in [
        x[:7] for x in lines
    ]
    (row,) = (line for line in lines if line[:1] == ["RTE"])
    assert " ".join(row) == "RTE 82.00 ± 2.00 75.00 ± 5.00 +7.00 0.088 3 and 3 6"
    assert "alpha 0.05" in ended.out
    assert "power 0.8" in ended.out


def test_plan_states_each_reason_once_below_the_table(bench, stored):
    tasks = {"glue/rte": "accuracy", "glue/cola": "mcc", "glue/wnli": "accuracy"}
    with open_store("board.sqlite") as store:
        for task, metric in tasks.items():
            job = replace(make_job(model="majority", task=task), kind="baseline", recipe="baseline")
            found = make_evaluation(job, task, "dev", scores={metric: 0.5})
            store.add_result(replace(make_result(job), evaluations=(found,)))
        store.add_result(result("good", "glue/wnli", 0, {"accuracy": 0.6}))
    ended = bench("plan", "good", "majority", "--db", "board.sqlite")
    assert ended.code == 0, ended.err
    said = "majority has a single run without a seed, so no seeds can be added"
    assert ended.out.count(said) == 1
    assert f"no number of seeds for all tasks: {said}.\n" in ended.out
    assert "run at least 2" not in ended.out, "a baseline cannot have them"
    rows = [line.split() for line in ended.out.splitlines() if line.split()[-1:] == ["-"]]
    assert {row[0] for row in rows} == {"RTE", "CoLA", "WNLI"}


def test_plan_json_has_the_seeds_needed_for_another_power_and_alpha(bench, stored):
    words = ("--power", "0.95", "--alpha", "0.01", "--task", "rte", "--suite", "glue")
    (found,) = json.loads(
        bench("plan", "good", "bad", "--db", "board.sqlite", *words, "--json").out
    )
    assert found["systems"] == ["good:bert:float32", "bad:bert:float32"]
    assert (found["alpha"], found["power"]) == (0.01, 0.95)
    assert set(found["tasks"]) == {"glue/rte"}
    assert found["tasks"]["glue/rte"]["seeds_needed"] == 13  # the number for a two-sided t-test


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("good", "best"), "no leaderboard has results of best. There are results of bad, good."),
        (
            ("good", "bad", "--task", "cola"),
            "no requested task has results for good and bad",
        ),
        (("good", "bad", "--task", "colla"), "Did you mean"),
        (("good", "bad", "--power", "1"), "--power must be between 0 and 1, but got 1"),
        (("good", "bad", "--alpha", "0"), "--alpha must be between 0 and 1, but got 0"),
    ],
)
def test_plan_of_an_invalid_comparison_is_reported_in_one_sentence(bench, stored, words, sentence):
    ended = bench("plan", *words, "--db", "board.sqlite")
    assert ended.code == 2
    assert sentence in ended.err
    assert ended.out == ""


def test_pooling_config_of_a_model_is_noted_as_unused_only_if_no_job_uses_it(bench, tmp_path):
    folder = save_checkpoint(tmp_path / "st")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    asked = ("run", "--dry-run", "--data", "mini", "--model", str(folder), "--seeds", "1")
    zero_shot = bench(*asked, "--task", "beir/scifact", "--shots", "0")
    assert (zero_shot.code, "no job uses this" in zero_shot.out + zero_shot.err) == (0, False)
    trained = bench(*asked, "--task", "glue/rte")
    assert (trained.code, "no job uses this" in trained.out + trained.err) == (0, True)
