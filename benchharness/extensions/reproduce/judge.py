"""Judge a stored run by a repetition of its job."""

import math
from collections.abc import Iterable, Mapping, Sequence

from benchharness.errors import DataError
from benchharness.extensions.reproduce.causes import Cause, Pair, causes
from benchharness.extensions.reproduce.seeds import ScoreTest, check_scores
from benchharness.extensions.reproduce.verdicts import Kind, Verdict
from benchharness.leaderboard.result import Evaluation, RunRow, predictions_of
from benchharness.leaderboard.sharing import without_paths
from benchharness.tasks.answers import compare_answers
from benchharness.tasks.suites import find_task, split_title
from benchharness.tasks.task import ending_of


def judge(pair: Pair, others: Sequence[RunRow], *, round_id: str, run: str) -> Verdict:
    """Compare a stored run with the repetition of its job, and return the verdict.

    A run is "different" if its scores differ by more than other seeds would explain. It is also
    "different" if there is a difference that neither another machine nor another seed explains,
    such as another number of steps, or a score that does not follow from the stored predictions.

    Args:
        pair: Stored run and its repetition.
        others: Stored runs that differ from this run only in their seed.
        round_id: Id of the call of `bench reproduce`.
        run: Digest that identifies the stored run (`verdicts.identity`).
    """
    found = causes(pair)
    differ, count, moved, fits = _answers(pair)
    same_scores = all(_near(*each) for each in pair.evaluations())
    tests: list[ScoreTest] = []
    kind: Kind = "bits"
    if any(cause.is_sure for cause in found) or not fits:
        kind = "different"
    elif _is_equal(pair):
        found = []  # other packages or another machine had no effect
    elif not differ and same_scores:
        kind = "answers"
    else:
        tests = _tests(pair, others)
        kind = "within" if all(test.is_within for test in tests) else "different"
    if not fits:
        words = "the stored run and the repetition have predicted different splits or rows"
        found = [*found, Cause(thing="data", sentence=words, is_sure=True)]
    if kind == "different" and not found:
        sentence = "the scores differ, but no other difference was found"
        found = [Cause(thing="score", sentence=sentence)]
    result = pair.found
    return Verdict(
        round=round_id,
        key=result.job.key,
        run=run,
        kind=kind,
        differs=found[0].thing if found else "",
        sentences=tuple(f"{each.thing}: {without_paths(each.sentence)}." for each in found),
        answers=differ,
        rows=count,
        moved=moved,
        tests=tuple({**vars(test), "sentence": test.sentence} for test in tests),
        machine=dict(result.provenance.get("machine", {})),
        versions=dict(result.provenance.get("versions", {})),
        seconds=result.cost.seconds,
        finished=result.finished,
    )


def _is_equal(pair: Pair) -> bool:
    """Return whether the scores and the predictions, with their probabilities, are equal."""
    return all(
        one.predictions == other.predictions and {**one.scores} == {**other.scores}
        for one, other in pair.evaluations()
    )


def _near(one: Evaluation, other: Evaluation) -> bool:
    """Return whether two evaluations have the same scores, up to rounding of the last digits."""
    return one.scores.keys() == other.scores.keys() and all(
        math.isclose(value, other.scores[name], rel_tol=1e-6, abs_tol=1e-6)
        for name, value in one.scores.items()
    )


def _answers(pair: Pair) -> tuple[int, int, float, bool]:
    """Compare the answers of both runs.

    Returns:
        The number of answers that differ, the number of compared answers, the largest difference
        between the same number in both predictions, and True if both runs have the same splits and
        rows.
    """
    differ, count, moved = 0, 0, 0.0
    names = [{each.name for each in run.evaluations} for run in (pair.stored, pair.found)]
    fits = names[0] == names[1]
    for one, other in pair.evaluations():
        ids = [[row.get("id") for row in each.predictions] for each in (one, other)]
        if ids[0] != ids[1]:
            return differ, count, moved, False
        try:
            found = [predictions_of(each) for each in (other, one)]
        except DataError:  # malformed stored predictions, which `causes` describes
            return differ, count, moved, False
        changed, largest = compare_answers(find_task(one.task), *found)
        differ, count, moved = differ + changed, count + len(ids[0]), max(moved, largest)
    return differ, count, moved, fits


def _tests(pair: Pair, others: Sequence[RunRow]) -> list[ScoreTest]:
    """Return one test per metric and scored split of a task; detailed scores are not tested."""
    pairs: dict[str, tuple[float, float]] = {}
    seeds: dict[str, Sequence[float]] = {}
    rows: dict[str, int] = {}
    widths: dict[str, float] = {}
    for one, other in pair.evaluations():
        task = find_task(one.task)
        for metric in task.metrics:
            name = metric.name + ending_of(task, one.split)
            if name not in one.scores or name not in other.scores:
                continue
            title = f"{split_title(one.task, one.split)} {name}"
            pairs[title] = one.scores[name], other.scores[name]
            seeds[title] = list(_scores_of(others, one.task, name))
            rows[title] = max(1, len(one.predictions))
            widths[title] = metric.bounds[1] - metric.bounds[0]
    return check_scores(pairs, seeds, rows, widths)


def _scores_of(others: Iterable[RunRow], task: str, name: str) -> Iterable[float]:
    for row in others:
        scores: Mapping[str, float] = row.scores.get(task, {})
        if name in scores:
            yield scores[name]
