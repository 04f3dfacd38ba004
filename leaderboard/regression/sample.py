"""One task's runs as the gate sees them: a score for each seed, and which examples were right."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from leaderboard.boards.cell import spread_of
from leaderboard.predictions import predictions_of
from leaderboard.regression.beginning import Beginning, beginning_of, maker_of
from leaderboard.regression.conditions import Conditions, conditions_of
from leaderboard.regression.outcome import is_right
from leaderboard.result import Evaluation, Result
from tasks.errors import DataError
from tasks.examples import Example

__all__ = ["Sample", "sample_of"]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The runs of one task that differ in nothing but the seed.

    `scores` are the task's score by the suite's rule, in the order of `seeds`, in 0..1. `right` has
    for each scored split ("glue/cola:dev") one text for each seed, of one character for each
    example in the split's order: "1" where it was right, "0" where not. `beginnings` are the first
    losses of each seed and `maker` what they were computed by; a baseline that was written before
    they were looked at has none.
    """

    conditions: Conditions
    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    right: Mapping[str, tuple[str, ...]]
    beginnings: tuple[Beginning, ...] = ()
    maker: str = ""

    @property
    def first_losses(self) -> dict[int, Beginning]:
        """The first losses by seed."""
        return dict(zip(self.seeds, self.beginnings, strict=False))

    @property
    def mean(self) -> float:
        """The mean score over the seeds."""
        return fmean(self.scores)

    @property
    def spread(self) -> float | None:
        """The sample standard deviation over the seeds; None for one seed."""
        return spread_of(self.scores)

    @property
    def examples(self) -> int:
        """How many examples a score is of."""
        return sum(len(runs[0]) for runs in self.right.values())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Sample":
        """The sample whose fields these are, as JSON has them; ValueError where they do not fit."""
        sample = cls(
            conditions=Conditions.from_json(data["conditions"]),
            seeds=tuple(data["seeds"]),
            scores=tuple(float(score) for score in data["scores"]),
            right={split: tuple(runs) for split, runs in data["right"].items()},
            beginnings=tuple(Beginning.from_json(row) for row in data.get("beginnings", ())),
            maker=str(data.get("maker", "")),
        )
        if fault := _fault(sample):
            raise ValueError(fault)
        return sample


def _fault(sample: Sample) -> str:
    """What no run can have left; empty where there is nothing."""
    runs = len(sample.seeds)
    if not all(isinstance(seed, int) for seed in sample.seeds):
        return "a seed is no whole number"
    if not runs or len(sample.scores) != runs or not all(map(math.isfinite, sample.scores)):
        return f"{runs} seeds need as many scores"
    for split, outcomes in sample.right.items():
        texts = [outcome for outcome in outcomes if isinstance(outcome, str)]
        if len(texts) != runs or len(set(map(len, texts))) != 1 or set("".join(texts)) - {*"01"}:
            return f"{split} needs a text of 0 and 1 for each of {runs} seeds, all of one length"
    return "" if sample.examples else "there are no examples"


def sample_of(
    results: Sequence[Result],
    scores: Sequence[float],
    examples: Mapping[str, Sequence[Example]],
) -> Sample:
    """The sample of one task's results, each of another seed, and of their scores.

    `examples` are those of the splits that count, by "task:split". Raises DataError where they are
    not those that were predicted.
    """
    return Sample(
        conditions=conditions_of(results[0].job),
        seeds=tuple(result.job.seed for result in results),
        scores=tuple(scores),
        right={
            split: tuple(_outcomes(_evaluation(result, split), rows) for result in results)
            for split, rows in examples.items()
        },
        beginnings=tuple(map(beginning_of, results)),
        maker=maker_of(results[0]),
    )


def _evaluation(result: Result, split: str) -> Evaluation:
    return next(each for each in result.evaluations if each.name == split)


def _outcomes(evaluation: Evaluation, examples: Sequence[Example]) -> str:
    predictions = predictions_of(evaluation)
    if [p.id for p in predictions] != [e.id for e in examples]:
        raise DataError(
            f"the predictions of {evaluation.name} are not for the rows that are there now: "
            "expected the data that the runs were made with."
        )
    pairs = zip(predictions, examples, strict=True)
    return "".join("1" if is_right(guess, example) else "0" for guess, example in pairs)
