"""Conversion of results and failures to database rows and back, with digests that detect damage."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice
from sys import intern
from types import SimpleNamespace
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, select

from benchharness.errors import DataError, StoreError
from benchharness.leaderboard.job import Job, Stage, Teacher, recipe_digest, trained_tasks
from benchharness.leaderboard.result import (
    Failure,
    Measure,
    Reading,
    Result,
    RunRow,
    Selection,
    flags_by_task,
    measures_of,
    truncated_rows,
)
from benchharness.leaderboard.sharing import shared_outcome
from benchharness.leaderboard.store import (
    BETWEEN_NAMES,
    FINISHED,
    PREDICTIONS,
    RUNS,
    SCORES,
    DamagedError,
)
from benchharness.leaderboard.text import digest, plain, storable, to_text
from benchharness.tasks.custom import define_task


class Run(SimpleNamespace):
    """Stored run, i.e. its row in the table `runs` with its rows in `scores` and `predictions`.

    Each column of `runs` is an attribute. The attributes `scores` and `predictions` are lists with
    one object per row, whose attributes are the columns of these tables.
    """

    id: int = 0  # id in the table `runs`; 0 until the run is stored
    attempt: int = 0  # number of the attempt at the job; 0 until the run is stored
    job_key: str
    status: str
    digest: str
    scores: list[SimpleNamespace]
    predictions: list[SimpleNamespace]


KEYS_AT_ONCE = 500
"""Maximum number of keys per SQL statement. SQLite accepts at least 999 parameters
(sqlite.org/limits.html, section 9).
"""

_RUNS_AT_ONCE = 100
"""Maximum number of runs that are in memory at the same time, because the predictions of one run
may take megabytes."""

Thing = TypeVar("Thing")


def portions(things: Iterable[Thing], most: int = _RUNS_AT_ONCE) -> Iterator[Sequence[Thing]]:
    """Split an iterable into sequences of at most `most` items, and yield them in order."""
    remaining = iter(things)
    while portion := list(islice(remaining, most)):
        yield portion


def read_runs(
    db: Connection, *conditions: ColumnElement[bool], with_rows: bool = True
) -> list[Run]:
    """Return the runs that fulfil the conditions, oldest first.

    Args:
        db: Connection to the database.
        conditions: SQL conditions on columns of the table `runs`.
        with_rows: Read the predictions too. If False, the objects in `Run.predictions` have no
            attribute `rows`, which saves memory.
    """
    query = select(RUNS).where(*conditions).order_by(RUNS.c.id)
    found = {row["id"]: Run(**row) for row in db.execute(query).mappings()}
    for table in (SCORES, PREDICTIONS):
        columns = [column for column in table.c if with_rows or column is not PREDICTIONS.c.rows]
        for run in found.values():
            vars(run)[table.name] = list[SimpleNamespace]()
        for ids in portions(found, KEYS_AT_ONCE):
            of_these = select(*columns).where(table.c.run_id.in_(ids)).order_by(table.c.id)
            for row in db.execute(of_these).mappings():
                vars(found[row["run_id"]])[table.name].append(SimpleNamespace(**row))
    return list(found.values())


# Headlines: one short database row per job, with the fields that lists and leaderboards need.
#
# A headline is a small part of a complete run, so that only a few megabytes are read for a list of
# ten thousand jobs. It is written in the same transaction as its run and contains nothing that the
# run does not contain. The fields that are equal for all seeds are stored as a separate text, which
# is parsed only once for all of these runs.

_COPIES = ("model", "weights", "recipe", "recipe_digest", "task", "data", "limit", "precision")
_OWN_COPIES = ("seed", "finished", "error", "start_from")
_OWN = frozenset({*_OWN_COPIES, "seconds", "parameters", "scores", "flags"})
"""Fields that the column `content` of every headline has. Rarely used fields are in its optional
field "more"."""


def headline_columns(run: Run) -> dict[str, Any]:
    """Create a run's row for the table `headlines`, as a dict of its columns.

    For a multi-task run, `task` and `suite` contain the names of all its tasks and suites, with
    `BETWEEN_NAMES` between two names.
    """
    tasks = trained_tasks(run.fingerprints) or (run.task,)
    suites = dict.fromkeys(name.partition("/")[0] for name in tasks)
    return {
        "run_id": run.id,
        "job_key": run.job_key,
        "suite": BETWEEN_NAMES.join(suites) if len(tasks) > 1 else run.suite,
        "task": BETWEEN_NAMES.join(tasks) if len(tasks) > 1 else run.task,
        "model": run.model,
        "status": run.status,
        "shared": to_text(_shared(run)),
        "content": _content(run),
    }


def _shared(run: Run) -> dict[str, Any]:
    """Return the fields of a RunRow that are equal for runs that differ only in the seed."""
    # A failure has no provenance, and in an external run it may be anything.
    said = run.provenance if isinstance(run.provenance, dict) else {}
    splits = said.get("data")
    counts = splits.values() if isinstance(splits, dict) else ()
    rows = (split.get("rows") for split in counts if isinstance(split, dict))
    return {
        **{name: getattr(run, name) for name in (*_COPIES, "status", "fingerprints")},
        **{name: run.job[name] for name in ("kind", "overridden", "is_sweep", "definition")},
        "source": storable(run.job["source"]),
        "stage": run.job["stage"] and _words(run.job["stage"]),
        # Number of rows in the run's largest split; 0 if unknown.
        "largest_split": max((count for count in rows if isinstance(count, int)), default=0),
        # Task, split, metric and name of each score, e.g.
        # ["glue/mnli", "dev_mm", "accuracy", "accuracy_mm"].
        "measures": [[s.task, s.split, s.metric, s.name] for s in run.scores],
    }


def _content(run: Run) -> dict[str, Any]:
    """Return the fields of a RunRow that are not in `_shared`; a failure has 0 seconds."""
    scores = defaultdict[str, dict[str, float]](dict)
    for score in run.scores:
        scores[score.task][score.name] = score.value
    flags = flags_by_task(
        [*((task, ()) for task in scores), *((p.task, p.flags) for p in run.predictions)],
        [point["loss"] for point in run.curve or ()],
    )
    said = run.provenance if isinstance(run.provenance, dict) else {}
    selection, truncated = Selection.from_json(said.get("selection")), truncated_rows(said)
    read = Reading.of(said)
    told = read and read.told
    more = {
        "selection": selection and asdict(selection),
        "truncated": truncated,
        "teacher": run.job["teacher"] and _words(run.job["teacher"]),
        **({"reading": asdict(told)} if told else {}),
    }
    return {
        **{name: getattr(run, name) for name in _OWN_COPIES},
        "seconds": run.seconds or 0.0,
        "parameters": run.parameters or 0,
        "scores": scores,
        "flags": {task: list(found) for task, found in flags.items()},
        **({"more": more} if any(more.values()) else {}),
    }


def _words(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {n: storable(value) if isinstance(value, str) else value for n, value in fields.items()}


def rows_of(headlines: Sequence[tuple[Any, Any, Any]]) -> list[RunRow]:
    """Convert rows of the table `headlines` to RunRows.

    All JSON texts are parsed in one call, because parsing them separately takes several times as
    long.

    Args:
        headlines: Tuples of the columns (job_key, shared, content); the last two are JSON text.

    Raises:
        StoreError: If a row is damaged.
    """
    # SQLite accepts values of any type in any column, so `content` may not be text in a damaged
    # file.
    texts = [text if isinstance(text, str) else "" for *_, text in headlines]
    contents = _parsed(f"[{','.join(texts)}]") or []
    if len(contents) != len(texts):  # one content is damaged; `row_of` reports which
        contents = [_parsed(text) for text in texts]
    return [row_of(key, shared, c) for (key, shared, _), c in zip(headlines, contents, strict=True)]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def row_of(key: str, shared: str, content: Mapping[str, Any]) -> RunRow:
    """Convert a row of the table `headlines` to a RunRow.

    Args:
        key: Key of the job.
        shared: JSON text with the fields that are equal for runs that differ only in the seed.
        content: Other fields of the run.

    Raises:
        StoreError: If the row is damaged.
    """
    try:
        known, definition = _in_common(shared)
        define_task(definition)
        own = {**content, "key": key}
        scores, flags, more = own["scores"], own["flags"], own.pop("more", None)
        # The row is created without __init__, so check here that no field is missing.
        if own.keys() - {"key"} != _OWN or not all(type(each) is dict for each in scores.values()):
            raise TypeError(f"unexpected fields: {', '.join(own)}")
        own["flags"] = {task: tuple(said) for task, said in flags.items()}
        if more is not None:
            own["selection"] = Selection.from_json(more["selection"])
            own["truncated"] = {name: tuple(of) for name, of in more["truncated"].items()}
            own["reading"] = Reading.from_json(more.get("reading"))  # older rows lack this field
            own["teacher"] = more["teacher"] and Teacher(**more["teacher"])
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"the summary of the stored run {str(key)[:12]} (in the table `headlines`) is damaged "
            f"({error}): `bench db check` lists all problems, and docs/store.md explains how to "
            "recover the other runs."
        ) from error
    # Do not call __init__, which sets the fields one by one. For a large leaderboard, this would
    # take most of the time.
    row = object.__new__(RunRow)
    vars(row).update(known)
    vars(row).update(own)
    return row


@lru_cache(maxsize=4096)
def _in_common(shared: str) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the RunRow fields in a headline's column `shared`, and the definition of the task.

    The result is cached, so that runs which differ only in the seed share these objects.
    """
    found = json.loads(shared)
    definition, stage = found.pop("definition"), found.pop("stage")
    measures = defaultdict[str, dict[str, Measure]](dict)
    for task, split, metric, name in found.pop("measures"):
        measures[task][name] = Measure(split, metric)
    for name, value in found.items():
        found[name] = intern(value) if isinstance(value, str) else value
    prints = {intern(name): intern(value) for name, value in found.pop("fingerprints").items()}
    # A RunRow cannot be created without these fields. `row_of` replaces them with the run's values.
    own: dict[str, Any] = dict.fromkeys(_OWN) | {"key": "", "scores": {}, "flags": {}}
    row = RunRow(
        **found, **own, fingerprints=prints, measures=dict(measures), stage=stage and Stage(**stage)
    )
    _ = row.suites  # adds the cached properties `suites` and `trained_tasks` to vars(row)
    return vars(row), definition


