"""Synthetic results for the tests of the leaderboard: deterministic, small, realistic."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Cost, CurvePoint, Evaluation, Failure, Result
from benchharness.leaderboard.store.store import open_store

SCORES: Mapping[str, Mapping[str, float]] = {
    "glue/cola": {"matthews": 0.4712},
    "glue/mnli": {"accuracy": 0.8125},
    "glue/mrpc": {"accuracy": 0.8603, "f1": 0.9012},
    "glue/qnli": {"accuracy": 0.9012},
    "glue/qqp": {"accuracy": 0.8897, "f1": 0.8534},
    "glue/rte": {"accuracy": 0.6498},
    "glue/sst2": {"accuracy": 0.9231},
    "glue/stsb": {"pearson": 0.8567, "spearman": 0.8512},
    "glue/wnli": {"accuracy": 0.5634},
}
"""Dev scores of an average encoder with seed 0, by task."""


def make_job(
    *,
    model: str = "minilm",
    task: str = "glue/rte",
    seed: int = 0,
    data: str = "mini",
    recipe: str = "bert",
    settings: Mapping[str, str | int | float | bool] | None = None,
    **fields: Any,
) -> Job:
    """Return a job; `settings` are plain values, `fields` replace any other field of Job."""
    values = settings or {"learning_rate": 2e-5, "epochs": 3, "batch_size": 32, "warmup": 0.1}
    splits = ("train", "dev", "dev_mm") if task == "glue/mnli" else ("train", "dev")
    standard: dict[str, Any] = {
        "model": model,
        "checkpoint": f"example/{model}",
        "weights": f"revision of {model}",
        "task": task,
        "task_version": 1,
        "data": data,
        "fingerprints": {f"{task}:{split}": _digest(data, task, split) for split in splits},
        "recipe": recipe,
        "settings": {name: Setting(value=v, source="a paper") for name, v in values.items()},
        "seed": seed,
        "precision": "float32",
    }
    return Job(**{**standard, **fields})


def make_result(job: Job | None = None, *, rows: int = 3, **fields: Any) -> Result:
    """Return a finished job with `rows` predictions per split; scores vary by model and seed."""
    job = job or make_job()
    standard: dict[str, Any] = {
        "job": job,
        "evaluations": tuple(
            make_evaluation(job, task, split, rows=rows) for task, split in job.predicted_splits
        ),
        "curve": (
            CurvePoint(step=10, epoch=0.5, loss=0.69, learning_rate=2e-5, scores={}),
            CurvePoint(
                step=20, epoch=1.0, loss=0.61, learning_rate=1e-5, scores=SCORES.get(job.task, {})
            ),
        ),
        "cost": make_cost(),
        "provenance": {
            "code": {"version": "0.1.0", "commit": "0" * 40, "dirty": False},
            "versions": {"python": "3.11.7", "torch": "2.13.0"},
            "machine": {"cpu": "a processor", "cores": 2, "gpu": None},
        },
        "finished": "2026-08-01T12:00:00Z",
    }
    return Result(**{**standard, **fields})


def make_evaluation(
    job: Job, task: str, split: str, *, rows: int = 3, scores: Mapping[str, float] | None = None
) -> Evaluation:
    """Return a predicted split; `scores` replace the drawn ones ({} for a hidden split)."""
    draw = _drawing(f"{job.model} {task} {split} {job.seed}")
    suffix = split.partition("_")[2]
    ending = f"_{suffix}" if suffix else ""
    drawn = {
        name + ending: round(value + draw.gauss(0, 0.01), 4)
        for name, value in SCORES.get(task, {"accuracy": 0.7}).items()
    }
    return Evaluation(
        task=task,
        split=split,
        fingerprint=job.fingerprints[f"{task}:{split}"],
        scores=drawn if scores is None else scores,
        predictions=tuple(
            {"id": str(i), "label": draw.choice(["yes", "no"]), "scores": [draw.random(), 0.5]}
            for i in range(rows)
        ),
    )


def make_cost(**fields: Any) -> Cost:
    """Return the cost of an ordinary small job."""
    standard: dict[str, Any] = {
        "seconds": 12.5,
        "train_seconds": 10.25,
        "predict_seconds": 1.75,
        "steps": 20,
        "train_examples_per_second": 31.2,
        "train_tokens": 4096,
        "parameters": 22_713_601,
        "peak_memory_bytes": 512 * 2**20,
    }
    return Cost(**{**standard, **fields})


def make_failure(job: Job | None = None, **fields: Any) -> Failure:
    """Return a job whose loss became infinite."""
    standard: dict[str, Any] = {
        "job": job or make_job(),
        "kind": "diverged",
        "error": "the loss became nan at step 7; try a lower learning rate.",
        "details": "step 6: 4.2\nstep 7: nan",
        "exit_code": 1,
        "finished": "2026-08-01T12:00:00Z",
    }
    return Failure(**{**standard, **fields})


def make_suite(model: str = "minilm", *, seeds: int = 3, **fields: Any) -> tuple[Result, ...]:
    """Return a result of every GLUE task for `seeds` seeds; `fields` are for every job."""
    jobs = (
        make_job(model=model, task=task, seed=seed, **fields)
        for task in SCORES
        for seed in range(seeds)
    )
    return tuple(make_result(job) for job in jobs)


def filled_store(path: Path) -> Path:
    """Create a store with a result of every task and one failure; return its path."""
    with open_store(path) as store:
        for result in make_suite(seeds=1):
            store.add_result(result)
        store.add_failure(make_failure(make_job(model="other")))
    return path


def _digest(*words: str) -> str:
    return format(_drawing("|".join(words)).getrandbits(256), "064x")


def _drawing(seed: str) -> random.Random:
    """Return a random generator from any text, lone surrogates included."""
    return random.Random(seed.encode("utf-8", "backslashreplace"))
