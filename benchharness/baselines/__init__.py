"""Baselines that any encoder must beat: the most frequent answer, and linear models over words.

This package does not import torch.
"""

import platform
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from benchharness.baselines.learners import Learner, learn_bag_of_words, learn_majority
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Cost, Evaluation, Result
from benchharness.machine import library_versions
from benchharness.progress import Progress, Reporter
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.read import SplitRows, counts_of
from benchharness.tasks.suites import find_task
from benchharness.version import package_version, source_commit

__all__ = ["run_baseline"]

MAJORITY = "baseline:majority"
"""Value of `Job.checkpoint` for the majority baseline.

It must not change, because stored runs and digests contain it.
"""

LEARNERS: Mapping[str, Learner] = {
    MAJORITY: learn_majority,
    "baseline:bag-of-words": learn_bag_of_words,
}
"""Functions that train the baselines, keyed by the value of `Job.checkpoint`."""


def run_baseline(job: Job, report: Reporter = lambda _: None) -> Result:
    """Train a baseline, predict the splits of the job and score the predictions.

    Args:
        job: Job whose checkpoint is a key of LEARNERS.
        report: Callback that gets the phases of the job.

    Returns:
        Result with predictions, scores and cost; the learning curve is empty.

    Raises:
        DataError: The rows of a split cannot be read, or have changed since the job was planned.
    """
    start, started = time.monotonic(), _now()
    report(Progress(phase="loading"))
    splits = {name: read_split(job, name) for name in job.fingerprints}
    report(Progress(phase="training"))
    learning = time.monotonic()
    training = splits.pop(f"{job.task}:train")
    predict = LEARNERS[job.checkpoint](find_task(job.task), training.examples, job.values)
    learned = time.monotonic()
    report(Progress(phase="predicting"))
    evaluations = tuple(
        _evaluation(job, name, rows, predict(rows.examples)) for name, rows in splits.items()
    )
    end = time.monotonic()
    return Result(
        job=job,
        evaluations=evaluations,
        curve=(),
        cost=Cost.without_network(end - start, learned - learning, end - learned),
        provenance=_provenance(job, {f"{job.task}:train": training, **splits}, started),
        finished=_now(),
    )


def _evaluation(job: Job, name: str, rows: SplitRows, predictions: Any) -> Evaluation:
    """Score the predictions of a split.

    Warnings are removed for the majority baseline, because its predictions are always constant.
    """
    evaluation = evaluate_split(name, rows, predictions)
    return replace(evaluation, flags=()) if job.checkpoint == MAJORITY else evaluation


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _provenance(job: Job, splits: Mapping[str, SplitRows], started: str) -> Mapping[str, Any]:
    versions = {"python": platform.python_version(), "scikit-learn": version("scikit-learn")}
    return {
        "code": {"version": package_version(), "method": job.method, **source_commit()},
        "model": {"name": job.model, "weights": job.weights},
        "data": {
            name: {**counts_of(rows), "fingerprint": rows.fingerprint}
            for name, rows in splits.items()
        },
        **({"plugins": dict(job.plugins)} if job.plugins else {}),
        "versions": {**versions, **library_versions()},
        "started": started,
    }
