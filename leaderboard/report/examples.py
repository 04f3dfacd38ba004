"""One example on a page of predictions: its texts, its gold answer and every answer to it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.text import grouped
from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import AnswerType, Judged, labels_known
from benchharness.tasks.examples import Example
from benchharness.tasks.task import Task

LONG_OPTIONS = 6
"""More options than these are named where they are gold or answered, and not listed."""


@dataclass(frozen=True, kw_only=True)
class System:
    """Who answered: `seeds` name the runs ("" for what has none), `scores` are by run and split.

    `flags` are what must be known of each run that has any, by its key.
    """

    name: str
    details: str
    seeds: tuple[str, ...]
    keys: tuple[str, ...]
    scores: tuple[Mapping[str, float], ...]
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PredictedTask:
    """What a page is of: the runs of one system on a task, or of two.

    The splits hold the systems' predictions as `one` and `other`, in the order of their seeds. They
    have no examples where these could not be read; `reason` is the sentence that says why. `texts`
    says whether the page shows the examples' words, `data` where they came from.
    """

    task: Task
    data: str
    systems: tuple[System, ...]
    splits: tuple[PredictedSplit, ...]
    texts: bool = True
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class AnswerView:
    """One answer of a system, and the seeds that gave it; `state` is "right", "wrong" or ""."""

    text: str
    state: str
    note: str


class Segment(NamedTuple):
    """A stretch of a text and what it is: "gold", "one", "other", "mark", several or nothing."""

    text: str
    kinds: str


class Block(NamedTuple):
    """A text of an example: "question", "passage", ...; a long one can be folded."""

    name: str
    segments: tuple[Segment, ...]
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class ExampleView:
    """An example with every answer; `near` says how close the first system comes.

    `state` is "all", "some" or "none": with how many seeds the first system is right, "" where
    nobody knows. `flip` is 1 where only it is right, or with more of its seeds than the second, and
    -1 where the second is. `cells` are those of the confusion matrices, "system.row.column".
    """

    place: int
    id: str
    split: str
    blocks: tuple[Block, ...]
    options: tuple[tuple[str, str, bool], ...]
    gold: str
    answers: tuple[tuple[AnswerView, ...], ...]
    near: str
    state: str
    flip: int
    cells: tuple[str, ...]
    difficulty: float


class Row(NamedTuple):
    """An example, or None, with the predictions of each system and what they are worth."""

    split: str
    id: str
    example: Example | None
    sides: tuple[tuple[Any, ...], ...]
    judged: tuple[tuple[Judged, ...], ...]


def rows_of(task: Task, split: PredictedSplit) -> Iterator[Row]:
    """The examples of a split, or their predictions alone; judged where gold answers are known."""
    kind, known = answer_type(task), labels_known(split.examples)
    every = [side for side in (split.one, split.other) if side]
    for place in range(len(every[0][0])):
        sides = tuple(tuple(run[place] for run in side) for side in every)
        example = split.examples[place] if split.examples else None
        judged: tuple[tuple[Judged, ...], ...] = ()
        if known and example is not None:
            judged = tuple(tuple(kind.judge(p, example) for p in side) for side in sides)
        yield Row(split.split, sides[0][0].id, example, sides, judged)


def shares_of(row: Row) -> tuple[float, ...]:
    """With which share of its seeds each system is right."""
    return tuple(fmean(found.right for found in side) for side in row.judged)


def build_example(
    predicted: PredictedTask,
    number: int,
    row: Row,
    places: Mapping[int, Mapping[tuple[str, str], str]],
) -> ExampleView:
    """The example for a reader; `places` name the cells of each system's confusion matrix."""
    shares, kind, example = shares_of(row), answer_type(predicted.task), row.example
    gold = "unknown" if example is None else "hidden"
    if example is not None and not example.is_hidden:
        gold = kind.gold_said(example, texts=predicted.texts)
    # Higher is harder; without gold answers the share of seeds that do not agree with the most.
    if row.judged:
        near = fmean(found.near for found in row.judged[0])  # of the first system
        difficulty = -near
    else:
        counts = [len(places) for _, places in _grouped(kind, row.sides[0])]
        difficulty = 1 - max(counts) / sum(counts)
    return ExampleView(
        place=number,
        id=row.id,
        split=row.split,
        blocks=tuple(_blocks(kind, row)) if predicted.texts else (),
        options=tuple(_options(kind, row)) if predicted.texts else (),
        gold=gold,
        answers=tuple(
            tuple(_answers(predicted, row, side, system.seeds))
            for side, system in enumerate(predicted.systems)
        ),
        near=kind.near_words(near, row.sides[0][0]) if row.judged else "",
        state={1.0: "all", 0.0: "none"}.get(shares[0], "some") if shares else "",
        flip=(shares[0] > shares[1]) - (shares[0] < shares[1]) if len(shares) > 1 else 0,
        cells=tuple(
            dict.fromkeys(
                places[side][cell]
                for side, judged in enumerate(row.judged)
                if side in places
                for found in judged
                for cell in found.cells
            )
        ),
        difficulty=difficulty,
    )


