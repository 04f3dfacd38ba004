"""A Result or a Failure as rows of the schema, and back, with the digest checked on the way."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar

from sqlalchemy import delete, insert
from sqlalchemy.orm import Session

from benchharness.leaderboard.job import Job, Stage, Teacher, define_task, trained_tasks
from benchharness.leaderboard.result import (
    Failure,
    Measure,
    Result,
    RunRow,
    Selection,
    curve_ends,
    flags_of_ends,
    measures_of,
    truncated_rows,
)
from benchharness.leaderboard.store.labels import facts_of, metric_of
from benchharness.leaderboard.store.schema import (
    BETWEEN_NAMES,
    FINISHED,
    Headline,
    Predictions,
    Run,
    Score,
    digest,
    plain,
    recipe_digest,
)
from benchharness.leaderboard.text import storable
from benchharness.tasks.errors import StoreError

# Headlines: of each job's listed run, what lists and boards need, in one short row.
#
# A run lies in the store with all its bulk, and of most jobs there is one run; a headline is a
# small part of it, so that a list of ten thousand reads a few megabytes. It is written with its
# run, in one transaction, and says nothing that the run does not say.

_HEADLINE_COPIES = (
    "model",
    "weights",
    "recipe",
    "recipe_digest",
    "task",
    "data",
    "limit",
    "seed",
    "precision",
    "status",
    "fingerprints",
    "finished",
    "error",
    "start_from",
)
"""What a RunRow has under the same name as the run."""


def replace_headline(session: Session, run: Run) -> None:
    """Let lists show this run of its job."""
    session.execute(delete(Headline).where(Headline.job_key == run.job_key))
    session.execute(insert(Headline).values(headline_columns(run)))


def headline_columns(run: Run) -> dict[str, Any]:
    """A stored run's headline, column by column.

    Of tasks that were trained together it has every name, and the suites of all.
    """
    together = trained_tasks(run.fingerprints)
    tasks = together if len(together) > 1 else (run.task,)
    suites = dict.fromkeys(name.partition("/")[0] for name in together)
    return {
        "run_id": run.id,
        "job_key": run.job_key,
        "suite": BETWEEN_NAMES.join(suites) if len(together) > 1 else run.suite,
        "task": BETWEEN_NAMES.join(tasks),
        "model": run.model,
        "status": run.status,
        "content": headline_data(run),
    }


def headline_data(run: Run) -> dict[str, Any]:
    """What `row_of` makes a RunRow of; a failure has taken no seconds that count."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for predicted in run.predictions:
        if predicted.flags:
            found[predicted.task] += predicted.flags
    # The rows of the largest split that a run used; 0 where it does not say.
    said = run.provenance if isinstance(run.provenance, dict) else {}
    splits, selection = said.get("data"), Selection.from_json(said.get("selection"))
    counts = splits.values() if isinstance(splits, dict) else ()
    rows = (split.get("rows") for split in counts if isinstance(split, dict))
    return {
        **{name: getattr(run, name) for name in _HEADLINE_COPIES},
        "seconds": run.seconds or 0.0,
        "parameters": run.parameters or 0,
        "largest_split": max((count for count in rows if isinstance(count, int)), default=0),
        "scores": [[s.task, s.split, s.metric, s.name, s.value] for s in run.scores],
        "flags": {task: list(dict.fromkeys(flags)) for task, flags in found.items()},
        "losses": curve_ends([point["loss"] for point in run.curve or ()]),
        **{name: run.facts[name] for name in ("kind", "overridden", "is_sweep")},
        **{name: storable(run.facts[name]) for name in ("recipe", "source")},
        # What few runs have; without it a headline is what it was before there was such a thing.
        **({"selection": asdict(selection)} if selection else {}),
        **({"truncated": truncated} if (truncated := truncated_rows(run.provenance)) else {}),
        **_stage_data(run.facts),
        **({"definition": run.facts["definition"]} if run.facts.get("definition") else {}),
        **_teacher_data(run.facts),
    }


