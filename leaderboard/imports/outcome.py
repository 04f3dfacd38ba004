"""An imported score as a result that a store keeps, and that nothing takes for one of ours."""

from leaderboard.boards.imported import ImportedScore
from leaderboard.job import Job, Setting
from leaderboard.result import Cost, Evaluation, Result
from leaderboard.split_of import stored_name

__all__ = ["to_result"]


def to_result(score: ImportedScore) -> Result:
    """The result of the job "this source said so"; equal scores give equal results.

    The job has no fingerprints, because nobody here saw the rows, and its key covers what the score
    is of but not the score: a corrected one is another attempt at the same job, and counts.
    """
    name = stored_name(score.task, score.metric, score.split)
    told: dict[str, str | int] = {
        "model": score.model,
        "metric": name,
        "recipe": score.recipe,
        "data": score.data,
        "limit": score.limit or 0,
    }
    precision = score.precision or "unknown precision"
    job = Job(
        model=score.model,
        checkpoint="",
        weights=f"imported:{score.source}",
        task=score.task,
        task_version=0,
        data=score.data or "imported",
        fingerprints={},
        recipe=score.recipe or "imported",
        settings={
            field: Setting(value=value, source=score.source) for field, value in told.items()
        },
        seed=0,
        precision=precision,
        limit=score.limit,
        method=0,
    )
    evaluation = Evaluation(
        task=score.task,
        split=score.split,
        fingerprint="",
        scores={name: score.score},
        predictions=(),
    )
    return Result(
        job=job,
        evaluations=(evaluation,),
        curve=(),
        cost=Cost.without_network(0.0),
        provenance={"source": score.source},
        finished=score.date,
    )
