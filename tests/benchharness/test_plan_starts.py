"""Tests of planned jobs that start from the encoder of another job."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import BenchError, DataError, ModelError
from benchharness.leaderboard.job import START_FROM, Job
from benchharness.models import MODELS, ModelSpec
from benchharness.models.folder import describe_folder
from benchharness.recipes.read import packaged_names, read_starts
from benchharness.recipes.resolve import with_start_tasks
from benchharness.tasks.suites import TASKS, find_task
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.plans import TINY, plan_job, plan_jobs, write_rte

CHAIN = """
[glue.rte]
start_from = { value = "glue/mnli", source = "a paper" }

[glue.mrpc]
start_from = "glue/mnli"

[superglue.copa]
start_from = "swag/regular"

[swag.regular]
start_from = "glue/mnli"
"""


@pytest.fixture
def chain(tmp_path: Path) -> str:
    file = tmp_path / "chain.toml"
    file.write_text(CHAIN)
    return str(file)


def plan(*names: str, seeds: tuple[int, ...] = (1,), **options: object) -> list[Job]:
    tasks = [find_task(name) for name in names]
    data = options.pop("data", "mini")
    return plan_jobs([TINY], tasks, data, seeds, limit=16, **options).jobs  # type: ignore[arg-type]


def tasks_of(jobs: list[Job]) -> list[str]:
    return [job.task for job in jobs]


def test_start_job_is_planned_once_for_all_jobs_that_start_from_it(chain: str) -> None:
    mnli, rte, mrpc, cola = plan("glue/rte", "mrpc", "cola", recipe=chain)
    assert [mnli.task, rte.task, mrpc.task, cola.task] == [
        f"glue/{name}" for name in ("mnli", "rte", "mrpc", "cola")
    ]
    assert rte.start_from == mrpc.start_from == mnli.key
    assert mnli.start_from is cola.start_from is None
    assert rte.settings[START_FROM].source == "a paper"
    assert rte.started_from == f"glue/mnli (run {mnli.key[:12]})"


def test_start_job_equals_the_same_job_requested_directly(chain: str) -> None:
    (alone,) = plan("mnli", recipe=chain)
    assert plan("glue/rte", recipe=chain)[0] == alone
    asked = plan("glue/rte", "mnli", "ax", recipe=chain)
    assert tasks_of(asked) == ["glue/mnli", "glue/rte"]
    assert asked[0] == alone


def test_job_starts_from_the_start_job_of_the_same_seed(chain: str) -> None:
    jobs = plan("glue/rte", seeds=(1, 2), recipe=chain)
    pairs = {job.seed: job.key for job in jobs if job.task == "glue/mnli"}
    assert {job.seed: job.start_from for job in jobs if job.task == "glue/rte"} == pairs
    assert len(set(pairs.values())) == 2


def test_start_job_can_start_from_another_task(chain: str) -> None:
    mnli, swag, copa = plan("copa", recipe=chain)
    assert tasks_of([mnli, swag, copa]) == ["glue/mnli", "swag/regular", "superglue/copa"]
    assert (swag.start_from, copa.start_from) == (mnli.key, swag.key)


def test_start_task_is_part_of_the_job_key(chain: str) -> None:
    keys = {
        plan("glue/rte", recipe=chain, **options)[-1].key
        for options in ({}, {"start_from": "pretrained"}, {"start_from": "snli/snli"})
    }
    slower = plan("glue/rte", recipe=chain, overrides={"learning_rate": "1e-4"})[-1].key
    assert len(keys | {slower}) == 4


def test_start_from_pretrained_equals_a_recipe_without_start_from(chain: str) -> None:
    (pretrained,) = plan("glue/rte", recipe=chain, start_from="pretrained")
    (plain,) = plan("glue/rte")
    assert pretrained.key == plain.key
    assert pretrained.settings[START_FROM].value == "pretrained"
    assert START_FROM not in plan("cola", recipe=chain, start_from="pretrained")[0].settings


def test_option_start_from_with_a_task_makes_all_other_tasks_start_from_its_model() -> None:
    jobs = plan("cola", "glue/rte", "mnli", start_from="glue/mnli")
    assert tasks_of(jobs) == ["glue/mnli", "glue/cola", "glue/rte"]
    assert {job.start_from for job in jobs} == {None, jobs[0].key}
    assert jobs[1].settings[START_FROM].source == "--start-from"
    assert jobs[0] == plan("mnli")[0]


def test_the_fast_recipe_starts_from_the_pretrained_checkpoint() -> None:
    spec = MODELS["roberta-base"]
    job = plan_job([spec], [TASKS["superglue/rte"]], recipe="fast", limit=16)
    assert job.settings[START_FROM].value == "pretrained"
    assert job.start_from is None
    (job,) = plan("cola", recipe="fast")
    assert START_FROM not in job.settings, "where nothing is named there is nothing to leave out"


def test_start_tasks_of_recipes_are_found_without_planning_jobs() -> None:
    specs = [MODELS[name] for name in ("roberta-base", "bert-base-uncased")]
    tasks = [TASKS["superglue/rte"], TASKS["glue/cola"]]
    names = [task.name for task in with_start_tasks(specs, tasks)]
    assert names == ["superglue/rte", "glue/cola", "glue/mnli"]
    assert with_start_tasks(specs[1:], tasks) == tasks


def test_roberta_recipe_starts_from_mnli_only_on_superglue_tasks() -> None:
    spec, tasks = MODELS["roberta-base"], [TASKS["superglue/rte"], TASKS["glue/rte"]]
    mnli, superglue, glue = plan_jobs([spec], tasks, limit=16).jobs
    assert (superglue.start_from, glue.start_from) == (mnli.key, None)


@pytest.mark.parametrize("name", [name for name, path in packaged_names().items()
                                  if read_starts(path)])  # fmt: skip
def test_start_from_in_every_packaged_recipe_is_a_trained_task_and_has_a_source(name: str) -> None:
    path = packaged_names()[name]
    for table, line in read_starts(path).items():
        assert line.source != path.name, table
        assert line.value == "pretrained" or TASKS[str(line.value)].trained_on is None


# Start from a checkpoint instead of the model's own weights.


def test_start_from_a_checkpoint_replaces_the_weights_of_the_model(
    tmp_path: Path, chain: str
) -> None:
    folder = save_checkpoint(tmp_path / "trained")
    start = describe_folder(folder)
    (job,) = plan("glue/rte", recipe=chain, start_from=start)
    assert (job.model, job.checkpoint) == ("tiny from trained", str(folder))
    assert job.start_from is None
    assert job.started_from == "trained"
    same = plan_job([replace(start, recipe="tiny")], [TASKS["glue/rte"]], limit=16)
    assert job.key == same.key, "the same weights and values are the same job"


def test_a_start_checkpoint_of_another_family_is_an_error(tmp_path: Path) -> None:
    start = describe_folder(save_checkpoint(tmp_path / "other", "roberta"))
    with pytest.raises(ModelError, match="tiny cannot start from other"):
        plan("cola", start_from=start)


def test_a_start_checkpoint_of_an_unknown_family_is_accepted() -> None:
    start = ModelSpec(name="org/x", checkpoint="org/x", revision="ab" * 20)
    (job,) = plan_jobs([MODELS["bert-base-uncased"]], [TASKS["glue/rte"]], "mini", [1], limit=16,
                       start_from=start).jobs  # fmt: skip
    assert (job.model, job.weights) == ("bert-base-uncased from org/x", f"hub:org/x@{'ab' * 20}")


# Errors.


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('start_from = "glue/mnlj"', "no task to start from is called 'glue/mnlj'. Did you mean"),
        ('start_from = "glue/ax"', "glue/rte cannot start from glue/ax .mine.toml"),
        ('start_from = "glue/rte"', "glue/rte cannot start from glue/rte .mine.toml"),
        ("start_from = 3", "no task to start from is called '3'"),
    ],
)
def test_invalid_start_from_in_a_recipe_is_an_error(
    tmp_path: Path, line: str, sentence: str
) -> None:
    (tmp_path / "mine.toml").write_text(f"[glue.rte]\n{line}\n")
    with pytest.raises(BenchError, match=sentence):
        plan("glue/rte", recipe=str(tmp_path / "mine.toml"))


def test_tasks_that_start_from_each_other_in_a_cycle_are_an_error(tmp_path: Path) -> None:
    lines = '[glue.rte]\nstart_from = "glue/mnli"\n[glue.mnli]\nstart_from = "glue/rte"\n'
    (tmp_path / "mine.toml").write_text(lines)
    with pytest.raises(BenchError, match="glue/rte starts from glue/mnli"):
        plan("glue/rte", recipe=str(tmp_path / "mine.toml"))


def test_start_from_cannot_be_set_as_a_hyperparameter() -> None:
    with pytest.raises(BenchError, match="no hyperparameter is called 'start_from'"):
        plan("glue/rte", overrides={"start_from": "glue/mnli"})


def test_missing_start_task_data_are_an_error_suggesting_start_from_pretrained(
    tmp_path: Path, chain: str
) -> None:
    data = str(write_rte(tmp_path / "data"))
    error = r"\nglue/mnli: no MNLI/train.* a task starts from this one, unless you"
    with pytest.raises(DataError, match=error):
        plan("glue/rte", recipe=chain, data=data)
    assert tasks_of(plan("glue/rte", recipe=chain, data=data, start_from="pretrained")) == [
        "glue/rte"
    ]
