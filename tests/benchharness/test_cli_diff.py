import json

import pytest
import typer
from typer.testing import CliRunner

from benchharness.cli.show import show
from benchharness.errors import BenchError
from benchharness.models import MODELS, ModelSpec
from benchharness.recipes import resolve_recipe
from benchharness.recipes.resolve import compare_recipes
from benchharness.tasks.suites import TASKS

APP = typer.Typer()
APP.command()(show)


def call(*arguments: str) -> str:
    ended = CliRunner().invoke(APP, ["recipe", *arguments], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_recipe_diff_on_a_task_lists_only_settings_that_differ() -> None:
    lines = [line.split() for line in call("roberta", "electra", "glue/qqp").splitlines()]
    assert ["setting", "roberta", "electra"] in lines
    assert ["learning_rate", "1e-05", "0.0001"] in lines
    assert ["warmup_ratio", "0.25", "0.1"] in lines
    assert not [line for line in lines if line[:1] == ["batch_size"]]


def test_recipe_diff_without_a_task_names_the_tasks_of_each_difference() -> None:
    text = call("electra", "electra-large")
    (line,) = (line for line in text.splitlines() if "learning_rate" in line)
    assert line.split()[:5] == ["learning_rate", "0.0001", "5e-05", "all", "but"]
    assert "XNLI" in line  # XTREME's script has one learning rate for all encoders
    text = call("electra", "bert")
    (line,) = (line for line in text.splitlines() if line.split()[:2] == ["epochs", "10"])
    assert line.strip().endswith("STS-B, RTE")
    text = call("electra", "roberta")
    (line,) = (line for line in text.splitlines() if line.split()[:3] == ["epochs", "3", "10"])
    assert "all but STS-B, RTE, SQuAD 1.1" in line


def test_recipe_diff_json_has_the_source_of_each_value() -> None:
    found = json.loads(call("albert-v1", "albert", "race/all", "--json"))
    rate = next(row for row in found if row["setting"] == "learning_rate")
    assert rate["tasks"] == ["race/all"]
    assert rate["second"] == {
        "value": 1e-5,
        "source": "google-research/albert README.md, for version 2",
    }
    assert rate["first"]["source"] == "arXiv:1909.11942, table 14"


def test_diff_reports_that_two_recipes_are_equal() -> None:
    assert call("bert", "bert-base-cased", "glue/rte") == "the two recipes have the same values.\n"


def test_recipe_diff_includes_a_setting_that_one_recipe_leaves_to_the_checkpoint() -> None:
    assert "the checkpoint's" in call("albert", "bert", "glue/rte")


def test_diff_suggests_a_model_for_an_unknown_name() -> None:
    with pytest.raises(BenchError, match="Did you mean 'roberta'"):
        call("robertta", "bert")


@pytest.mark.parametrize(
    ("name", "close"), [("colaa", "cola"), ("glue/coal", "glue/cola"), ("elektra", "electra")]
)
def test_diff_suggests_a_model_or_a_task_for_an_unknown_second_name(name: str, close: str) -> None:
    with pytest.raises(BenchError, match=f"Did you mean '{close}'"):
        call("roberta", name)


def test_recipe_diff_lists_exactly_the_settings_that_differ() -> None:
    first = MODELS["roberta-large"]
    second = ModelSpec(name="x", checkpoint="org/x", recipe="xlnet")
    found = compare_recipes(first, second, TASKS.values())
    for task in TASKS.values():
        ours, theirs = (
            {name: setting.value for name, setting in settings.items()}
            for spec in (first, second)
            for settings in [resolve_recipe(spec, task.name, None, {}).settings]
        )
        expected = {n for n in (*ours, *theirs) if ours.get(n) != theirs.get(n)}
        shown = {d.setting for d in found if task.name in d.tasks}
        # `start_from` is not a setting; the test below covers it.
        assert shown - {"start_from"} == expected


def test_recipe_diff_includes_a_different_start_from() -> None:
    lines = [line.split() for line in call("modernbert", "bert", "glue/rte").splitlines()]
    assert ["start_from", "glue/mnli", "pretrained"] in lines


# Recipes of several models as tables.


def test_recipes_of_several_models_are_a_table_with_the_settings_that_differ() -> None:
    models = ("bert", "roberta", "electra")
    head, *rows, same = [
        line for line in call(*models, "glue/rte").splitlines() if line.strip(" ─")
    ]
    columns = head.split()
    assert columns[0] == "model"
    cells = {row.split()[0]: dict(zip(columns, row.split(), strict=True)) for row in rows}
    assert list(cells) == ["bert-base-uncased", "roberta-base", "electra-base-discriminator"]
    for name, row in cells.items():
        settings = resolve_recipe(MODELS[name], "glue/rte", None, {}).settings
        assert float(row["learning_rate"]) == settings["learning_rate"].value
        assert float(row["epochs"]) == settings["epochs"].value
    assert same.startswith("RTE, the same for all: ")
    shared = dict(pair.split(" ", 1) for pair in same.partition(": ")[2].split(", "))
    assert not shared.keys() & set(columns)
    assert shared["accumulation"] == "1"


def test_a_pattern_stands_for_all_known_models_whose_names_match() -> None:
    found = json.loads(call("electra*", "bert", "glue/cola", "--json"))
    names = [name for name in MODELS if name.startswith("electra")]
    assert [facts["model"] for facts in found] == [*names, "bert-base-uncased"]
    assert all(facts["settings"]["learning_rate"]["source"] for facts in found)
    assert len(json.loads(call("electra*", "glue/cola", "--json"))) == len(names) > 1


def test_ambiguous_task_name_gives_a_recipe_table_for_each_task() -> None:
    text = call("bert", "roberta", "electra", "rte")
    assert "SuperGLUE RTE, the same for all: " in text
    assert text.count("roberta-base") == 2


def test_several_models_without_a_task_are_an_error() -> None:
    with pytest.raises(BenchError, match="several models and a task"):
        call("bert", "roberta", "electra", "albert")
    with pytest.raises(BenchError, match="Did you mean 'roberta'"):
        call("bert", "robertta", "electra", "glue/rte")
