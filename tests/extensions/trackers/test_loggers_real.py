"""Real experiment trackers, if installed: logged values are read back."""

from pathlib import Path

import pytest

from benchharness.loggers import Listening, open_loggers
from benchharness.progress import Progress
from tests.helpers.made_engine import Told
from tests.helpers.results import make_failure, make_job, make_result

SECRETS = {
    "HF_TOKEN": "hf_never_to_be_written",
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
}
# Warnings of third-party libraries must not fail these tests.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def secrets(monkeypatch, tmp_path):
    """Put tokens into the environment, and check afterwards that no file has one."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    yield
    for path in tmp_path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(value.encode() in content for value in SECRETS.values()), path


def tell(name, folder, monkeypatch):
    """Log two simultaneous jobs, of which one fails."""
    pytest.importorskip(name)
    monkeypatch.setattr("benchharness.loggers.LAST_SECONDS", 200)
    result, failure = make_result(), make_failure(make_job(seed=2))
    watcher = Told()
    warnings = watcher.notes
    with Listening(watcher, open_loggers([name], folder)) as listening:
        for run in (result, failure):
            listening.report(run.job, Progress(phase="training", step=7, loss=0.61))
        listening.finish(failure)
        listening.finish(result)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"--log {name}: "), warnings


def test_tensorboard_records_losses_scores_and_settings(tmp_path, secrets, monkeypatch):
    tell("tensorboard", tmp_path, monkeypatch)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    folders = sorted((tmp_path / "tensorboard").iterdir())
    assert [folder.name.rpartition("-")[0] for folder in folders] == [
        "minilm-glue-rte-seed-0",
        "minilm-glue-rte-seed-2",
    ]
    events = EventAccumulator(str(folders[0])).Reload()
    losses = events.Tensors("train/loss")
    assert [event.step for event in losses] == [10, 20]
    values = [float(make_ndarray(event.tensor_proto)) for event in losses]
    assert values == pytest.approx([0.69, 0.61])
    tags = {"live/loss", "train/learning_rate", "dev/accuracy", "scores/glue/rte:dev/accuracy"}
    assert tags <= set(events.Tags()["tensors"])
    (config,) = events.Tensors("config")
    text = config.tensor_proto.string_val[0].decode()
    assert "| settings/learning_rate | 2e-05 |" in text
    assert "| sources/learning_rate | a paper |" in text
    failed = EventAccumulator(str(folders[1])).Reload()
    assert "diverged" in failed.Tensors("facts")[0].tensor_proto.string_val[0].decode()


@pytest.mark.soak
def test_mlflow_records_losses_scores_and_status(tmp_path, secrets, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tell("mlflow", tmp_path, monkeypatch)
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("benchharness")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    found = runs["minilm glue/rte seed 0"]
    assert found.info.status == "FINISHED"
    assert runs["minilm glue/rte seed 2"].info.status == "FAILED"
    assert found.data.params["settings/learning_rate"] == "2e-05"
    assert found.data.tags["provenance/versions/torch"] == "2.13.0"
    losses = client.get_metric_history(found.info.run_id, "train/loss")
    assert [(point.step, point.value) for point in losses] == [(10, 0.69), (20, 0.61)]
    assert "scores/glue/rte dev/accuracy" in found.data.metrics


@pytest.mark.soak
def test_wandb_offline_records_runs_without_home_path(tmp_path, secrets, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    tell("wandb", tmp_path, monkeypatch)
    files = sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2
    content = b"".join(file.read_bytes() for file in files)
    for text in (b"minilm glue/rte seed 0", b"train/learning_rate", b"sources/learning_rate"):
        assert text in content
    assert str(Path.home()).encode() not in content


def test_trackio_records_runs_losses_and_settings(tmp_path, secrets, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    tell("trackio", tmp_path, monkeypatch)
    (file,) = (tmp_path / "trackio").glob("benchharness*.db")
    content = file.read_bytes()
    for text in (b"minilm glue/rte seed 0", b"train/loss", b"sources/learning_rate"):
        assert text in content
