"""Detection of predictions that were copied from another run.

Two trainings never have the same probabilities. A copy has them on most rows, even if some answers
were edited, labels were exchanged, or all probabilities were rounded or shifted a little.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchharness.extensions.reproduce.rounding import digits_of
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Evaluation
from benchharness.leaderboard.text import grouped
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Prediction
from benchharness.tasks.read import SplitRows
from benchharness.tasks.suites import find_task, split_title

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ROWS = 2_000
"""Largest number of rows of a split that are compared; they are spread evenly over the split."""

FEWEST = 20
"""Smallest number of rows that decides whether a run is a copy."""

SHARE = 0.5
"""Smallest share of equal probabilities with which a run counts as a copy. In two independent
training runs, at most one probability in ten is equal if they are rounded to two decimals, and none
without rounding."""

NEAR = 5e-3
"""Median difference of the probabilities below 0.9 under which a run with the same answers counts
as a copy. Two seeds of one model differ by several hundredths."""

SAME_ERRORS = 0.95
"""Smallest share of equal answers, among rows that one of two runs answers wrongly, with which a
run without probabilities counts as a copy. Two seeds of one model share about two thirds."""


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Summary of a run's predictions for at most `MOST_ROWS` rows of a split.

    Attributes:
        key: Key of the job.
        weights: Identity of the pretrained weights, as in the job.
        seed: Seed of the job.
        title: Title of the split, for messages.
        rows: Identity of the rows; runs are compared only if it is equal.
        numbers: Highest score of each row, or the predicted number, `[rows]`; NaN without one.
        is_probability: True if the task is a classification or multiple choice, whose scores are
            usually probabilities.
        answers: Digest of each answer, `[rows]`.
        wrong: True for each wrong answer, `[rows]`; None if not all labels are known.
        step: Largest difference of two numbers that count as equal: a unit of the last decimal.
    """

    key: str
    weights: str
    seed: int
    title: str
    rows: str
    numbers: "NDArray[Any]"
    is_probability: bool
    answers: "NDArray[Any]"
    wrong: "NDArray[Any] | None"
    step: float


