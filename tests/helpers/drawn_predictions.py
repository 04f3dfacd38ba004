"""Random predictions for mini data with given accuracies."""

import random
from collections.abc import Sequence
from functools import cache

from benchharness.extensions.conll2012.task import ClusterPrediction, CorefTask
from benchharness.extensions.retrieval.task import RankingPrediction, RankingTask
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.tasks.examples import (
    ChoicePrediction,
    Example,
    PairPrediction,
    Prediction,
    SpanPrediction,
    TagPrediction,
)
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import ChoiceTask, PairTask, SpanTask, TagTask, Task


@cache
def mini(task: str, split: str) -> tuple[Example, ...]:
    return read(find_task(task), split, parse_data("mini")).examples


def drawn(
    name: str, split: str = "dev", one: Sequence[float] = (0.8,), other: Sequence[float] = (0.6,)
) -> PredictedSplit:
    """Return a split of mini data with two systems; each has one run per accuracy."""
    task, examples = find_task(name), mini(name, split)

    def runs(system: str, chances: Sequence[float]) -> tuple[tuple[Prediction, ...], ...]:
        return tuple(
            predict(task, examples, chance, f"{system} {name} {split} {seed}")
            for seed, chance in enumerate(chances)
        )

    return PredictedSplit(
        task=task,
        split=split,
        examples=examples,
        one=runs("one", one),
        other=runs("other", other),
    )


def predict(
    task: Task, examples: Sequence[Example], chance: float, seed: str
) -> tuple[Prediction, ...]:
    draw = random.Random(seed)
    if isinstance(task, RankingTask):
        return tuple(_rank(example, draw.random() < chance, draw) for example in examples)
    return tuple(_predict(task, example, draw.random() < chance, draw) for example in examples)


def _predict(task: Task, example, right: bool, draw: random.Random) -> Prediction:
    match task:
        case PairTask(is_regression=True):
            return PairPrediction(
                id=example.id, label=example.label + draw.gauss(0, 0.2 if right else 2)
            )
        case PairTask():
            return PairPrediction(
                id=example.id, label=example.label if right else draw.choice(task.labels)
            )
        case ChoiceTask():
            options = range(len(example.options))
            return ChoicePrediction(
                id=example.id, option=example.gold[0] if right else draw.choice(options)
            )
        case SpanTask():
            gold = example.answers[0][0] if example.answers else ""
            guess = " ".join(draw.sample(example.context.split(), 3))
            unsure = 1.0 if task.no_answer and right and not gold else -1.0
            return SpanPrediction(
                id=example.id, text=gold if right and gold else guess, no_answer_score=unsure
            )
        case TagTask():
            tags = example.tags if right else draw.choices(task.tags, k=len(example.tags))
            return TagPrediction(id=example.id, tags=tuple(tags))
        case CorefTask():
            kept = example.clusters if right else example.clusters[1:]
            return ClusterPrediction(id=example.id, clusters=kept)
    raise AssertionError(task.name)


def _rank(example, right: bool, draw: random.Random) -> RankingPrediction:
    relevant = [document for document, grade in example.relevant if grade > 0]
    others = draw.sample(example.corpus.ids, 5)
    best = dict.fromkeys(relevant + others if right else others + relevant)
    scores = tuple(1 / place for place in range(1, len(best) + 1))
    return RankingPrediction(id=example.id, documents=tuple(best), scores=scores)
