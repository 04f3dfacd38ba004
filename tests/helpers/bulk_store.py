"""A store of very many results, written by text: a template of each task, filled in run by run.

What comes out is what `Store.add_result` would have written, digests included.
"""

import hashlib
import json
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchharness.leaderboard.result import Evaluation, Result
from benchharness.leaderboard.store.record import (
    COPIES,
    _data_of,
    headline_columns,
    outcome_to_run,
)
from benchharness.leaderboard.store.schema import PREDICTIONS, RUNS, SCORES, PackedJson, to_text
from benchharness.leaderboard.store.store import open_store

MODEL, SEED, SCORE = "model-00000", 777_777_777, 0.7654321

Rows = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True, kw_only=True)
class Template:
    """A result as the columns of its rows, with marks where the runs differ."""

    result: Result
    run: dict[str, Any]
    canonical: str
    shared: str
    headline: str
    scores: tuple[tuple[str, str, str, str], ...]
    predictions: tuple[tuple[Any, ...], ...]


def template(result: Result) -> Template:
    """What the runs of one task have in common; model, weights, seed and scores are replaced."""
    marked = [
        replace(each, scores=dict.fromkeys(each.scores, SCORE)) for each in result.evaluations
    ]
    job = replace(result.job, model=MODEL, checkpoint=MODEL, weights=MODEL, seed=SEED)
    result = replace(result, job=job, evaluations=tuple(marked))
    run = outcome_to_run(result)
    columns = {column.name: getattr(run, column.name) for column in RUNS.columns}
    texts = ("job", "curve", "cost", "provenance", "fingerprints")
    copies = {name: getattr(run, name) for name in COPIES}
    canonical = _canonical([_data_of(run), copies])
    return Template(
        result=result,
        run={name: to_text(v) if name in texts else v for name, v in columns.items()},
        canonical=canonical,
        shared=headline_columns(run)["shared"],
        headline=to_text(headline_columns(run)["content"]),
        scores=tuple((s.task, s.split, s.name, s.metric) for s in run.scores),
        predictions=tuple(_predicted(each) for each in result.evaluations),
    )


def fill(path: Path, templates: Iterable[Template], *, models: Sequence[str], seeds: int) -> int:
    """Add a run of every model and seed to the store, for each of the tasks; gives how many."""
    open_store(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-400000"):
            connection.execute(f"PRAGMA {statement}")
        (number,) = connection.execute("SELECT coalesce(max(id), 0) FROM runs").fetchone()
        first = number
        for each in templates:
            connection.execute("BEGIN")
            rows = _rows(each, models, seeds, number)
            for table, found in rows.items():
                _insert(connection, table, found)
            number += len(rows["runs"])
            connection.execute("COMMIT")
        return int(number - first)


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _predicted(evaluation: Evaluation) -> tuple[Any, ...]:
    packed = PackedJson().process_bind_param(list(evaluation.predictions), None)  # type: ignore[arg-type]
    flags = to_text(evaluation.flags)
    return evaluation.task, evaluation.split, evaluation.fingerprint, flags, packed


def _rows(template: Template, models: Sequence[str], seeds: int, number: int) -> Rows:
    found: Rows = {"runs": [], "scores": [], "predictions": [], "headlines": []}
    job, draw = template.result.job, random.Random(template.result.job.task)
    for model in models:
        quality = draw.uniform(0.4, 0.9)
        for seed in range(1, seeds + 1):
            number += 1
            score = round(quality + draw.gauss(0, 0.01), 4)
            key = replace(job, model=model, checkpoint=model, weights=model, seed=seed).key
            marks = [(MODEL, model), (str(SEED), str(seed)), (str(SCORE), str(score))]
            marks.append((job.key, key))
            run = {name: _filled(value, marks) for name, value in template.run.items()}
            text = str(_filled(template.canonical, marks))
            digest = hashlib.sha256(text.encode("ascii")).hexdigest()
            run |= {"id": number, "attempt": 1, "digest": digest, "seed": seed}
            found["runs"].append(tuple(run.values()))
            found["scores"] += [
                (number, *where, score, metric) for *where, metric in template.scores
            ]
            found["predictions"] += [(number, *each) for each in template.predictions]
            content = _filled(template.headline, marks)
            shared = _filled(template.shared, marks)
            names = (run["suite"], run["task"], model, "finished", shared, content)
            found["headlines"].append((number, key, *names))
    return found


def _filled(value: Any, marks: Iterable[tuple[str, str]]) -> Any:
    if not isinstance(value, str):
        return value
    for mark, text in marks:
        value = value.replace(mark, text)
    return value


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    names = {
        "runs": [column.name for column in RUNS.columns],
        "scores": [c.name for c in SCORES.columns if c.name != "id"],
        "predictions": [c.name for c in PREDICTIONS.columns if c.name != "id"],
        "headlines": ["run_id", "job_key", "suite", "task", "model", "status", "shared", "content"],
    }[table]
    columns, places = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
    connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)


def names_of(count: int) -> Iterator[str]:
    """Names of models: "model-00001" and so on."""
    return (f"model-{number:05}" for number in range(1, count + 1))
