"""Invented runs on the mini data, with scores that their predictions have, and their archives."""

import copy
import gzip
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchharness.extensions.share.repository import create
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.leaderboard.store.archive import write_archive
from benchharness.leaderboard.store.record import StoredRun, outcome_to_run, run_to_stored
from benchharness.leaderboard.store.store import open_store
from benchharness.splits import evaluate_split
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.results import make_cost, make_job, make_result

RTE = "glue/rte"


@cache
def rows_of(task: str, split: str) -> SplitRows:
    return read(find_task(task), split, parse_data("mini"))


def made_run(
    model: str = "ours",
    seed: int = 1,
    *,
    task: str = RTE,
    skill: float = 1.0,
    digits: int | None = None,
    draw: str = "",
    **fields: Any,
) -> Result:
    """Return a run whose predictions are drawn; a higher `skill` gives a higher accuracy."""
    prints = {f"{task}:{split}": rows_of(task, split).fingerprint for split in ("train", "dev")}
    standard = {"weights": f"sha256:{hashlib.sha256(model.encode()).hexdigest()}"}
    job = make_job(model=model, task=task, seed=seed, fingerprints=prints, **{**standard, **fields})
    rows, labels = rows_of(task, "dev"), find_task(task).labels
    drawing = random.Random(f"{model} {task} {seed} {draw}")
    predictions = []
    for example in rows.examples:
        right = labels.index(str(example.label))
        logit = drawing.gauss(skill, 1.5)
        chance = 1 / (1 + 2.718281828459045**-logit)
        scores = [chance if place == right else 1 - chance for place in range(2)]
        if digits is not None:
            scores = [round(score, digits) for score in scores]
        label = labels[scores.index(max(scores))]
        predictions.append({"id": example.id, "label": label, "scores": scores})
    result = make_result(
        job,
        cost=make_cost(seconds=drawing.uniform(1, 9)),
        finished=f"2026-08-{1 + seed % 28:02}T12:00:00+00:00",
    )
    return scored(result, predictions)


def scored(result: Result, predictions: list[dict[str, Any]]) -> Result:
    """Return a run with other predictions, and with the scores that follow from them."""
    (one,) = result.evaluations
    rows = rows_of(one.task, one.split)
    plain = {**vars(one), "predictions": tuple(predictions)}
    found = predictions_of(type(one)(**plain))
    again = evaluate_split(one.name, rows, found)
    new = type(one)(**{**plain, "scores": again.scores, "flags": again.flags})
    return Result(**{**vars(result), "evaluations": (new,)})


def stored(result: Result) -> StoredRun:
    run = outcome_to_run(result)
    run.attempt = 1
    return run_to_stored(run)


def archive_of(path: Path, results: Iterable[Result]) -> Path:
    """Write an archive as `bench share add` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_archive(file, map(stored, results), columns=True)
    return path


def edited(result: Result, edit: Callable[[dict[str, Any]], None]) -> Result:
    """Return a run whose JSON data were edited, with a new digest, as a careful cheat does it."""
    data = copy.deepcopy(json.loads(json.dumps(result.to_json())))
    edit(data)
    return Result.from_json(data)


def raw_archive(
    path: Path, runs: Iterable[Mapping[str, Any]], header: Mapping[str, Any] | None = None
) -> Path:
    """Write an archive of any JSON objects, whose last line has the right digest."""
    first = {"format": "benchharness archive", "version": 2, "benchharness": "0.1.0"}
    lines = [json.dumps({**first, **(header or {})}), *(json.dumps(run) for run in runs)]
    text = "".join(f"{line}\n" for line in lines).encode()
    end = {"runs": len(lines) - 1, "sha256": hashlib.sha256(text).hexdigest()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text + json.dumps(end).encode() + b"\n"))
    return path


def as_data(result: Result) -> dict[str, Any]:
    """Return the line of a run in an archive, to be edited."""
    return json.loads(json.dumps(vars(stored(result))))


def made_repository(root: Path, people: Mapping[str, Mapping[str, Iterable[Result]]]) -> Path:
    """Create a repository; `people` are the archives of each contributor by file name."""
    create(root, "Rows of everybody")
    for who, files in people.items():
        for name, results in files.items():
            archive_of(root / "contributors" / who / name, results)
    return root


def store_of(path: Path, results: Iterable[Result]) -> Path:
    with open_store(path) as store:
        store.add_results(results)
    return path
