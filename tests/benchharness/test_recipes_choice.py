"""Tests of the settings that select the final weights: recipes, errors and job keys."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchharness.errors import BenchError
from benchharness.leaderboard.job import Setting
from benchharness.models import MODELS, ModelSpec
from benchharness.recipes import Recipe, resolve_recipe
from benchharness.recipes.read import packaged_names
from benchharness.recipes.resolve import (
    check_override,
    compare_recipes,
    resolve_sweep,
    unused_settings,
)
from benchharness.tasks.suites import TASKS as EVERY_TASK

BERT = MODELS["bert-base-uncased"]
TASKS = {n: task for n, task in EVERY_TASK.items() if task.suite not in ("xtreme", "lexglue")}
"""Tasks except those of XTREME and LexGLUE, whose scripts select the best checkpoint."""

NEW = (
    *("schedule", "schedule_power", "warmup_steps", "decoupled_weight_decay"),
    *("best_checkpoint", "early_stopping", "average_last", "select_on", "deterministic"),
)


def settings(
    name: str, task: str = "glue/rte", recipe: str | None = None, **overrides: str
) -> Mapping[str, Setting]:
    spec = ModelSpec(name="x", checkpoint="org/x", recipe=name)
    return resolve_recipe(spec, task, recipe, overrides).settings


def values(name: str, task: str = "glue/rte", **overrides: str) -> dict[str, object]:
    return {key: setting.value for key, setting in settings(name, task, **overrides).items()}


def problem(name: str = "bert", recipe: str | None = None, **overrides: str) -> str:
    with pytest.raises(BenchError) as caught:
        settings(name, recipe=recipe, **overrides)
    (sentence,) = str(caught.value).splitlines()
    return sentence


# Recipes that select the final weights by evaluations.


def chooses(name: str) -> set[str]:
    """Return the tasks on which a recipe's runs end with their best checkpoint."""
    return {task for task in TASKS if values(name, task).get("best_checkpoint")}


NAMED = set(packaged_names()) - {"features", "lora", "qlora"}
"""Recipes without a sweep on any task, and without adapters, with which nothing is timed."""

GLUE = {name for name in TASKS if name.startswith("glue/")} - {"glue/ax"}
WHOLE = {name for name in packaged_names() if name.startswith(("deberta", "mdeberta", "eurobert"))}
"""Recipes that select the best checkpoint on every task."""


def test_model_that_refers_to_a_nonexistent_recipe_is_an_error() -> None:
    assert problem("minlm").endswith("Did you mean 'minilm'?")


def test_best_checkpoint_is_selected_only_by_recipes_whose_authors_did_so():
    found = {name for name in NAMED if name != "fast" and chooses(name)}
    assert found == {*WHOLE, "roberta", "mpnet", "xlnet", "xlnet-base", "text", "neobert"}
    for name in WHOLE:
        assert chooses(name) == set(TASKS)


@pytest.mark.parametrize("name", ["roberta", "mpnet"])
def test_fairseq_recipes_select_the_best_checkpoint_except_on_spans_and_tags(name: str):
    found = chooses(name)
    assert found >= GLUE | {"race/all"}
    assert not {task for task in found if TASKS[task].head in ("span", "tag")}
    for task in ("glue/rte", "glue/stsb", "race/all"):
        assert "README" in settings(name, task)["best_checkpoint"].source
    assert values(name)["evaluations"] == values(name)["epochs"] == 10


def test_xlnet_selects_the_best_checkpoint_only_on_the_tasks_of_its_paper():
    tasks = {"qqp", "mnli", "sst2", "cola", "stsb", "mrpc", "rte"}
    assert chooses("xlnet") == {f"glue/{task}" for task in tasks}
    assert values("xlnet", "glue/stsb")["evaluations"] == 2


def test_only_eurobert_recipes_have_early_stopping():
    stopping = {name for name in NAMED if values(name).get("early_stopping")}
    assert stopping == {"eurobert", "eurobert-610m", "eurobert-2.1b"}
    assert values("eurobert")["early_stopping"] == 1


@pytest.mark.parametrize("name", sorted(NAMED))
def test_the_fast_recipe_selects_no_checkpoint(name: str):
    assert not {"best_checkpoint", "early_stopping"} & settings(name, recipe="fast").keys()


# Settings in the job key.


def test_setting_with_its_default_value_is_omitted_from_the_job():
    said = {
        "schedule": "linear",
        "schedule_power": "1",
        "warmup_steps": "0",
        "decoupled_weight_decay": "0",
        "best_checkpoint": "false",
        "early_stopping": "0",
        "average_last": "1",
        "select_on": "dev",
        "deterministic": "no",
    }
    assert tuple(said) == NEW
    assert values("bert", **said) == values("bert")
    assert not set(NEW) & values("bert").keys()


def test_setting_in_toml_and_in_text_notation_gives_the_same_value(tmp_path: Path):
    path = tmp_path / "r.toml"
    path.write_text('[default]\nbest_checkpoint = true\nselect_on = "train:0.10"\n')
    found = settings("bert", recipe=str(path))
    typed = settings("bert", best_checkpoint="True", select_on="train:.1")
    assert Recipe.from_settings(settings("bert", deterministic="yes")).optim.deterministic
    for name in ("best_checkpoint", "select_on"):
        assert found[name].value == typed[name].value
    assert (typed["best_checkpoint"].value, typed["select_on"].value) == (True, "train:0.1")
    recipe = Recipe.from_settings(typed)
    assert (recipe.selection.best_checkpoint, recipe.selection.held_out) == (True, 0.1)
    assert Recipe.from_settings(settings("bert")).selection.held_out == 0.0


