"""Tests of `bench show recipe` with a recipe file: alone, for a model, and against a model."""

import json
from pathlib import Path

import pytest

TEXT = """
[default]
epochs = 4
learning_rate = [2e-5, 3e-5]

[head.span]
stride = { value = 96, source = "our dev set" }

[glue.cola]
batch_size = 16
start_from = "glue/mnli"
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(TEXT)
    return file


def test_show_recipe_prints_the_tables_of_a_recipe_file(bench, mine: Path) -> None:
    shown = bench("show", "recipe", "mine.toml")
    assert shown.code == 0, shown.err
    assert "    learning_rate: 2e-05,3e-05  (mine.toml)\n" in shown.out
    facts = json.loads(bench("show", "recipe", "mine.toml", "--json").out)
    assert set(facts["tables"]) == {"default", "head/span", "glue/cola"}
    assert facts["tables"]["head/span"]["stride"] == {"value": 96, "source": "our dev set"}


def test_the_protocol_of_a_recipe_file_is_shown_and_checked(bench, mine: Path) -> None:
    mine.write_text(f'{TEXT}\n[protocol]\nlimit = 100\ntasks = "glue/rte,glue/cola"\n')
    tables = json.loads(bench("show", "recipe", "mine.toml", "--json").out)["tables"]
    assert tables["protocol"]["limit"]["value"] == 100
    mine.write_text('[protocol]\nlimit = 100\ntasks = "glue/rte,glue/nli"\n')
    assert "mine.toml: no task is called 'glue/nli'" in bench("show", "recipe", "mine.toml").err


def test_unknown_table_of_a_recipe_file_is_an_error_in_show_and_run(bench, mine: Path) -> None:
    mine.write_text(f"{TEXT}[GLUE.RTE]\n[glue.colla]\n[head.spam]\nepochs = 3\n")
    asked = ("--model", "tiny", "--task", "glue/cola", "--data", "mini", "--recipe", "mine.toml")
    for words in (("show", "recipe", "mine.toml"), ("run", *asked, "--dry-run")):
        ended = bench(*words)
        assert ended.code == 2
        assert "no task is called 'glue/colla'" in ended.err
        assert "unknown head type 'spam'" in ended.err


def test_show_recipe_of_model_and_file_has_the_settings_of_a_run(bench, mine: Path) -> None:
    points = json.loads(bench("show", "recipe", "roberta", "cola", "mine.toml", "--json").out)
    assert [p["settings"]["learning_rate"]["value"] for p in points] == [2e-5, 3e-5]
    assert {p["recipe"] for p in points} == {"mine sweep"}
    asked = ("--model", "tiny", "--task", "glue/cola", "--data", "mini", "--limit", "8")
    words = ("--recipe", "mine.toml", "--start-from", "pretrained", "--seeds", "1", "--dry-run")
    jobs = json.loads(bench("run", *asked, *words, "--no-baselines", "--json").out)["jobs"]
    assert [job["recipe"] for job in jobs] == ["mine sweep"] * 2
    (other,) = [p for p in points if p["settings"]["learning_rate"]["value"] == 3e-5]
    assert other["settings"]["batch_size"] == {"value": 16, "source": "mine.toml"}
    assert other["settings"]["start_from"]["value"] == "glue/mnli"
    assert bench("show", "recipe", "roberta", "cola", "mine.toml").out.count("kind: recipe") == 2


def test_show_recipe_compares_a_recipe_file_with_the_recipe_of_a_model(bench, mine: Path) -> None:
    mine.write_text(TEXT.replace("[2e-5, 3e-5]", "2e-5"))
    found = json.loads(bench("show", "recipe", "roberta", "mine.toml", "--json").out)
    strides = [d for d in found if d["setting"] == "stride"]
    assert [(d["first"]["value"], d["second"]["value"]) for d in strides] == [(128, 96)]
    assert {d["setting"] for d in found} >= {"epochs", "learning_rate", "start_from"}
    assert " mine.toml " in bench("show", "recipe", "roberta", "mine.toml").out.splitlines()[1]


def test_all_errors_of_a_recipe_file_are_reported_at_once(bench, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[default]\nlr = 3\nepochs = -1\n[glue.colla]\nstride = 9\n")
    ended = bench("show", "recipe", "bad.toml")
    assert (ended.code, ended.out) == (2, "")
    for line, words in zip(
        ended.err.splitlines(), ("'lr'", "epochs is -1", "'glue/colla'"), strict=True
    ):
        assert words in line
    assert "the recipe none.toml cannot be read" in bench("show", "recipe", "none.toml").err
    assert "needs a model and a task" in bench("show", "recipe", "a", "b", "c", "bad.toml").err
