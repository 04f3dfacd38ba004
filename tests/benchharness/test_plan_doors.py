"""Tests of planning with custom data folders: equal keys for equal rows, lists of missing files."""

import shutil
from pathlib import Path

import pytest

from benchharness.driver.plan import MOST_LINES
from benchharness.errors import DataError
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import SUITES, TASKS
from tests.helpers.archives import files_in, zip_of
from tests.helpers.plans import AX, COLA, MNLI, RTE, TINY, plan_jobs

GLUE = [TASKS[name] for name in SUITES["glue"].tasks]


def some_of_glue(folder: Path, *names: str) -> str:
    for name in names:
        shutil.copytree(mini_folder() / "glue" / name, folder / "glue_data" / name.lower())
    return str(folder)


def refusal(data: str, *tasks: str, **options: object) -> list[str]:
    found = [TASKS[name] for name in tasks] or GLUE
    with pytest.raises(DataError) as caught:
        plan_jobs([TINY], found, data, [1], **options)  # type: ignore[arg-type]
    return str(caught.value).splitlines()


def test_job_key_is_the_same_for_packaged_folder_and_zip_data(tmp_path: Path) -> None:
    shutil.copytree(mini_folder() / "glue" / "CoLA", tmp_path / "a" / "GLUE" / "cola")
    archive = zip_of(tmp_path / "CoLA.zip", files_in(mini_folder() / "glue" / "CoLA", "CoLA"))
    doors = ["mini", *(str(tmp_path / name) for name in ("a", "a/GLUE", "a/GLUE/cola")), archive]
    keys = {plan_jobs([TINY], [COLA], str(door)).jobs[0].key for door in doors}
    assert len(keys) == 1


def test_all_missing_data_files_are_reported_before_any_file_is_read(tmp_path: Path) -> None:
    data = some_of_glue(tmp_path, "CoLA", "RTE", "MNLI", "WNLI")
    (tmp_path / "glue_data" / "mnli" / "dev_matched.tsv").unlink()
    (tmp_path / "glue_data" / "cola" / "train.tsv").write_text("damaged")
    first, *lines = refusal(data)
    assert "lacks files for 7 of the 10 tasks" in first
    assert [line.partition(":")[0] for line in lines] == [
        *("glue/sst2", "glue/mrpc", "glue/stsb", "glue/qqp", "glue/mnli", "glue/qnli", "glue/ax")
    ]
    assert "no SST-2/train.tsv (train), SST-2/dev.tsv" in lines[0]
    assert lines[4] == "glue/mnli: no MNLI/dev_matched.tsv (dev)."


def test_error_about_missing_files_has_a_limited_number_of_lines(tmp_path: Path) -> None:
    of_files = [n for n, task in TASKS.items() if not (task.source.reader and not task.source.hub)]
    lines = refusal(str(tmp_path), *of_files)
    assert len(lines) == MOST_LINES + 2
    assert lines[-1] == f"and {len(of_files) - MOST_LINES} more tasks."


def test_error_about_one_task_without_files_does_not_suggest_skip_missing(tmp_path: Path) -> None:
    first, line = refusal(str(tmp_path), "glue/cola")
    assert f"{tmp_path} lacks files for glue/cola" in first
    assert "--skip-missing" not in first
    assert "no CoLA/train.tsv (train), CoLA/dev.tsv" in line


def test_skip_missing_runs_the_other_tasks_and_names_the_skipped_ones(tmp_path: Path) -> None:
    data = some_of_glue(tmp_path, "CoLA", "RTE")
    plan = plan_jobs([TINY], GLUE, data, skip_missing=True)
    assert [job.task for job in plan.jobs] == ["glue/cola", "glue/rte"]
    assert list(plan.left_out) == [
        *("glue/sst2", "glue/mrpc", "glue/stsb", "glue/qqp", "glue/mnli", "glue/qnli"),
        *("glue/wnli", "glue/ax"),
    ]
    assert plan.left_out["glue/qqp"] == "no QQP/train.tsv (train), QQP/dev.tsv (dev)"
    alone = plan_jobs([TINY], [COLA, RTE], data)
    assert [job.key for job in alone.jobs] == [job.key for job in plan.jobs]
    assert alone.left_out == {}


def test_skip_missing_is_an_error_if_every_task_lacks_files(tmp_path: Path) -> None:
    first, *_ = refusal(str(tmp_path), skip_missing=True)
    assert "lacks files for 10 of the 10 tasks" in first


def test_skip_missing_does_not_skip_damaged_files(tmp_path: Path) -> None:
    data = some_of_glue(tmp_path, "CoLA", "RTE")
    (tmp_path / "glue_data" / "cola" / "dev.tsv").write_text("damaged")
    (line,) = refusal(data, skip_missing=True)
    assert "dev.tsv line 1" in line


def test_glue_diagnostic_is_skipped_if_mnli_data_are_missing(tmp_path: Path) -> None:
    data = some_of_glue(tmp_path, "CoLA", "diagnostic")
    plan = plan_jobs([TINY], [COLA, MNLI, AX], data, skip_missing=True)
    assert [job.task for job in plan.jobs] == ["glue/cola"]
    assert plan.left_out["glue/ax"].startswith("glue/mnli has no MNLI/train.tsv")
    _, line = refusal(data, "glue/ax")
    assert line.startswith("glue/mnli: no MNLI/train.tsv")
    assert "--start-from" not in line


def test_task_is_skipped_if_data_of_its_start_task_are_missing(tmp_path: Path) -> None:
    data = some_of_glue(tmp_path, "CoLA", "RTE")
    options = {"start_from": "glue/mnli", "skip_missing": True}
    first, line = refusal(data, "glue/rte", **options)
    assert "lacks files for glue/rte" in first
    assert line.startswith("glue/mnli: no MNLI/train.tsv")
    assert line.endswith("unless you pass --start-from pretrained.")
    lines = '[default]\nlearning_rate = 1e-3\nepochs = 1\n[glue.rte]\nstart_from = "glue/mnli"\n'
    (tmp_path / "chain.toml").write_text(lines)
    plan = plan_jobs(
        [TINY], [COLA, RTE], data, recipe=str(tmp_path / "chain.toml"), skip_missing=True
    )
    assert [job.task for job in plan.jobs] == ["glue/cola"]
    assert plan.left_out["glue/rte"].startswith("glue/mnli has no MNLI/train.tsv")


def test_data_folder_not_named_after_a_task_can_be_used_for_only_one_task(tmp_path: Path) -> None:
    shutil.copytree(mini_folder() / "glue" / "RTE", tmp_path / "mine")
    data = str(tmp_path / "mine")
    assert len(plan_jobs([TINY], [RTE], data).jobs) == 1
    assert len(refusal(data, "glue/rte", "glue/wnli")) == 3
