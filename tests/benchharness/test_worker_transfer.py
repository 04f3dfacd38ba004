"""Tests of whole jobs with frozen features and with adapters."""

from pathlib import Path
from typing import Any

import pytest

from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.recipes.recipe import FEATURES, FINE_TUNED
from benchharness.worker.job import run_job
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.plans import plan_job

TASKS = ("glue/cola", "superglue/wic", "swag/regular", "squad/v1.1", "conll2003/ner")
"""One task per head type, and one with marked spans."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model") / "four"
    return str(save_checkpoint(folder, num_hidden_layers=4, max_position_embeddings=72))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    return tmp_path / "states"


def make_job(model: str, task: str, **overrides: Any) -> Job:
    quick = {"epochs": "1", "evaluations": "1", "max_tokens": "64", "batch_size": "8"}
    texts = {name: str(value) for name, value in overrides.items()}
    return plan_job(model, task, overrides=quick | texts, limit=16, precision="fp32")


def run(model: str, task: str, **overrides: Any) -> Result:
    return run_job(make_job(model, task, **overrides))


@pytest.mark.parametrize("task", TASKS)
def test_every_head_learns_from_frozen_features(model: str, task: str, cache: Path):
    first = run(model, task, features="mix")
    files = {file: file.stat().st_mtime_ns for file in cache.glob("*.npy")}
    assert first.evaluations[0].scores
    assert len(files) == 2, "train and dev"
    again = run(model, task, features="mix")
    assert again.evaluations == first.evaluations
    assert {file: file.stat().st_mtime_ns for file in cache.glob("*.npy")} == files
    assert first.cost.parameters > 30_000, "the frozen encoder counts too"


def test_jobs_on_different_feature_layers_share_cache_files(model: str, cache: Path):
    choices = [name for name in FEATURES if name != FINE_TUNED]
    results = [run(model, "glue/cola", features=choice) for choice in choices]
    assert len(list(cache.glob("*.npy"))) == 2
    # The encoder has four layers, so sum-last-4 equals sum-all.
    assert len({str(r.evaluations[0].predictions) for r in results}) == len(choices) - 1


def test_an_lstm_on_frozen_features_is_deterministic(model: str):
    values = {"features": "layer-1", "lstm_size": 8, "learning_rate": 1e-2, "epochs": 6}
    first, again = (run(model, "conll2003/ner", **values) for _ in range(2))
    plain = run(model, "conll2003/ner", **values | {"lstm_size": 0})
    assert first.evaluations == again.evaluations
    assert first.cost.parameters > plain.cost.parameters


def test_fine_tuning_job_caches_no_encoder_states(model: str, cache: Path):
    run(model, "glue/cola")
    assert not cache.exists()


def test_job_with_lora_rank_adds_adapter_parameters_and_records_the_peft_version(model: str):
    peft = pytest.importorskip("peft")
    result = run(model, "glue/cola", lora_rank=4, learning_rate=1e-3, epochs=3)
    plain = run(model, "glue/cola", learning_rate=1e-3, epochs=3)
    assert result.evaluations[0].scores
    assert result.provenance["adapters"] == {"peft": peft.__version__}
    assert "adapters" not in plain.provenance
    assert result.cost.parameters - plain.cost.parameters == 4 * 2 * (4 * 16 * 2)
