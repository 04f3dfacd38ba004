"""Kept models reproduce stored predictions; models that were not kept are retrained."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.driver import retrain as retraining
from benchharness.driver.options import RunOptions
from benchharness.driver.retrain import retrain
from benchharness.driver.start_checkpoints import compared
from benchharness.errors import BenchError, JobError
from benchharness.extensions.kept_models.load import load_trained
from benchharness.extensions.kept_models.predict import predict
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result, to_row
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import digest
from benchharness.splits import read_split
from benchharness.worker.checkpoint import KeptRun
from benchharness.worker.job import run_job
from tests.helpers.families import save_family
from tests.helpers.full_disk import room_for
from tests.helpers.mini_jobs import make_job, make_shared_job
from tests.helpers.plans import plan_jobs

SEVERAL = {"evaluations": "3", "epochs": "3"}

WAYS = {
    "cut vocabulary": lambda: make_job("glue/rte", limit=16),
    "a number": lambda: make_job("glue/stsb", limit=16),
    "spans": lambda: make_job("squad/v1.1", limit=8),
    "adapters": lambda: make_job("glue/cola", limit=16, lora_rank="2"),
    "averaged": lambda: make_job("glue/cola", limit=16, average_last="2", **SEVERAL),
    "the best": lambda: make_job("glue/cola", limit=16, best_checkpoint="true", **SEVERAL),
    "tasks together": lambda: make_shared_job("conll2003/ner", "glue/rte", "glue/cola", limit=16),
}


def check(job: Job, folder: Path, result: Result) -> None:
    """Check that the kept model reproduces every stored prediction and job.json fits the run."""
    run = KeptRun.read(folder)
    assert run.job == job
    assert run.versions.keys() >= {"benchharness", "python", "torch", "transformers"}
    assert run.splits.keys() == {each.name for each in result.evaluations}
    for each in result.evaluations:
        said = run.splits[each.name]
        assert said["scores"] == each.scores
        assert (said["predictions"], said["rows"]) == (
            digest(each.predictions),
            len(each.predictions),
        )
        model = load_trained(folder, each.task)
        assert model.limits == run.limits
        found = predict(model, read_split(job, each.name).examples).predictions
        rows = [to_row(one) for one in found]
        if "lora_rank" in job.settings or job.trained_tasks[1:]:
            # Probabilities differ by rounding: adapters are merged, and the last layer computes
            # fewer tokens.
            assert [row | {"scores": 0} for row in rows] == [
                row | {"scores": 0} for row in each.predictions
            ]
            for row, known in zip(rows, each.predictions, strict=True):
                assert row.get("scores", []) == pytest.approx(known.get("scores", []), abs=1e-6)
        else:
            assert rows == list(each.predictions)


@pytest.mark.parametrize("way", WAYS)
def test_saved_model_reproduces_the_stored_predictions(tmp_path: Path, way: str) -> None:
    job = WAYS[way]()
    check(job, tmp_path / "kept", run_job(job, keep=tmp_path / "kept"))


def test_saved_student_model_reproduces_the_stored_predictions(tmp_path: Path) -> None:
    teacher = make_job("glue/rte", limit=16)
    run_job(teacher, keep=tmp_path / "teacher")
    overrides = {"epochs": "1", "evaluations": "1", "layers": "1"}
    planned = plan_jobs(
        "tiny", "glue/rte", overrides=overrides, limit=16, precision="fp32", teacher=(teacher,)
    )
    student = planned.jobs[-1]
    result = run_job(student, teacher=tmp_path / "teacher", keep=tmp_path / "student")
    check(student, tmp_path / "student", result)


def test_saved_gpt2_model_with_added_tokens_reproduces_predictions(tmp_path: Path) -> None:
    checkpoint = str(save_family(tmp_path / "gpt", "gpt2"))
    job = make_job("glue/rte", limit=8, model=checkpoint)
    check(job, tmp_path / "kept", run_job(job, keep=tmp_path / "kept"))


def test_full_disk_leaves_no_partially_saved_model(tmp_path: Path) -> None:
    job = make_job("glue/rte", limit=8)
    with room_for(1_000_000), pytest.raises(JobError, match="this run cannot be written to"):
        run_job(job, keep=tmp_path / "models" / "kept")
    assert list((tmp_path / "models").iterdir()) == []


def test_permissions_of_saved_model_files_follow_the_umask(tmp_path: Path) -> None:
    run_job(make_job("glue/rte", limit=8), keep=tmp_path / "kept")
    (tmp_path / "plain").touch()
    modes = {path.stat().st_mode for path in (*(tmp_path / "kept").iterdir(), tmp_path / "plain")}
    assert len(modes) == 1


# Models that were not kept.


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Result]:
    """Store with a finished run whose model was not kept, and that run."""
    result = run_job(make_job("glue/rte", limit=16))
    db = str(tmp_path_factory.mktemp("store") / "board.sqlite")
    with open_store(db) as store:
        store.add_result(result)
        store.add_result(replace(result, job=replace(result.job, kind="baseline", seed=7)))
    return db, result


def test_retrained_model_reproduces_the_stored_predictions_exactly(
    stored: tuple[str, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    (db, result), options = stored, RunOptions(db=stored[0])
    key = result.job.key
    with open_store(db) as store:
        before = list(store.stored_runs())
    with monkeypatch.context() as patch:
        patch.setattr(retraining, "versions", lambda: {"torch": "9.0"})
        with pytest.raises(BenchError, match=r"reproduce the model .* torch \(.* then, 9.0 now\)"):
            retrain(key, options)
        patch.setattr("benchharness.kept_folders.shutil.disk_usage", lambda _: FULL)
        with pytest.raises(JobError, match=r"1 MB free, and 2.68 MB are needed for 1 model"):
            retrain(key, options, anyway=True)
    assert not (Path(db).parent / "models").exists()
    folder, said = retrain(key[:12], options)
    assert said == "trained again: the predictions are bit-identical to the stored ones."
    with open_store(db) as store:
        assert list(store.stored_runs()) == before
    check(result.job, folder, result)
    assert retrain(key, options) == (folder, "")


def test_retraining_ignores_versions_that_do_not_change_results(
    stored: tuple[str, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, result = stored
    assert retraining._what_differs(result) == ""
    now = {**retraining.versions(), "datasets": "99", "safetensors": "99", "triton": "99"}
    monkeypatch.setattr(retraining, "versions", lambda: now)
    assert retraining._what_differs(result) == "", "of a CPU, whatever reads files or is of GPUs"
    now["torch"] = "99"
    assert retraining._what_differs(result).startswith("torch (")


FULL = shutil.disk_usage("/")._replace(free=1_000_000)


def test_retraining_a_baseline_is_an_error(stored: tuple[str, Result]) -> None:
    db, result = stored
    with pytest.raises(BenchError, match="is a baseline: it has no trained network"):
        retrain(replace(result.job, kind="baseline", seed=7).key, RunOptions(db=db))


def test_retraining_reports_the_number_of_changed_predictions(stored: tuple[str, Result]) -> None:
    _, result = stored
    dev = result.evaluations[0]
    count = sum(len(each.predictions) for each in result.evaluations)
    first, second, *rest = (dict(row) for row in dev.predictions)
    other = {"entailment", "not_entailment"} - {first["label"]}
    scores = [round(second["scores"][0] + 0.04, 9), *second["scores"][1:]]
    changed = (first | {"label": other.pop()}, second | {"scores": scores}, *rest)
    found = replace(
        result, evaluations=(replace(dev, predictions=changed), *result.evaluations[1:])
    )
    assert compared(result, found) == (
        f"trained again: 1 of {count} answers differ from the stored ones "
        "(a probability changed by at most 0.04)."
    )
