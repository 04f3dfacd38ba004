"""Examples that one of two systems gets right and the other does not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leaderboard.paired.predicted import PredictedSplit
from tasks.examples import (
    ChoiceExample,
    Example,
    PairExample,
    Prediction,
    SpanExample,
    TagExample,
)
from tasks.metrics.answers import exact_match, normalise
from tasks.task import PairTask, Task

__all__ = ["Flip", "answer_of", "flips_of", "gold_of"]

NO_ANSWER = "(no answer)"


@dataclass(frozen=True, kw_only=True)
class Flip:
    """An example that one system has right with more of the seeds than the other.

    `place` is its number among the examples of all splits, `one` and `other` say with how many of
    the seeds each is right, and `answers` what each has answered with the first seed.
    """

    place: int
    split: str
    id: str
    text: str
    gold: str
    one: int
    other: int
    answers: tuple[str, str]


def flips_of(splits: Sequence[PredictedSplit]) -> tuple[Flip, ...] | None:
    """The examples that flipped, the clearest first; None for numbers, which are never right."""
    if isinstance(splits[0].task, PairTask) and splits[0].task.is_regression:
        return None
    found, start = [], 0
    for split in splits:
        found += list(_of_split(split, start))
        start += len(split.examples)
    return tuple(sorted(found, key=lambda flip: -abs(flip.one - flip.other)))


def _of_split(split: PredictedSplit, start: int) -> Iterator[Flip]:
    task = split.task
    for place, example in enumerate(split.examples):
        ones, others = [run[place] for run in split.one], [run[place] for run in split.other]
        one, other = (sum(is_right(task, p, example) for p in side) for side in (ones, others))
        if one != other:
            yield Flip(
                place=start + place,
                split=split.split,
                id=example.id,
                text=text_of(example),
                gold=gold_of(example),
                one=one,
                other=other,
                answers=(answer_of(task, ones[0], example), answer_of(task, others[0], example)),
            )


def is_right(task: Task, prediction: Any, example: Any) -> bool:
    """Whether the label, the option, the answer's text or every tag of a sentence is right.

    An answer gives way to "no answer" at the threshold 0, as in SQuAD 2.0's headline.
    """
    match example:
        case PairExample():
            return bool(prediction.label == example.label)
        case ChoiceExample():
            return prediction.option in (example.gold or ())
        case TagExample():
            return bool(prediction.tags == example.tags)
        case SpanExample():
            text = _span(task, prediction)
            golds = [gold for gold, _ in example.answers or () if normalise(gold)] or [""]
            return any(exact_match(text, gold) for gold in golds)
    raise AssertionError(f"{task.name} has no head type")


def _span(task: Task, prediction: Any) -> str:
    gives_none = getattr(task, "no_answer", False) and prediction.no_answer_score > 0
    return "" if gives_none else str(prediction.text)


def answer_of(task: Task, prediction: Prediction, example: Example) -> str:
    """A prediction as a reader sees it."""
    found: Any = prediction
    match example:
        case ChoiceExample():
            return example.options[int(found.option)]
        case TagExample():
            return _tagged(example.words, found.tags)
        case SpanExample():
            return _span(task, found) or NO_ANSWER
        case PairExample():
            return str(found.label)
    raise AssertionError(f"{task.name} has no head type")


def gold_of(example: Example) -> str:
    """The right answer as a reader sees it."""
    match example:
        case PairExample():
            return str(example.label)
        case ChoiceExample():
            return " | ".join(example.options[place] for place in example.gold or ())
        case TagExample():
            return _tagged(example.words, example.tags or ())
        case SpanExample():
            return " | ".join(dict.fromkeys(t for t, _ in example.answers or ())) or NO_ANSWER


def text_of(example: Example) -> str:
    """What the question was; of a context on its own, nothing."""
    match example:
        case PairExample():
            return (
                example.text_a if example.text_b is None else f"{example.text_a} / {example.text_b}"
            )
        case ChoiceExample():
            return example.question or example.context
        case TagExample():
            return " ".join(example.words)
        case SpanExample():
            return example.question


def _tagged(words: Sequence[str], tags: Sequence[str]) -> str:
    named = [f"{word}/{tag}" for word, tag in zip(words, tags, strict=True) if tag != "O"]
    return " ".join(named) or "(no entity)"