def define_task_of(shared: str) -> None:
    """Register the custom task whose definition is in a row of the table `headlines`.

    Nothing is done if the task is part of a benchmark, or if the data are damaged.

    Args:
        shared: Column `shared` of the row, as JSON text.
    """
    with suppress(AttributeError, KeyError, TypeError, ValueError, DataError):
        define_task(_in_common(shared)[1])


COPIES = (
    "job_key",
    "model",
    "weights",
    "recipe",
    "recipe_digest",
    "task",
    "suite",
    "data",
    "limit",
    "seed",
    "precision",
    "start_from",
    "seconds",
    "parameters",
    "fingerprints",
)
"""Columns of the table `runs` that repeat values of the column `job` or `cost`. The digest of a run
covers these copies too.
"""


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """Stored attempt at a job with all its data, for transfer to another store.

    Attributes:
        key: Key of the job.
        attempt: Number of the attempt at the job, from 1.
        status: "finished" for a result, or the `Failure.kind` of a failure.
        digest: Digest of the run without the attempt number, which detects damage. It is the same
            in every store, unless the run's paths were shortened (see `shared_stored`).
        data: JSON data of the Result or Failure, to which the metric of each score was added.
    """

    key: str
    attempt: int
    status: str
    digest: str
    data: Mapping[str, Any]


