"""Tests of the recipe for few rows, and of its choice for small custom data."""

import json
from pathlib import Path

import pytest

from benchharness.driver.few_rows import FEW_ROWS, LEAST_STEPS, enough_steps
from benchharness.driver.options import in_python
from benchharness.driver.plan import Plan, plan
from benchharness.leaderboard.job import Job, shown_source
from benchharness.models import MODELS, ModelSpec
from benchharness.recipes import resolve_recipe
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.plans import plan_mini, request_of


def own_plan(folder: Path, pairs: int, *words: str, **options: object) -> Plan:
    """Plan a run on a file with this many pairs of rows, of which a fifth becomes dev."""
    lines = (f"a {word} film number {n},{word}" for n in range(pairs) for word in ("good", "bad"))
    (folder / "reviews.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    path = str(folder / "reviews.csv")
    asked = {"data_file": path, "seeds": 1, "set": words, "baselines": False, **options}
    return plan(request_of(**asked))


def own_job(folder: Path, pairs: int, *words: str, **options: object) -> Job:
    (job,) = own_plan(folder, pairs, *words, **options).jobs
    return job


def test_small_custom_data_get_the_recipe_for_few_rows_as_the_plan_states(
    tmp_path: Path,
) -> None:
    found = own_plan(tmp_path, 80)
    (job,) = found.jobs
    assert (job.recipe_label, job.values["steps"]) == (FEW_ROWS, enough_steps())
    (note,) = found.notes
    assert note == (
        "reviews: the recipe few-rows is used, because the model's own recipe would take only "
        f"24 steps on 128 rows (fewer than {LEAST_STEPS}). few-rows takes {enough_steps()} steps; "
        "--recipe paper keeps the model's own recipe."
    )
    assert in_python(note).endswith(' recipe="paper" keeps the model\'s own recipe.')
    source = shown_source(job.settings["steps"].source)
    assert source.startswith("benchharness default: by measurement, docs/log.md")
    assert job == Job.from_json(json.loads(json.dumps(job.to_json())))


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), {"recipe": "paper"}),
        (("epochs=6",), {}),
        (("steps=24",), {}),
        ((), {"shots": "16"}),
        ((), {"limit": 100}),
    ],
    ids=["recipe", "epochs", "steps", "shots", "limit"],
)
def test_chosen_recipe_or_training_length_is_kept_for_few_rows(
    words: tuple[str, ...], options: dict[str, object], tmp_path: Path
) -> None:
    found = own_plan(tmp_path, 80, *words, **options)
    (job,) = found.jobs
    assert job.recipe == "paper"
    assert FEW_ROWS not in " ".join(found.notes).partition("takes only")[0]


def test_recipes_default_epochs_as_a_setting_give_the_job_key_of_the_recipe(tmp_path: Path) -> None:
    """Runs that were stored before the choice existed are found again."""
    paper = own_job(tmp_path, 80, recipe="paper")
    assert own_job(tmp_path, 80, "epochs=6").key == paper.key
    assert own_job(tmp_path, 80).key != paper.key


def test_custom_data_with_enough_rows_keep_the_models_own_recipe_and_job_key(
    tmp_path: Path,
) -> None:
    found = own_plan(tmp_path, 400)
    (job,) = found.jobs
    assert (job.recipe, job.values["epochs"], found.notes) == ("paper", 6.0, ())
    assert job.key == own_job(tmp_path, 400, recipe="paper").key
    assert own_job(tmp_path, 300).recipe == FEW_ROWS, "15 steps in each of 6 epochs are fewer"


def test_limit_that_excludes_no_rows_changes_neither_recipe_nor_job_key(tmp_path: Path) -> None:
    assert own_job(tmp_path, 80, limit=1000).key == own_job(tmp_path, 80).key


def test_benchmark_tasks_keep_their_recipe_whatever_the_number_of_rows() -> None:
    (job,) = plan_mini("rte", limit=20)
    assert job.recipe == "paper"


def test_settings_of_the_user_override_the_recipe_for_few_rows(tmp_path: Path) -> None:
    job = own_job(tmp_path, 80, "learning_rate=3e-4")
    assert (job.recipe_label, job.values["learning_rate"]) == (f"{FEW_ROWS}+set", 3e-4)
    sweep = own_plan(tmp_path, 80, "learning_rate=x1,x2").jobs
    assert {each.recipe for each in sweep} == {FEW_ROWS}