def _grouped(kind: AnswerType, predictions: Sequence[Any]) -> list[tuple[Any, list[int]]]:
    """The different answers, the most frequent first, each with the places of its predictions."""
    groups = grouped((kind.key(prediction), place) for place, prediction in enumerate(predictions))
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _answers(
    predicted: PredictedTask, row: Row, side: int, seeds: Sequence[str]
) -> Iterator[AnswerView]:
    predictions, kind = row.sides[side], answer_type(predicted.task)
    for _, places in _grouped(kind, predictions):
        chosen = [predictions[place] for place in places]
        judged = [row.judged[side][place] for place in places] if row.judged else []
        names, named = [seeds[place] for place in places], ""
        if len(seeds) > 1:
            some = f"seed{'' if len(names) == 1 else 's'} {', '.join(names)}"
            named = "every seed" if len(names) == len(seeds) else some
        note = ", ".join(filter(None, (named, kind.belief(chosen))))
        state = ("right" if judged[0].right else "wrong") if judged else ""
        text = kind.said(chosen[0], row.example, texts=predicted.texts)
        yield AnswerView(text=text, state=state, note=note)


# The texts of an example, with what is marked in them.


def _options(kind: AnswerType, row: Row) -> Iterator[tuple[str, str, bool]]:
    """Each option's number, text and whether it is gold; none where there are very many."""
    options = kind.choices(row.example) if kind.is_words and row.example else ()
    if options and len(options) <= LONG_OPTIONS:
        golds = {kind.place(gold) for gold in kind.golds(row.example)}
        for number, option in enumerate(options):
            yield str(number + 1), option, number in golds


def _blocks(kind: AnswerType, row: Row) -> Iterator[Block]:
    for passage in kind.passages(row.example) if row.example else ():
        spans = [*_answer_spans(kind, row)] if passage.holds_answers else []
        spans += [(start, end, "mark") for start, end in passage.marks]
        yield Block(passage.name, _segments(passage.text, spans), passage.folded)


Span = tuple[int, int, str]
SIDES = ("one", "other")


def _segments(text: str, spans: Iterable[Span]) -> tuple[Segment, ...]:
    """The text in stretches, each with the kinds of all spans that cover it."""
    found = [span for span in spans if span[0] < span[1]]
    # No span begins or ends between two cuts, so it covers a stretch whole or not at all.
    cuts = sorted({0, len(text), *(at for start, end, _ in found for at in (start, end))})
    return tuple(
        Segment(
            text[start:end],
            " ".join(dict.fromkeys(k for a, b, k in found if a <= start and end <= b)),
        )
        for start, end in pairwise(cuts)
    )


def _answer_spans(kind: AnswerType, row: Row) -> Iterator[Span]:
    """The gold answers, and of each system the answer that most seeds give."""
    for start, end in kind.gold_stretches(row.example):
        yield start, end, "gold"
    for name, side in zip(SIDES, row.sides, strict=False):
        _, (usual, *_) = _grouped(kind, side)[0]
        yield from ((start, end, name) for start, end in kind.stretches(side[usual], row.example))
