"""A tiny trained model, exported in the format of transformers."""

from pathlib import Path

from benchharness.extensions.kept_models.check import Dev
from benchharness.extensions.kept_models.load import load_trained
from benchharness.extensions.kept_models.save_pretrained import take
from benchharness.leaderboard.result import predictions_of
from benchharness.splits import read_split
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job


def taken(folder: Path, task: str) -> Path:
    name = task.replace("/", "-")
    result = run_job(make_job(task, limit=24), keep=folder / "kept" / name)
    model = load_trained(folder / "kept" / name, precision="fp32")
    dev = [
        Dev(e.name, read_split(model.job, e.name), predictions_of(e)) for e in result.evaluations
    ]
    return take(model, result, folder / name, dev).folder