def test_setting_that_is_incompatible_with_the_recipe_for_few_rows_keeps_the_models_own_recipe(
    tmp_path: Path,
) -> None:
    """A batch of 16 rows cannot have 32 micro-batches, but one of the model's own recipe can."""
    job = own_job(tmp_path, 80, "accumulation=32")
    assert (job.recipe, job.values["batch_size"]) == ("paper", 32)


def test_plan_names_the_models_that_get_the_recipe_for_few_rows(tmp_path: Path) -> None:
    """The own recipe of `tiny` has twice as many epochs as that of the other model."""
    save_checkpoint(tmp_path / "other")
    models = (f"other={tmp_path / 'other'}", "tiny")
    found = own_plan(tmp_path, 200, model=models)
    assert {job.model: job.recipe for job in found.jobs} == {"other": FEW_ROWS, "tiny": FEW_ROWS}
    starts = [note.partition(" steps on")[0] for note in found.notes]
    own = "is used for {}, because the model's own recipe would take only {}"
    assert starts == [
        f"reviews: the recipe few-rows {own.format('other', 30)}",
        f"reviews: the recipe few-rows {own.format('tiny', 60)}",
    ]


def test_teacher_on_small_custom_data_gets_the_recipe_for_few_rows(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "teacher")
    jobs = own_plan(tmp_path, 80, teacher=str(tmp_path / "teacher")).jobs
    assert len({job.model for job in jobs}) == 2
    assert {job.recipe for job in jobs} == {FEW_ROWS}


def test_chosen_recipe_with_very_few_steps_is_warned_about(tmp_path: Path) -> None:
    (note,) = own_plan(tmp_path, 80, "batch_size=64", recipe="paper").notes
    assert note == (
        "reviews: training on 128 rows takes only 12 steps, which may be too few to learn from; "
        f"the recipe few-rows (--recipe) takes {enough_steps()} steps."
    )
    assert in_python(note).endswith(f"few-rows (recipe=) takes {enough_steps()} steps.")
    assert own_plan(tmp_path, 80, recipe="paper").notes == (), "24 steps"
    assert own_plan(tmp_path, 80, "batch_size=64", "epochs=3").notes == (), "it was chosen"


def test_warning_about_few_steps_names_the_models_if_there_are_several(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "other")
    models = (f"other={tmp_path / 'other'}", "tiny")
    (note,) = own_plan(tmp_path, 100, model=models, recipe="paper").notes
    assert note.startswith("reviews: training other on 160 rows takes only 15 steps")


# Learning rates of small encoders.


def encoder(folder: Path, size: int, family: str = "bert") -> ModelSpec:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": family, "hidden_size": size}))
    return ModelSpec(name="mine", checkpoint=str(folder), family=family)


def rate(model: ModelSpec, recipe: str | None = FEW_ROWS, **values: str) -> object:
    return resolve_recipe(model, "glue/rte", recipe, values).settings["learning_rate"].value


def test_recipe_for_few_rows_raises_the_learning_rate_of_small_encoders(tmp_path: Path) -> None:
    small, large = encoder(tmp_path / "a", 384), encoder(tmp_path / "b", 512)
    own = rate(small, None)
    assert rate(small) > own
    assert rate(large) == rate(large, None) == own
    assert rate(small, learning_rate="2e-6") == 2e-6
    assert rate(small, features="last") == rate(small, None, features="last")


def test_recipe_for_few_rows_does_not_lower_a_high_learning_rate(tmp_path: Path) -> None:
    assert rate(MODELS["tiny"]) == rate(MODELS["tiny"], None) == 1e-3


def test_user_recipe_may_have_values_for_small_encoders(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[default]\nepochs = 4\n\n[small]\nepochs = 9\nlearning_rate = 1e-3\n")
    small, large = encoder(tmp_path / "a", 384), encoder(tmp_path / "b", 768)
    found = [resolve_recipe(each, "glue/rte", str(file), {}).settings for each in (small, large)]
    assert [each["epochs"].value for each in found] == [9.0, 4.0]
    assert found[0]["learning_rate"].value == 1e-3
    assert found[1]["learning_rate"].value < 1e-3


def test_hidden_size_is_read_under_the_names_of_all_families(tmp_path: Path) -> None:
    spec = encoder(tmp_path / "a", 384, "distilbert")
    file = tmp_path / "a" / "config.json"
    assert rate(spec) > rate(spec, None)
    file.write_text(json.dumps({"model_type": "distilbert", "dim": 384}))
    assert rate(spec) > rate(spec, None)
    file.write_text(json.dumps({"model_type": "distilbert"}))
    assert rate(spec) == rate(spec, None), "unknown"