def outcome_to_run(outcome: Result | Failure) -> Run:
    """Convert a result or a failure to database rows, without the number of the attempt.

    NUL and lone surrogates in a failure's message and details are escaped.

    Raises:
        StoreError: If the outcome contains values that no database can store unchanged.
    """
    data = plain(outcome.to_json())
    define_task(outcome.job.definition)
    for evaluation in data.get("evaluations", ()):
        # Add the metric of each score, e.g. {"accuracy_mm": "accuracy"}. If the task does not list
        # a score, its name is used as the metric.
        measures = measures_of(evaluation["task"])
        evaluation["metrics"] = {
            name: measures[name].metric if name in measures else name
            for name in evaluation["scores"]
        }
    return _run_of(data)


def _run_of(data: Mapping[str, Any]) -> Run:
    """Return the database rows for an outcome's JSON data; the inverse of `_data_of`."""
    more = _result_columns(data) if "evaluations" in data else _failure_columns(data)
    run = Run(**_job_columns(data["job"]), finished=storable(data["finished"]), **more)
    run.digest = _digest(run)
    return run


def _result_columns(data: Mapping[str, Any]) -> dict[str, Any]:
    scores, predictions = list[SimpleNamespace](), list[SimpleNamespace]()
    for each in data["evaluations"]:
        task, split = each["task"], each["split"]
        _check_names(task, split, *each["scores"], *each["metrics"].values())
        where = {"task": task, "split": split}
        # Adding 0.0 converts integers to floats and -0.0 to 0.0, as the database does.
        scores += [
            SimpleNamespace(**where, name=name, value=value + 0.0, metric=each["metrics"][name])
            for name, value in each["scores"].items()
        ]
        columns = {"fingerprint": each["fingerprint"], "flags": each["flags"]}
        predictions.append(SimpleNamespace(**where, **columns, rows=each["predictions"]))
    return {
        "status": FINISHED,
        "exit_code": None,
        # Convert the value to a float as the database does, because 12 and 12.0 have different
        # digests.
        "seconds": float(data["cost"]["seconds"]),
        "parameters": data["cost"]["parameters"],
        "error": "",
        "curve": data["curve"],
        "cost": data["cost"],
        "provenance": data["provenance"],
        "details": "",
        "scores": scores,
        "predictions": predictions,
    }