def sheet_of(
    job: Job,
    one: Evaluation,
    predictions: Sequence[Prediction],
    rows: SplitRows | None,
    provenance: Mapping[str, Any],
) -> Sheet:
    """Return the summary of a run's predictions for a split.

    Args:
        job: Job of the run.
        one: Stored evaluation of the split.
        predictions: Predictions in the evaluation.
        rows: Examples of the split; None if they are unknown.
        provenance: Provenance of the run, which has the number of decimals after rounding.
    """
    import numpy as np  # noqa: PLC0415  (a tenth of a second)

    task = find_task(one.task)
    kind, chosen = answer_type(task), range(0, len(predictions), -(-len(predictions) // MOST_ROWS))
    some = [predictions[place] for place in chosen]
    digits, values = digits_of(provenance), list[float]()
    for each in some:
        scores = kind.scores(each)
        label = getattr(each, "label", None)
        values.append(
            max(scores) if scores else label if isinstance(label, float) else float("nan")
        )
    wrong = None
    if rows is not None and [each.id for each in rows.examples] == [p.id for p in predictions]:
        pairs = zip(some, (rows.examples[place] for place in chosen), strict=True)
        known = [
            None if example.is_hidden else not kind.judge(each, example).right
            for each, example in pairs
        ]
        wrong = None if None in known else np.array(known)
    ids = hashlib.sha256("\0".join(str(p.id) for p in predictions).encode("utf-8", "replace"))
    return Sheet(
        key=job.key,
        weights=job.weights,
        seed=job.seed,
        title=split_title(one.task, one.split),
        rows=f"{one.name}:{one.fingerprint}:{ids.hexdigest()}",
        numbers=np.array(values),
        is_probability=task.kind in ("class", "choice"),
        answers=np.array([_answer(vars(each)) for each in some], dtype=np.uint64),
        wrong=wrong,
        step=10.0**-digits if digits else 1e-7,
    )


def _answer(fields: Mapping[str, object]) -> int:
    """Return a digest of an answer, without its probabilities."""
    left_out = ("id", "scores", "no_answer_score", "start", "tokens")
    text = repr([value for name, value in fields.items() if name not in left_out])
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A run whose predictions were copied from another run, or the other way round.

    Attributes:
        place: Index of the run in the list of runs that was searched.
        source: Index of the other run in this list.
        sentence: Beginning of a sentence about the equal predictions, such as "60% of 500
            probabilities of RTE dev are equal".
    """

    place: int
    source: int
    sentence: str


def copies(runs: Sequence[tuple[str, Sequence[Sheet]]], suspects: Iterable[int]) -> Iterator[Copy]:
    """Yield each suspect that has the predictions of another run, with the first such run.

    Two runs of the same job are not compared, because a repetition has the same predictions. Two
    runs of one contributor with the same weights and seed are not compared either, because they
    may differ only in settings without effect.

    Args:
        runs: Contributor and summaries of the predictions of each run.
        suspects: Indices in `runs` of the runs that may be copies.
    """
    by_rows = grouped(
        (sheet.rows, (number, sheet)) for number, (_, sheets) in enumerate(runs) for sheet in sheets
    )
    alike = {rows: _alike([sheet for _, sheet in some]) for rows, some in by_rows.items()}
    for number in suspects:
        who, sheets = runs[number]
        for sheet in sheets:
            there = by_rows[sheet.rows]
            found = [
                Copy(place=number, source=other, sentence=words)
                for other, theirs in (there[place] for place in alike[sheet.rows](sheet))
                if theirs.key != sheet.key
                and (runs[other][0], theirs.weights, theirs.seed)
                != (who, sheet.weights, sheet.seed)
                and (words := _in_common(sheet, theirs))
            ]
            if found:
                yield found[0]
                break


def _alike(sheets: Sequence[Sheet]) -> Callable[[Sheet], Sequence[int]]:
    """Return a function that finds the indices of the sheets that may be copies of a given sheet.

    The function compares a sheet with all others at once, because a repository has many runs.
    """
    import numpy as np  # noqa: PLC0415  (a tenth of a second)

    numbers = np.stack([sheet.numbers for sheet in sheets])
    steps = np.array([sheet.step for sheet in sheets])

    def find(one: Sheet) -> Sequence[int]:
        apart = np.abs(numbers - one.numbers)
        equal = (apart <= np.maximum(steps, one.step)[:, None]).mean(axis=1)
        # These limits are wider than those of `_in_common`. Sheets without numbers are always
        # included, because `_in_common` compares their answers.
        is_near = (equal >= SHARE / 2) | ~(np.median(apart, axis=1) >= 2 * NEAR)
        return [int(place) for place in np.flatnonzero(is_near)]

    return find


def _in_common(one: Sheet, other: Sheet) -> str:
    """Return the equal predictions as a clause if one sheet is a copy of the other, else ""."""
    import numpy as np  # noqa: PLC0415  (a tenth of a second)

    step = max(one.step, other.step)
    apart = np.abs(one.numbers - other.numbers)
    known = np.isfinite(apart)
    if one.is_probability:
        known &= (one.numbers < 1 - 20 * step) & (other.numbers < 1 - 20 * step)
    if known.sum() >= FEWEST and len(np.unique(one.numbers[known])) >= FEWEST / 2:
        equal = float((apart[known] <= step).mean())
        if equal >= SHARE:
            return f"{equal:.0%} of {int(known.sum())} probabilities of {one.title} are equal"
        open_rows = known & (one.numbers < 0.9) if one.is_probability else known
        is_near = open_rows.sum() >= FEWEST and np.median(apart[open_rows]) < NEAR
        if is_near and one.is_probability and one.weights != other.weights:
            same = float((one.answers == other.answers).mean())
            if same >= 1 - 1 / FEWEST:
                return (
                    f"{same:.0%} of the answers to {one.title}, and nearly the probabilities, are "
                    "equal"
                )
        return ""
    if np.isfinite(one.numbers).any() or one.wrong is None or other.wrong is None:
        return ""
    both = one.wrong | other.wrong
    if both.sum() < 2 * FEWEST:
        return ""
    equal = float((one.answers[both] == other.answers[both]).mean())
    is_copy = equal >= SAME_ERRORS
    return f"{equal:.0%} of the wrong answers to {one.title} are equal" if is_copy else ""
