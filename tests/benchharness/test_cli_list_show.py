import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchharness.cli.app import app
from benchharness.cli.output import outline, print_json, print_table
from benchharness.errors import BenchError, ModelError, StoreError
from benchharness.leaderboard.store.store import open_store
from benchharness.models import MODELS
from benchharness.tasks.suites import COLLECTIONS, SUITES, TASKS
from tests.helpers.results import make_failure, make_job, make_result

HOSTILE = "evil [bold red]x[/] \x1b[31m </script>"


def call(*arguments: str) -> str:
    """Return the output of a command, or raise its BenchError."""
    ended = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def call_json(*arguments: str) -> Any:
    return json.loads(call(*arguments, "--json"))


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Store two finished runs, a failed one and one of a model with a hostile name."""
    path = str(tmp_path / "board.sqlite")
    with open_store(path) as store:
        store.add_result(make_result(make_job(task="glue/rte", seed=1)))
        store.add_result(make_result(make_job(task="glue/mnli", seed=2)))
        store.add_failure(make_failure(make_job(task="glue/rte", seed=3)))
        store.add_result(make_result(make_job(task="glue/cola", model=HOSTILE)))
    return path


# Lists.


def test_short_task_name_is_resolved_among_the_tasks_of_stored_runs(db: str) -> None:
    assert [row["seed"] for row in call_json("show", "runs", "--db", db, "--task", "rte")] == [1, 3]
    with open_store(db) as store:
        store.add_result(make_result(make_job(task="superglue/rte", seed=7)))
    with pytest.raises(BenchError, match="use glue/rte or superglue/rte"):
        call("show", "runs", "--db", db, "--task", "rte")
    words = ("show", "runs", "--db", db, "--task", "rte", "--suite", "superglue")
    assert [row["seed"] for row in call_json(*words)] == [7]


def test_show_lists_all_registered_suites_and_tasks() -> None:
    assert [row["name"] for row in call_json("show", "suites")] == [*SUITES, *COLLECTIONS]
    rows = call_json("show", "tasks")
    assert [row["name"] for row in rows] == list(TASKS)
    ax = next(row for row in rows if row["name"] == "glue/ax")
    assert (ax["trained_on"], ax["splits"], ax["head"]) == ("glue/mnli", ["test"], "pair")


def test_show_tasks_is_filtered_by_suite() -> None:
    rows = call_json("show", "tasks", "--suite", "glue")
    assert [row["name"] for row in rows] == list(SUITES["glue"].tasks)
    with pytest.raises(BenchError, match="Did you mean 'glue'"):
        call("show", "tasks", "--suite", "gleu")


def test_show_models_has_aliases_and_revisions() -> None:
    rows = {row["name"]: row for row in call_json("show", "models")["models"]}
    assert list(rows) == list(MODELS)
    assert rows["roberta-base"]["aliases"] == ["roberta"]
    assert rows["roberta-base"]["revision"] == MODELS["roberta-base"].revision
    assert "roberta_readme" in rows["roberta-base"]["published"]


def test_show_model_prints_recipe_size_flops_and_tokenizer() -> None:
    lines = call("show", "electra-large").splitlines()
    for line in (
        "name: electra-large-discriminator",
        "recipe: electra-large",
        "backbone: 302.3",
        "flops: 3.1e+21",
        "tokenizer: WordPiece, uncased",
    ):
        assert line in lines


def test_published_system_has_either_a_model_or_a_reason_for_having_none() -> None:
    rows = {row["system"]: row for row in call_json("show", "models")["systems"]}
    assert all(bool(row["model"]) != bool(row["reason"]) for row in rows.values())
    electra = rows["ELECTRA"]
    assert (electra["status"], electra["model"]) == ("runs here", "electra-large-discriminator")
    assert rows["NEZHA-Large"]["status"] == "published row only"
    assert rows["NEZHA-Large"]["reason"] == "no class in transformers 5"
    assert rows["ULMFiT"]["status"] == "named in a lecture only"
    assert rows["ELECTRA-Base (in electra_paper_squad)"]["model"] == ""
    text = call("show", "models")
    assert "NEZHA-Large" in text
    assert "published row only" in text


def test_published_results_have_their_split_protocol_and_source() -> None:
    rows = call_json("show", "published", "--suite", "glue")
    assert {row["suite"] for row in rows} == {"glue"}
    assert rows[0]["protocol"] == "human"
    (tiny,) = (row for row in rows if row["system"].startswith("BERT-Tiny"))
    assert tiny["scores"]["glue/mrpc"] == {"f1": 81.1, "accuracy": 71.1}
    assert tiny["scores"]["glue"] == {"GLUE-9": 64.2}
    assert (tiny["split"], tiny["protocol"]) == ("test", "best of grid")
    assert tiny["source"] == "google-research/bert README.md"
    everything = call_json("show", "published")
    unpublished = {"retrieval", "pairs", "text", "efficiency", "needle"}
    assert {row["suite"] for row in everything} == set(SUITES) - unpublished
    assert "BERT-Tiny (2/128)" in call("show", "published")


def test_show_runs_json_has_the_documented_fields(db: str) -> None:
    rows = call_json("show", "runs", "--db", db)
    assert len(rows) == 4
    for row in rows:
        assert {"key", "model", "suite", "task", "data", "seed", "status", "scores", "seconds"} <= (
            set(row)
        )
    first, second, third, _ = rows
    assert (first["task"], first["seed"], first["status"]) == ("glue/rte", 1, "finished")
    assert set(first["scores"]) == {"glue/rte"}
    assert set(second["scores"]["glue/mnli"]) == {"accuracy", "accuracy_mm"}
    assert (third["status"], third["scores"]) == ("diverged", {})
    assert third["error"]


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        (("--task", "glue/rte"), [1, 3]),
        (("--task", "glue/mnli"), [2]),
        (("--model", "nobody"), []),
        (("--suite", "glue", "--model", "minilm"), [1, 2, 3]),
    ],
)
def test_show_runs_is_filtered_by_task_model_and_suite(
    db: str, options: tuple[str, ...], seeds: list[int]
) -> None:
    assert [row["seed"] for row in call_json("show", "runs", "--db", db, *options)] == seeds


def test_show_prints_tables_of_tasks_models_suites_and_runs(db: str) -> None:
    assert "glue/stsb" in call("show", "tasks")
    assert "roberta-base" in call("show", "models")
    assert "GLUE" in call("show", "suites")
    table = call("show", "runs", "--db", db)
    assert "diverged" in table
    assert make_job(task="glue/rte", seed=1).key[:12] in table
    assert "no stored run matches." in call("show", "runs", "--db", db, "--model", "nobody")


def test_piped_table_counts_the_languages_of_a_task_instead_of_listing_them() -> None:
    lines = call("show", "tasks").splitlines()
    assert max(map(len, lines)) < 260
    (panx,) = [line for line in lines if "xtreme/panx" in line]
    assert "train, dev, test_* (40), train_* (39)" in panx
    (mnli,) = [line for line in lines if " glue/mnli " in line]
    assert "train, dev, dev_mm, test, test_mm" in mnli
    (found,) = [row for row in call_json("show", "tasks") if row["name"] == "xtreme/panx"]
    assert len(found["splits"]) == 81


def test_list_of_runs_shows_only_the_first_of_many_scores(tmp_path: Path) -> None:
    db, job = str(tmp_path / "board.sqlite"), make_job(task="blimp/blimp")
    scores = {f"s{n}": 0.5 for n in range(77)}
    result = make_result(job)
    with open_store(db) as store:
        (first, *_) = result.evaluations
        store.add_result(replace(result, evaluations=(replace(first, scores=scores),)))
    assert "s7 0.5, and 69 more" in " ".join(call("show", "runs", "--db", db).split())
    assert len(call_json("show", "runs", "--db", db)[0]["scores"]["blimp/blimp"]) == 77


def test_show_runs_with_a_missing_database_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="bench run"):
        call("show", "runs", "--db", str(tmp_path / "none.sqlite"))
    assert not list(tmp_path.iterdir())


def test_model_name_with_control_characters_is_escaped(db: str) -> None:
    key = make_job(task="glue/cola", model=HOSTILE).key
    for text in (call("show", "runs", "--db", db), call("show", key[:16], "--db", db)):
        assert "[bold red]x[/]" in text
        assert "\x1b" not in text
        assert r"\x1b" in text
    assert call_json("show", "runs", "--db", db)[3]["model"] == HOSTILE


# Details of a single run, model, task or suite.


def test_show_run_has_scores_settings_cost_and_provenance(db: str) -> None:
    job = make_job(task="glue/mnli", seed=2)
    facts = call_json("show", job.key[:10], "--db", db)
    assert (facts["kind"], facts["key"], facts["status"]) == ("run", job.key, "finished")
    assert facts["settings"]["learning_rate"] == {"value": 2e-5, "source": "a paper"}
    evaluation = facts["evaluations"]["glue/mnli:dev_mm"]
    assert set(evaluation["scores"]) == {"accuracy_mm"}
    assert evaluation["predictions"] == 3
    assert facts["cost"]["steps"] == 20
    assert facts["provenance"]["versions"]["torch"] == "2.13.0"
    assert len(facts["curve"]) == 2
    text = call("show", job.key, "--db", db)
    assert "learning_rate: 2e-05  (a paper)" in text
    assert "torch: 2.13.0" in text


def test_show_prints_the_error_and_the_traceback_of_a_failed_run(db: str) -> None:
    job = make_job(task="glue/rte", seed=3)
    facts = call_json("show", job.key, "--db", db)
    assert (facts["status"], facts["exit_code"]) == ("diverged", 1)
    assert facts["error"]
    text = call("show", job.key, "--db", db)
    for line in facts["details"].splitlines():
        assert f"  {line}\n" in text


def test_show_with_an_unknown_run_key_is_an_error(db: str) -> None:
    with pytest.raises(BenchError, match="no run has a key that begins with 'beef'"):
        call("show", "beef", "--db", db)


@pytest.mark.parametrize(
    ("name", "kind", "full"),
    [
        ("glue", "suite", "glue"),
        ("GLUE", "suite", "glue"),
        ("seeds", "collection", "seeds"),
        ("cola", "task", "glue/cola"),
        ("glue/AX", "task", "glue/ax"),
        ("roberta", "model", "roberta-base"),
        ("org/name", "model", "org/name"),
    ],
)
def test_show_finds_a_name_among_suites_tasks_and_models(name: str, kind: str, full: str) -> None:
    facts = call_json("show", name)
    assert (facts["kind"], facts["name"]) == (kind, full)
    assert f"name: {full}" in call("show", name)


def test_show_with_several_names_prints_a_json_list() -> None:
    assert [facts["name"] for facts in call_json("show", "cola", "bert")] == [
        "glue/cola",
        "bert-base-uncased",
    ]


@pytest.mark.parametrize(("name", "close"), [("glu", "glue"), ("robertta", "roberta")])
def test_show_suggests_a_similar_name_for_an_unknown_one(name: str, close: str) -> None:
    with pytest.raises(BenchError, match=f"Did you mean '{close}'"):
        call("show", name)


def test_show_with_a_folder_without_a_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a checkpoint"):
        call("show", str(tmp_path))


def test_show_recipe_prints_each_value_with_its_source() -> None:
    facts = call_json("show", "recipe", "roberta", "qqp")
    assert (facts["model"], facts["task"]) == ("roberta-base", "glue/qqp")
    assert facts["settings"]["warmup_ratio"]["value"] == 0.25
    assert all(setting["source"] for setting in facts["settings"].values())
    assert "28318 of 113272 updates)" in call("show", "recipe", "roberta", "qqp")
    with pytest.raises(BenchError, match=r"alone or with a model.*got 1 name"):
        call("show", "recipe", "roberta")


# Formats of the output.


def test_printed_details_omit_empty_values() -> None:
    empty: dict[str, Any] = {"a": None, "b": "", "c": [], "d": {}}
    facts = {**empty, "e": 0, "f": False, "g": {"h": [1, 2.5]}}
    assert list(outline(facts)) == ["e: 0", "f: no", "g:", "  h: 1, 2.5"]


def test_empty_table_is_printed_as_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], ("a",), "nothing here.")
    assert capsys.readouterr().out == "nothing here.\n"


def test_json_output_with_nan_is_an_error() -> None:
    with pytest.raises(ValueError, match="JSON"):
        print_json({"score": float("nan")})


def test_show_published_prints_a_table_of_systems_and_tasks(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    words = ("show", "published", "--suite", "glue", "--split", "dev")
    shown = call(*words, "--model", "electra-small", "--task", "rte", "--task", "cola")
    assert shown.startswith("GLUE dev\n")
    (head, *_, line) = (row.split() for row in shown.splitlines() if "CoLA" in row or "57.0" in row)
    assert head[:5] == ["system", "CoLA", "mcc", "RTE", "accuracy"]
    assert line[:3] == ["ELECTRA-Small", "57.0", "66.7"]
    assert "electra_readme" in shown, "the name of the table, for `bench explain --from`"
    assert "MNLI" not in shown
    assert "GLUE test" not in shown
    rows = call_json(*words, "--model", "electra-small")
    assert {row["split"] for row in rows} == {"dev"}
    assert all("electra-small" in row["system"].lower() for row in rows)
    every = call_json("show", "published", "--suite", "glue")
    assert len(every) > 100
    known = call_json("show", "published", "--model", "bert-large-uncased", "--task", "glue/cola")
    assert {row["system"] for row in known} >= {"BERT-large", "BERT"}, "by what a table means"
    assert all(set(row["scores"]) == {"glue/cola"} for row in known)
    assert "no published result matches" in call("show", "published", "--model", "nobody")
    some = call_json("show", "published", "--task", "glue/rte", "--model", "roberta*")
    assert {row["system"].lower()[:7] for row in some} == {"roberta"}


def test_show_published_names_the_metrics_of_each_number() -> None:
    """Regression test: a column of MRPC mixed accuracy and F1 without their names."""
    shown = call("show", "published", "--task", "glue/mrpc", "--split", "dev")
    (head,) = (line for line in shown.splitlines() if line.lstrip().startswith("system"))
    assert head.split()[:3] == ["system", "MRPC", "accuracy"], "the metric of most rows"
    lines = {" ".join(line.split()) for line in shown.splitlines()}
    assert any(line.startswith("BERT-base-cased 88.85/84.07 f1/accuracy ") for line in lines)
    assert any(line.startswith("BERT-base-uncased 88.6 accuracy or f1 ") for line in lines)
    assert any(line.startswith("BERT-large 88.0 single ") for line in lines)
    assert "accuracy/... (see --json)" in call("show", "published", "--suite", "blimp")


def test_settings_that_a_recipe_omits_are_shown_with_their_default() -> None:
    shown = call("show", "recipe", "bert", "roberta", "glue/rte")
    rows = {words[0]: words[1:] for words in map(str.split, shown.splitlines()) if words}
    assert rows["best_checkpoint"] == ["no", "yes"]
    assert rows["max_grad_norm"] == ["1", "off"]
    assert "checkpoint's" not in shown
    assert "layer_decay     off         0.8" in call(
        "show", "recipe", "bert", "electra", "glue/rte"
    )
    assert "the checkpoint's" in call("show", "recipe", "mpnet", "deberta-v3-base", "glue/rte")
    assert "max_grad_norm: off  (fairseq" in call("show", "recipe", "roberta", "glue/rte")
    facts = call_json("show", "recipe", "roberta", "glue/rte")
    assert facts["settings"]["max_grad_norm"]["value"] == 0, "as --set takes it"


def test_show_recipe_accepts_any_name_of_a_task() -> None:
    both = call("show", "recipe", "bert", "roberta", "rte")
    rows = [line.split() for line in both.splitlines()]
    assert ["learning_rate", "5e-05", "2e-05", "RTE"] in rows
    assert ["learning_rate", "5e-05", "1e-05", "SuperGLUE", "RTE"] in rows
    assert call("show", "recipe", "bert", "STS-B") == call("show", "recipe", "bert", "glue/stsb")
    assert [facts["task"] for facts in call_json("show", "recipe", "bert", "rte")] == [
        "glue/rte",
        "superglue/rte",
    ]