def _failure_columns(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "status": data["kind"],
        "exit_code": data["exit_code"],
        "error": storable(data["error"]),
        "details": storable(data["details"]),
        **dict.fromkeys(("seconds", "parameters", "curve", "cost", "provenance")),
        "scores": [],
        "predictions": [],
    }


def run_to_outcome(run: Run) -> Result | Failure:
    """Convert the database rows of a run to the result or failure that was stored.

    Raises StoreError if the rows are damaged, i.e. if they do not match the digest of the run.
    """
    _require_whole(run)
    return _outcome(run)


def _outcome(run: Run) -> Result | Failure:
    data = _data_of(run)
    return Result.from_json(data) if run.status == FINISHED else Failure.from_json(data)


def without_evaluations(row: Mapping[str, Any]) -> Result:
    """Create a result from some columns of the table `runs`.

    The result has neither evaluations (scores and predictions) nor a learning curve.

    Args:
        row: Values of the columns `job`, `cost`, `provenance` and `finished`.

    Raises:
        DamagedError: If the columns do not contain a valid result.
    """
    try:
        return Result.from_json({**row, "evaluations": (), "curve": ()})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"the stored data of a run are invalid: {error}") from error


def run_to_stored(run: Run) -> StoredRun:
    """Convert the database rows of a run to a StoredRun, for transfer to another store.

    Raises StoreError if the rows are damaged, i.e. if they do not match the digest of the run.
    """
    _require_whole(run)
    return StoredRun(
        key=run.job_key,
        attempt=run.attempt,
        status=run.status,
        digest=run.digest,
        data=_data_of(run),
    )


def shared_stored(stored: StoredRun) -> StoredRun:
    """Return the run with all paths of this machine shortened (see sharing.py).

    If the run contains no paths, it is returned unchanged; otherwise the result has a new digest.
    """
    read = Result if stored.status == FINISHED else Failure
    outcome: Result | Failure = read.from_json(stored.data)
    shared = shared_outcome(outcome)
    if shared == outcome:
        return stored
    said = plain(shared.to_json())
    data = {n: said[n] if n in _WITH_PLACES else value for n, value in stored.data.items()}
    return replace(stored, data=data, digest=_run_of(data).digest)