def test_best_checkpoint_is_omitted_from_a_job_with_a_single_evaluation():
    assert values("bert", evaluations="1", best_checkpoint="true") == values(
        "bert", evaluations="1"
    )


def test_schedule_power_applies_to_the_polynomial_schedule_only():
    assert values("bert", schedule_power="2") == values("bert")
    assert values("bert", schedule="polynomial", schedule_power="2")["schedule_power"] == 2.0


def test_sweep_points_with_the_values_true_and_1_are_different():
    """In Python, True equals 1, so values must be compared together with their setting."""
    grid = {"best_checkpoint": "true,false", "early_stopping": "0,1"}
    points = resolve_sweep(BERT, "glue/rte", None, grid)
    chosen = [
        {name: s.value for name, s in point.settings.items() if name in grid} for point in points
    ]
    assert chosen == [
        {"best_checkpoint": True},
        {"best_checkpoint": True, "early_stopping": 1},
        {},
        {"early_stopping": 1},
    ]


# A quantity in two units: the value of the layer with higher priority is used.


def test_setting_warmup_steps_replaces_warmup_ratio():
    found = settings("bert", warmup_steps="100")
    assert (found["warmup_steps"].value, found["warmup_ratio"].value) == (100, 0.0)
    assert found["warmup_ratio"].source == "warmup_steps is in its place"


def test_override_in_another_unit_replaces_the_setting_of_a_recipe_file(tmp_path: Path):
    path = tmp_path / "r.toml"
    path.write_text("[default]\nwarmup_steps = 100\ndecoupled_weight_decay = 1e-5\n")
    layered = settings("bert", recipe=str(path), warmup_ratio="0.2", weight_decay="0.3")
    assert (layered["warmup_ratio"].value, layered["weight_decay"].value) == (0.2, 0.3)
    assert not {"warmup_steps", "decoupled_weight_decay"} & layered.keys()
    usual = values("modernbert", weight_decay="0.1")
    assert usual["weight_decay"] == 0.1
    assert "decoupled_weight_decay" not in usual


# Invalid combinations.


def test_setting_early_stopping_with_too_few_evaluations_is_an_error():
    assert "but evaluations is 1 (--set)" in problem(early_stopping="1", evaluations="1")
    assert "but evaluations is 3 (ours: " in problem(early_stopping="3")
    assert values("bert", early_stopping="2")["early_stopping"] == 2


@pytest.mark.parametrize("more", [{}, {"best_checkpoint": "true", "evaluations": "1"}])
def test_select_on_without_checkpoint_selection_is_an_error(more: dict[str, str]):
    assert "does not select among evaluations" in problem(select_on="train:0.1", **more)


def test_invalid_combinations_with_average_last_are_an_error():
    assert "but evaluations is 3" in problem(average_last="4")
    sentence = problem("roberta", average_last="3")
    assert "but best_checkpoint is True (fairseq" in sentence
    assert "early_stopping is 1" in problem(average_last="2", early_stopping="1")
    freed = values("roberta", average_last="3", best_checkpoint="false")
    assert freed["average_last"] == 3


@pytest.mark.parametrize(
    ("text", "is_on"),
    [
        *[("temperature=3", True), ("learning_rate=x2", True), ("features=each", True)],
        *[("best_checkpoint=false", False), ("best_checkpoint=false,true", True)],
    ],
)
def test_unused_setting_is_reported_unless_it_has_its_default_value(text: str, is_on: bool):
    name, _, value = text.partition("=")
    said = [*unused_settings({name: value}, None, set())]
    assert [sentence.partition(" ")[0] for sentence in said] == [name] * is_on
    assert [*unused_settings({name: value}, None, {name})] == []
    check_override(name, value)


def test_distillation_settings_of_a_recipe_are_reported_as_unused_without_a_teacher():
    (said,) = unused_settings({}, "tinybert-student", {"learning_rate"})
    assert "there is no --teacher: teacher_weight" in said
    assert [*unused_settings({}, "tinybert-student", {"teacher_weight"})] == []


def test_value_invalid_for_every_model_is_an_error_before_planning():
    for text in ("much", "x2,-1"):
        with pytest.raises(BenchError, match="learning_rate"):
            check_override("learning_rate", text)


def test_recipe_comparison_has_none_for_a_setting_that_one_recipe_omits():
    found = compare_recipes(BERT, MODELS["xlnet-base-cased"], [TASKS["glue/rte"]])
    ours, theirs = (
        settings(spec.recipe or spec.family or "") for spec in (BERT, MODELS["xlnet-base-cased"])
    )
    shown = {each.setting: (each.first, each.second) for each in found}
    assert shown == {
        name: (ours.get(name), theirs.get(name))
        for name in {*ours, *theirs}
        if name not in ours or name not in theirs or ours[name].value != theirs[name].value
    }
    assert any(None in pair for pair in shown.values())


@pytest.mark.parametrize("said", ["true", "false"])
def test_recipe_file_with_text_to_text_uses_the_defaults_of_the_text_recipe(
    tmp_path: Path, said: str
):
    file, spec = tmp_path / "words.toml", MODELS["t5-small"]
    file.write_text(f'[default]\nas_text = {{ value = {said}, source = "ours" }}\n')
    found, asked = (
        {name: s.value for name, s in resolve_recipe(spec, "glue/rte", *how).settings.items()}
        for how in ((str(file), {}), (None, {"as_text": said}))
    )
    assert found == asked
    assert found.get("as_text", False) is (said == "true")
