"""Models that runs have kept predict what is stored; what was not kept is trained again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import benchharness as bh
from benchharness.driver import retrain as retraining
from benchharness.driver.options import RunOptions
from benchharness.driver.retrain import compared, retrain
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result, to_row
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import digest
from benchharness.splits import read_split
from benchharness.tasks.errors import BenchError, JobError
from benchharness.trained.load import load_trained
from benchharness.trained.predict import predict
from benchharness.worker.checkpoint import KeptRun
from benchharness.worker.job import run_job
from tests.helpers.families import save_family
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
    """The kept model says of every split what the run has stored, and job.json whose it is."""
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
        assert [to_row(one) for one in found] == list(each.predictions)


@pytest.mark.parametrize("way", WAYS)
def test_a_kept_model_predicts_what_its_run_has_stored(tmp_path: Path, way: str) -> None:
    job = WAYS[way]()
    check(job, tmp_path / "kept", run_job(job, keep=tmp_path / "kept"))


def test_so_does_a_students(tmp_path: Path) -> None:
    teacher = make_job("glue/rte", limit=16)
    run_job(teacher, keep=tmp_path / "teacher")
    overrides = {"epochs": "1", "evaluations": "1", "layers": "1"}
    planned = plan_jobs(
        "tiny", "glue/rte", overrides=overrides, limit=16, precision="fp32", teacher=(teacher,)
    )
    student = planned.jobs[-1]
    result = run_job(student, teacher=tmp_path / "teacher", keep=tmp_path / "student")
    check(student, tmp_path / "student", result)


def test_so_does_gpts_whose_vocabulary_has_grown(tmp_path: Path) -> None:
    checkpoint = str(save_family(tmp_path / "gpt", "gpt2"))
    job = make_job("glue/rte", limit=8, model=checkpoint)
    check(job, tmp_path / "kept", run_job(job, keep=tmp_path / "kept"))


def test_files_are_for_whom_the_umask_lets_read(tmp_path: Path) -> None:
    run_job(make_job("glue/rte", limit=8), keep=tmp_path / "kept")
    (tmp_path / "plain").touch()
    modes = {path.stat().st_mode for path in (*(tmp_path / "kept").iterdir(), tmp_path / "plain")}
    assert len(modes) == 1


# What was not kept.


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a finished run, whose model was not kept, and a baseline."""
    db = tmp_path_factory.mktemp("store") / "board.sqlite"
    bh.run(
        "tiny", task="glue/rte", data="mini", limit=16, seeds=1, device="cpu", precision="fp32",
        set={"epochs": 1}, db=db, progress=False,
    )  # fmt: skip
    return db


def key_of(db: Path, model: str = "tiny") -> str:
    with open_store(str(db)) as store:
        return store.runs(model=model)[0].key


@pytest.fixture
def options(stored: Path) -> Iterator[RunOptions]:
    yield RunOptions(db=str(stored))
    for folder in (stored.parent / "models").glob("*"):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def test_a_model_that_was_not_kept_is_trained_again_to_the_same_bits(
    stored: Path, options: RunOptions
) -> None:
    with open_store(options.db) as store:
        before = list(store.stored_runs())
    folder, said = retrain(key_of(stored)[:12], options)
    assert said == "trained again: the stored predictions, to the bit."
    with open_store(options.db) as store:
        assert list(store.stored_runs()) == before
        result = store.result(key_of(stored))
    assert isinstance(result, Result)
    check(result.job, folder, result)
    assert retrain(key_of(stored), options) == (folder, "")


def test_where_it_would_be_another_model_that_is_said_before(
    stored: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retraining, "versions", lambda: {"torch": "9.0"})
    with pytest.raises(BenchError, match=r"not be the same model .* torch \(.* then, 9.0 now\)"):
        retrain(key_of(stored), options)
    assert not (stored.parent / "models").exists()
    assert retrain(key_of(stored), options, anyway=True)[1]


def test_what_has_no_network_and_what_fails_is_said(stored: Path, options: RunOptions) -> None:
    with pytest.raises(BenchError, match="is a baseline, which has no model"):
        retrain(key_of(stored, "majority"), options)
    (stored.parent / "models").mkdir(exist_ok=True)
    (stored.parent / "models" / key_of(stored)).write_text("in the way")
    with pytest.raises(JobError, match="cannot be written to"):
        retrain(key_of(stored), options)
    (stored.parent / "models" / key_of(stored)).unlink()


def test_other_answers_are_counted(stored: Path) -> None:
    with open_store(str(stored)) as store:
        result: Any = store.result(key_of(stored))
    dev = result.evaluations[0]
    first, second, *rest = (dict(row) for row in dev.predictions)
    other = {"entailment", "not_entailment"} - {first["label"]}
    scores = [round(second["scores"][0] + 0.04, 9), *second["scores"][1:]]
    changed = (first | {"label": other.pop()}, second | {"scores": scores}, *rest)
    found = replace(result, evaluations=(replace(dev, predictions=changed),))
    assert compared(result, found) == (
        f"trained again, 1 of {len(dev.predictions)} answers are others than stored "
        "(a probability moved by 0.04 at most)."
    )
