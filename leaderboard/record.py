"""A Result or a Failure as rows of the schema, and back, with the digest checked on the way."""

from collections.abc import Mapping
from typing import Any

from leaderboard.canonical import digest, plain, recipe_digest, storable
from leaderboard.job import Job
from leaderboard.result import Failure, Result
from leaderboard.schema import FINISHED, Predictions, Run, Score
from tasks.errors import StoreError

__all__ = ["failure_to_run", "result_to_run", "run_to_outcome"]


def result_to_run(result: Result) -> Run:
    """The rows of a finished job, but for the attempt's number.

    Raises StoreError for what no database can keep unchanged.
    """
    data = plain(result.to_json())
    for evaluation in data["evaluations"]:
        _check_names(evaluation)
        # Adding 0.0 turns an integer into a float and -0.0 into 0.0, as the column will.
        evaluation["scores"] = {name: v + 0.0 for name, v in evaluation["scores"].items()}
    clean = Result.from_json(data)
    run = Run(digest=digest(data), **_result_columns(clean))
    for evaluation in data["evaluations"]:
        where = {"task": evaluation["task"], "split": evaluation["split"]}
        scores = evaluation["scores"].items()
        run.scores += [Score(**where, name=name, value=value) for name, value in scores]
        run.predictions.append(
            Predictions(
                **where,
                fingerprint=evaluation["fingerprint"],
                flags=evaluation["flags"],
                rows=evaluation["predictions"],
            )
        )
    return run


def failure_to_run(failure: Failure) -> Run:
    """The row of a failure, but for the attempt's number.

    NUL and lone surrogates in its message and details are written out.
    """
    data = plain(failure.to_json())
    data |= {name: storable(data[name]) for name in ("error", "details", "finished")}
    clean = Failure.from_json(data)
    return Run(digest=digest(data), **_failure_columns(clean))


def run_to_outcome(run: Run) -> Result | Failure:
    """What was stored. Raises StoreError where a byte of it is not what it was."""
    data = _result_data(run) if run.status == FINISHED else _failure_data(run)
    if digest(data) != run.digest:
        raise _damage(run)
    outcome: Result | Failure
    if run.status == FINISHED:
        outcome = Result.from_json(data)
        columns = _result_columns(outcome)
    else:
        outcome = Failure.from_json(data)
        columns = _failure_columns(outcome)
    # The digest covers what was put together; the columns that lists read are copies of it.
    if any(getattr(run, name) != _as_stored(value) for name, value in columns.items()):
        raise _damage(run)
    return outcome


def _damage(run: Run) -> StoreError:
    return StoreError(
        f"the stored run {run.job_key[:12]} (attempt {run.attempt}) is damaged: it is not what was "
        "written. Put a copy of the leaderboard back, or run the job again with --force."
    )


def _as_stored(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


def _check_names(evaluation: Mapping[str, Any]) -> None:
    for name in (evaluation["task"], evaluation["split"], *evaluation["scores"]):
        if storable(name) != name:
            raise StoreError(
                f"{name!r} cannot be the name of a task, a split or a metric: databases refuse NUL "
                "and lone surrogates."
            )


def _result_columns(result: Result) -> dict[str, Any]:
    data = result.to_json()
    return _job_columns(result.job) | {
        "status": FINISHED,
        "exit_code": None,
        "seconds": result.cost.seconds,
        "parameters": result.cost.parameters,
        "finished": result.finished,
        "error": "",
        "curve": plain(data["curve"]),
        "cost": data["cost"],
        "provenance": data["provenance"],
        "details": "",
    }


def _failure_columns(failure: Failure) -> dict[str, Any]:
    return _job_columns(failure.job) | {
        "status": failure.kind,
        "exit_code": failure.exit_code,
        "seconds": None,
        "parameters": None,
        "finished": failure.finished,
        "error": failure.error,
        "curve": None,
        "cost": None,
        "provenance": None,
        "details": failure.details,
    }


def _job_columns(job: Job) -> dict[str, Any]:
    return {
        "job_key": job.key,
        "model": job.model,
        "recipe": job.recipe,
        "recipe_digest": recipe_digest(job),
        "task": job.task,
        "suite": job.task.partition("/")[0],
        "data": job.data,
        "limit": job.limit,
        "seed": job.seed,
        "precision": job.precision,
        "start_from": job.start_from,
        "fingerprints": dict(job.fingerprints),
        "job": job.to_json(),
    }


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