def _stage_data(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The stage of a checkpoint of a pretraining run; nothing of any other."""
    stage = facts.get("stage")
    return {} if stage is None else {"stage": {**stage, "run": storable(stage["run"])}}


def _teacher_data(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Who taught a distilled model; nothing of any other."""
    teacher = facts.get("teacher") or {}
    found = {name: storable(text) for name, text in teacher.items()}
    return {"teacher": found} if found else {}


def row_of(key: str, data: Mapping[str, Any]) -> RunRow:
    """The row of a list that a headline's content describes.

    Raises StoreError where it is not what a headline has.
    """
    try:
        content = dict(data)
        found = flags_of_ends(content.pop("losses"))
        flags = content.pop("flags")
        selection = Selection.from_json(content.pop("selection", None))
        truncated = {name: tuple(of) for name, of in content.pop("truncated", {}).items()}
        scores: defaultdict[str, dict[str, float]] = defaultdict(dict)
        stored = content.pop("scores")
        for task, _, _, name, value in stored:
            scores[task][name] = value
        content["fingerprints"] = _shared_prints(tuple(content["fingerprints"].items()))
        for copied in _SHARED:
            content[copied] = intern(content[copied])
        named = dict.fromkeys([*flags, *scores]) if found else flags
        define_task(content.pop("definition", None))
        if "stage" in content:
            content["stage"] = Stage(**content["stage"])
        if "teacher" in content:
            content["teacher"] = Teacher(**content["teacher"])
        return RunRow(
            key=key,
            flags={task: (*flags.get(task, ()), *found) for task in named},
            scores=dict(scores),
            measures=_shared_measures(tuple(tuple(line[:4]) for line in stored)),
            selection=selection,
            truncated=truncated,
            **content,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"what lists show of the stored run {key[:12]} is damaged ({error}): `bench db check` "
            "says what else is, and docs/store.md how to save the rest."
        ) from error


# What many rows have in common is one object in all of them: of 100,000 it is most of the memory.

_SHARED = ("model", "weights", "recipe", "recipe_digest", "task", "data", "precision", "status")


@lru_cache(maxsize=4096)
def _shared_prints(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


@lru_cache(maxsize=4096)
def _shared_measures(lines: tuple[tuple[str, ...], ...]) -> Mapping[str, Mapping[str, Measure]]:
    found: defaultdict[str, dict[str, Measure]] = defaultdict(dict)
    for task, split, metric, name in lines:
        found[task][name] = Measure(split, metric)
    return dict(found)


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
"""The columns that repeat, for lists, what the job or the cost says; the digest covers them too."""


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One attempt at a job as it lies in a store, field for field, to be carried to another.

    `status` is "finished" or a failure's kind, `data` what Result or Failure wrote as JSON when it
    was stored, the job by its labels, and `digest` what tells damage: it stays the same wherever
    the run is stored. `facts` are the job's, None where its labels say the same (see labels.py).
    """

    key: str
    attempt: int
    status: str
    digest: str
    data: Mapping[str, Any]
    facts: Mapping[str, Any] | None = None


_Row = TypeVar("_Row", Run, Score, Predictions)


def _new(table: type[_Row], **values: Any) -> _Row:
    """A row that goes into the store past the mapper, which need not follow its values."""
    row = table()
    vars(row).update(values)
    return row


def result_to_run(result: Result) -> Run:
    """The rows of a finished job, but for the attempt's number.

    Raises StoreError for what no database can keep unchanged.
    """
    return _finished_run(*_with_facts(result))


def _with_facts(outcome: Result | Failure) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an outcome is as JSON, with the labels of its job, and the job's facts."""
    data = plain(outcome.to_json())
    facts = data["job"].pop("facts")
    return data, facts


def _finished_run(data: Mapping[str, Any], facts: Mapping[str, Any]) -> Run:
    run = _new(
        Run,
        **_job_columns(data["job"], facts),
        status=FINISHED,
        exit_code=None,
        # float, as the column will make it: a digest tells 12 from 12.0
        seconds=float(data["cost"]["seconds"]),
        parameters=data["cost"]["parameters"],
        finished=storable(data["finished"]),
        error="",
        curve=data["curve"],
        cost=data["cost"],
        provenance=data["provenance"],
        details="",
        scores=[],
        predictions=[],
    )
    for evaluation in data["evaluations"]:
        task, split, scores = (evaluation[name] for name in ("task", "split", "scores"))
        _check_names(task, split, *scores)
        measures = measures_of(task)
        metrics = {n: measures[n].metric if n in measures else metric_of(split, n) for n in scores}
        # Adding 0.0 turns an integer into a float and -0.0 into 0.0, as the column will.
        run.scores += [
            _new(Score, task=task, split=split, name=name, value=value + 0.0, metric=metrics[name])
            for name, value in scores.items()
        ]
        run.predictions.append(
            _new(
                Predictions,
                task=task,
                split=split,
                fingerprint=evaluation["fingerprint"],
                flags=evaluation["flags"],
                rows=evaluation["predictions"],
            )
        )
    run.digest = _digest(run)
    run.facts_digest = _facts_digest(run)
    return run


def failure_to_run(failure: Failure) -> Run:
    """The row of a failure, but for the attempt's number.

    NUL and lone surrogates in its message and details are written out.
    """
    return _failed_run(*_with_facts(failure))


def _failed_run(data: Mapping[str, Any], facts: Mapping[str, Any]) -> Run:
    run = _new(
        Run,
        **_job_columns(data["job"], facts),
        status=data["kind"],
        exit_code=data["exit_code"],
        finished=storable(data["finished"]),
        error=storable(data["error"]),
        details=storable(data["details"]),
        **dict.fromkeys(("seconds", "parameters", "curve", "cost", "provenance")),
        scores=[],
        predictions=[],
    )
    run.digest = _digest(run)
    run.facts_digest = _facts_digest(run)
    return run


def run_to_outcome(run: Run) -> Result | Failure:
    """What was stored. Raises StoreError where a byte of it is not what it was."""
    _require_whole(run)
    return _outcome(run)


def _outcome(run: Run) -> Result | Failure:
    job = {**run.job, "facts": run.facts}
    if run.status == FINISHED:
        return Result.from_json({**_result_data(run), "job": job})
    return Failure.from_json({**_failure_data(run), "job": job})


def run_to_stored(run: Run) -> StoredRun:
    """The run for another store. Raises StoreError where a byte of it is not what it was."""
    _require_whole(run)
    return StoredRun(
        key=run.job_key,
        attempt=run.attempt,
        status=run.status,
        digest=run.digest,
        data=_result_data(run) if run.status == FINISHED else _failure_data(run),
        facts=None if facts_of(run.job) == run.facts else run.facts,
    )


def stored_to_run(stored: StoredRun) -> Run:
    """The rows of a run from another store, but for the attempt's number.

    Raises StoreError where it is not what that store has written.
    """
    # What was changed by hand may be anything, so reading it may fail in any of these ways.
    try:
        make = _finished_run if stored.status == FINISHED else _failed_run
        facts = facts_of(stored.data["job"]) if stored.facts is None else stored.facts
        run = make(stored.data, facts)
        run.attempt = stored.attempt
        _outcome(run)
        headline_data(run)
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
    """The error for a run that no store can have written as it is."""
    return StoreError(
        f"the run {key[:12]} (attempt {attempt}) is not what its store has written: export that "
        "store again."
    )


def _require_whole(run: Run) -> None:
    if not _is_whole(run):
        raise _damaged(run)


def _damaged(run: Run) -> StoreError:
    return StoreError(
        f"the stored run {run.job_key[:12]} (attempt {run.attempt}) is damaged: it is not what was "
        "written. Put a backup in the leaderboard's place, or run the job again (--force)."
    )


def _is_whole(run: Run) -> bool:
    try:
        return (_digest(run), _facts_digest(run)) == (run.digest, run.facts_digest)
    except StoreError:  # a flipped bit made a number infinite
        return False


def _digest(run: Run) -> str:
    """Of everything in the run but the number of the attempt."""
    data = _result_data(run) if run.status == FINISHED else _failure_data(run)
    return digest([data, {name: getattr(run, name) for name in COPIES}])


def _facts_digest(run: Run) -> str:
    """Of what `_digest` does not cover, together with that digest: of another run it is another."""
    return digest([run.digest, run.facts, [score.metric for score in run.scores]])


def _job_columns(data: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    job = Job.from_json({**data, "facts": facts})
    define_task(job.definition)
    names = ("model", "weights", "task", "data", "precision")
    return {
        **{name: storable(getattr(job, name)) for name in names},
        "recipe": storable(data["recipe"]),
        "job_key": job.key,
        "recipe_digest": recipe_digest(job),
        "suite": storable(job.task.partition("/")[0]),
        "limit": job.limit,
        "seed": job.seed,
        "start_from": job.start_from,
        "fingerprints": data["fingerprints"],
        "job": data,
        "facts": dict(facts),
    }


def _check_names(*names: str) -> None:
    for name in names:
        if storable(name) != name:
            raise StoreError(
                f"{name!r} cannot be the name of a task, a split or a metric: databases refuse NUL "
                "and lone surrogates."
            )


def _result_data(run: Run) -> dict[str, Any]:
    """What Result.to_json gave, put together from the rows."""
    return {
        "job": run.job,
        "evaluations": [_evaluation_data(run, predicted) for predicted in run.predictions],
        "curve": run.curve,
        "cost": run.cost,
        "provenance": run.provenance,
        "finished": run.finished,
    }


def _evaluation_data(run: Run, predicted: Predictions) -> dict[str, Any]:
    where = (predicted.task, predicted.split)
    return {
        "task": predicted.task,
        "split": predicted.split,
        "fingerprint": predicted.fingerprint,
        "scores": {s.name: s.value for s in run.scores if (s.task, s.split) == where},
        "predictions": predicted.rows,
        "flags": predicted.flags,
    }


def _failure_data(run: Run) -> dict[str, Any]:
    """What Failure.to_json gave, put together from the row."""
    return {
        "job": run.job,
        "kind": run.status,
        "error": run.error,
        "details": run.details,
        "exit_code": run.exit_code,
        "finished": run.finished,
    }