_WITH_PLACES = ("job", "provenance", "error", "details")
"""Fields of a run's data that may contain paths of the machine on which it ran."""


def stored_to_run(stored: StoredRun) -> Run:
    """Convert a run from another store to database rows, with the attempt number of that store.

    Raises StoreError if no store can have written the run, e.g. because its scores were changed by
    hand and do not match its digest.
    """
    # The data may have been changed by hand, so reading them may raise any of these errors.
    try:
        # Create the outcome and the headline only to find errors. So everything that is stored can
        # be read again.
        run = _run_of(stored.data)
        run.attempt = stored.attempt
        _outcome(run)
        headline_columns(run)
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise not_as_written(stored.key, stored.attempt) from error
    if (run.job_key, run.status, run.digest) != (stored.key, stored.status, stored.digest):
        raise not_as_written(stored.key, stored.attempt)
    return run


def not_as_written(key: str, attempt: int) -> StoreError:
    """Create the error for a run that was changed after another store had written it.

    Args:
        key: Key of the run's job.
        attempt: Number of the attempt in the other store.
    """
    return StoreError(
        f"the run {key[:12]} (attempt {attempt}) was changed after it had been exported: export "
        "it again from the store that it came from."
    )


def _require_whole(run: Run) -> None:
    if not _is_whole(run):
        raise _damaged(run)


def _damaged(run: Run) -> StoreError:
    return StoreError(
        f"the stored run {run.job_key[:12]} (attempt {run.attempt}) is damaged: its digest does "
        "not match. Restore a backup of the leaderboard, or run the job again (--force)."
    )


def _is_whole(run: Run) -> bool:
    try:
        return _digest(run) == run.digest
    except StoreError:  # e.g. a damaged number has become infinite
        return False


def _digest(run: Run) -> str:
    """Compute the digest of everything in a run except the number of the attempt."""
    return digest([_data_of(run), {name: getattr(run, name) for name in COPIES}])


def _job_columns(data: Mapping[str, Any]) -> dict[str, Any]:
    job = Job.from_json(data)
    define_task(job.definition)
    names = ("model", "weights", "recipe", "task", "data", "precision")
    return {
        **{name: storable(getattr(job, name)) for name in names},
        "job_key": job.key,
        "recipe_digest": recipe_digest(job),
        "suite": storable(job.task.partition("/")[0]),
        "limit": job.limit,
        "seed": job.seed,
        "start_from": job.start_from,
        "fingerprints": data["fingerprints"],
        "job": data,
    }


def _check_names(*names: str) -> None:
    for name in names:
        if storable(name) != name:
            raise StoreError(
                f"{name!r} cannot be the name of a task, split or metric, because databases refuse "
                "NUL and lone surrogates."
            )


def _data_of(run: Run) -> dict[str, Any]:
    """Return the outcome's JSON data (see `StoredRun.data`) from the database rows."""
    if run.status != FINISHED:
        return {
            "job": run.job,
            "kind": run.status,
            "error": run.error,
            "details": run.details,
            "exit_code": run.exit_code,
            "finished": run.finished,
        }
    return {
        "job": run.job,
        "evaluations": [_evaluation_data(run, predicted) for predicted in run.predictions],
        "curve": run.curve,
        "cost": run.cost,
        "provenance": run.provenance,
        "finished": run.finished,
    }


def _evaluation_data(run: Run, predicted: SimpleNamespace) -> dict[str, Any]:
    where = (predicted.task, predicted.split)
    scores = [score for score in run.scores if (score.task, score.split) == where]
    return {
        "task": predicted.task,
        "split": predicted.split,
        "fingerprint": predicted.fingerprint,
        "scores": {score.name: score.value for score in scores},
        "predictions": predicted.rows,
        "flags": predicted.flags,
        "metrics": {score.name: score.metric for score in scores},
    }
