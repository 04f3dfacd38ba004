from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.driver import plan
from benchharness.driver.plan import resolve_precision
from benchharness.errors import BenchError, DataError
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import TASKS
from tests.helpers.plans import (
    AX,
    COLA,
    MNLI,
    RTE,
    TINY,
    plan_job,
    plan_jobs,
    plan_mini,
    write_rte,
)

# Jobs of a plan.


def test_plan_has_one_job_per_model_task_and_seed_in_that_order() -> None:
    other = replace(TINY, name="other", checkpoint="org/other", revision="ab" * 20)
    jobs = plan_jobs([TINY, other], [RTE, COLA], "mini", [3, 1]).jobs
    assert [(j.model, j.task, j.seed) for j in jobs] == [
        (model, task, seed)
        for model in ("tiny", "other")
        for task in ("glue/rte", "glue/cola")
        for seed in (3, 1)
    ]
    assert len({job.key for job in jobs}) == 8


def test_planned_job_has_the_requested_recipe_settings_and_limit() -> None:
    (job,) = plan_mini("rte", recipe="fast", overrides={"batch_size": "4"}, limit=20)
    assert (job.checkpoint, job.data, job.limit, job.task_version) == (
        "builtin:tiny",
        "mini",
        20,
        1,
    )
    assert job.weights.startswith("builtin:tiny@")
    assert (job.recipe_label, job.settings["batch_size"].value) == ("fast+set", 4)
    dev = read(RTE, "dev", parse_data("mini"), 20)
    assert job.fingerprints["glue/rte:dev"] == dev.fingerprint


def test_duplicate_models_tasks_and_seeds_are_planned_as_one_job() -> None:
    twin = replace(TINY, name="twin")
    job = plan_job([TINY, twin], [RTE, RTE], "mini", [1, 1])
    assert [job] == plan_mini("rte")


def test_job_key_does_not_depend_on_the_data_folder(tmp_path: Path) -> None:
    first = plan_jobs([TINY], [RTE], str(write_rte(tmp_path / "a"))).jobs
    second = plan_jobs([TINY], [RTE], str(write_rte(tmp_path / "b" / "glue").parent)).jobs
    assert first[0].data != second[0].data
    assert first[0].key == second[0].key


def test_changed_data_row_changes_the_job_key(tmp_path: Path) -> None:
    folder = write_rte(tmp_path)
    before = plan_job([TINY], [RTE], str(folder))
    file = folder / "RTE" / "dev.tsv"
    file.write_text(file.read_text().replace("dev a 1", "dev a one"))
    after = plan_job([TINY], [RTE], str(folder))
    changed = {s for s in after.fingerprints if after.fingerprints[s] != before.fingerprints[s]}
    assert changed == {"glue/rte:dev"}
    assert before.key != after.key


def test_limit_not_below_the_number_of_rows_has_no_effect(tmp_path: Path) -> None:
    data = str(write_rte(tmp_path, rows=5))
    whole = plan_job([TINY], [RTE], data)
    same = plan_job([TINY], [RTE], data, limit=5)
    cut = plan_job([TINY], [RTE], data, limit=4)
    assert same == whole
    assert (whole.limit, cut.limit) == (None, 4)
    assert cut.key != whole.key


def test_predictions_on_the_test_split_are_planned_on_request(tmp_path: Path) -> None:
    folder = write_rte(tmp_path, splits={"train": True, "dev": True, "test": False})
    for test, expected in [(False, {"train", "dev"}), (True, {"train", "dev", "test"})]:
        job = plan_job([TINY], [RTE], str(folder), test=test)
        assert set(job.fingerprints) == {f"glue/rte:{split}" for split in expected}


# Tasks that the model of another task predicts.


def test_the_glue_diagnostic_is_predicted_by_the_mnli_job() -> None:
    jobs = [plan_mini(*names) for names in (("mnli",), ("ax",), ("mnli", "ax"), ("ax", "mnli"))]
    assert all(job == jobs[0] for job in jobs)
    (job,) = jobs[0]
    assert job.task == "glue/mnli"
    assert job.predicted_splits == (
        ("glue/mnli", "dev"),
        ("glue/mnli", "dev_mm"),
        ("glue/ax", "test"),
    )


def test_new_task_version_of_the_glue_diagnostic_changes_only_the_mnli_job_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (mnli, rte), changed = plan_mini("mnli", "rte"), replace(AX, version=2)
    tasks = {**TASKS, AX.name: changed}
    monkeypatch.setattr(plan, "TASKS", tasks)
    monkeypatch.setattr(plan, "find_task", tasks.__getitem__)
    again, same = plan_mini("mnli", "rte")
    assert (mnli.task_version, again.task_version) == (1, 2)
    assert again.key != mnli.key
    assert same.key == rte.key


def test_glue_suite_is_planned_as_nine_jobs_per_seed() -> None:
    jobs = plan_jobs([TINY], list(TASKS.values())).jobs
    glue = [job.task for job in jobs if job.task.startswith("glue/")]
    assert glue == [name for name in TASKS if name.startswith("glue/") and name != "glue/ax"]


def without_ax(folder: Path) -> Path:
    (folder / "MNLI").mkdir()
    columns = ["index"] * 8 + ["sentence1", "sentence2"] + ["label"] * 5 + ["gold_label"]
    row = ["0"] * 8 + ["a", "b"] + ["neutral"] * 6
    for name in ("train", "dev_matched", "dev_mismatched"):
        text = "\t".join(columns) + "\n" + "\t".join(row) + "\n"
        (folder / "MNLI" / f"{name}.tsv").write_text(text)
    return folder


def test_mnli_job_is_planned_if_the_glue_diagnostic_is_missing(tmp_path: Path) -> None:
    job = plan_job([TINY], [MNLI], str(without_ax(tmp_path)))
    assert {task for task, _ in job.predicted_splits} == {"glue/mnli"}


def test_requested_glue_diagnostic_with_missing_data_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="diagnostic"):
        plan_jobs([TINY], [AX], str(without_ax(tmp_path)))


# Errors.


def test_invalid_setting_is_reported_once_for_several_tasks() -> None:
    with pytest.raises(BenchError) as caught:
        plan_mini("rte", "cola", overrides={"epoch": "3", "warmup_ratio": "7"})
    lines = sorted(str(caught.value).splitlines())
    assert [line.split()[0] for line in lines] == ["no", "warmup_ratio"]


def test_invalid_settings_are_reported_before_missing_data() -> None:
    with pytest.raises(BenchError, match="epochs is 'x'"):
        plan_jobs([TINY], [RTE], "no-such-folder", overrides={"epochs": "x"})


def test_missing_data_folder_is_a_data_error() -> None:
    with pytest.raises(DataError, match="no-such-folder"):
        plan_jobs([TINY], [RTE], "no-such-folder")


# Precision.


@pytest.mark.parametrize(
    ("asked", "gpu", "cpu", "expected"),
    [
        ("auto", True, False, "bf16"),
        ("auto", False, True, "bf16"),
        ("auto", False, False, "fp32"),
        ("fp32", True, True, "fp32"),
        ("bf16", False, False, "bf16"),
    ],
)
def test_auto_precision_is_bf16_if_the_machine_supports_it(
    asked: str, gpu: bool, cpu: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "cpu_has_bf16", lambda: cpu)
    assert resolve_precision(asked, gpu=gpu) == expected
