"""Content of one example on a predictions page: its texts, its gold answer and all predictions."""

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
"""Maximum number of answer options of an example that are listed. If there are more, only the gold
and the predicted options are shown.
"""


@dataclass(frozen=True, kw_only=True)
class System:
    """Model, ensemble or baseline whose predictions a page shows, with its runs.

    Attributes:
        name: Name of the leaderboard entry.
        details: Further description of the entry, such as its recipe and precision.
        seeds: Seed of each run as text; "" for a run without a seed.
        keys: Key of each run.
        scores: Scores of each run, keyed by the name of the score.
        flags: Warnings about runs, keyed by the run's key.
    """

    name: str
    details: str
    seeds: tuple[str, ...]
    keys: tuple[str, ...]
    scores: tuple[Mapping[str, float], ...]
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PredictedTask:
    """Input for a predictions page: the predictions of one or two systems on a task.

    Attributes:
        task: Task that was predicted.
        data: Source of the data.
        systems: One or two systems that made the predictions.
        splits: Splits with their examples, the predictions of the first system (`one`) and those of
            the second system (`other`). If the examples could not be read, no split has examples.
        texts: True if the page shows the texts of the examples.
        reason: Sentence that explains why the examples could not be read; empty if they were.
    """

    task: Task
    data: str
    systems: tuple[System, ...]
    splits: tuple[PredictedSplit, ...]
    texts: bool = True
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class AnswerView:
    """Answer that one or more seeds of a system gave to an example.

    Attributes:
        text: Answer as text.
        state: "right" or "wrong"; empty if the gold answer is unknown.
        note: The seeds that gave the answer (if the system has several), and its mean probability
            if that is known.
    """

    text: str
    state: str
    note: str


class Segment(NamedTuple):
    """Segment of a text that is highlighted uniformly.

    Attributes:
        text: Text of the segment.
        kinds: Kinds of spans that cover the segment, separated by spaces: "gold" for a gold answer,
            "one" and "other" for an answer of the first and of the second system, and "mark" for a
            span that belongs to the example's input.
    """

    text: str
    kinds: str


class Block(NamedTuple):
    """One text of an example.

    Attributes:
        name: Name of the text, such as "question" or "passage".
        segments: The text, split where the highlighting changes.
        folded: True if the page shows the text only after a click.
    """

    name: str
    segments: tuple[Segment, ...]
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class ExampleView:
    """Content of one example on the page: its texts, its gold answer and all predicted answers.

    Attributes:
        place: Number of the example in the order of the data, from 1.
        id: Id of the example.
        split: Split of the example.
        blocks: Texts; empty if texts are not shown.
        options: Answer options as tuples (number, text, True if it is the gold answer); empty if
            they are not listed.
        gold: Gold answer; "hidden" if it is not published, "unknown" if it could not be read.
        answers: For each system, the distinct answers of its seeds, most frequent first.
        near: Description of how close the first system's answers are to the gold answer; empty if
            the gold answer is unknown.
        state: Number of the first system's seeds that are right: "all", "some" or "none"; empty if
            the gold answer is unknown.
        flip: 1 if the first system is right with a larger fraction of its seeds than the second, -1
            if with a smaller fraction, else 0.
        cells: Cells of the confusion matrices that count the example, as "system.row.column" with
            indices from 0.
        difficulty: Number by which examples are sorted; it is higher for harder examples.
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
    """Example with the predictions of each system.

    Attributes:
        split: Split of the example.
        id: Id of the example.
        example: The example; None if it could not be read.
        sides: For each system, the predictions of its seeds.
        judged: For each system, the comparisons of these predictions with the gold answer; empty if
            the gold answer is unknown.
    """

    split: str
    id: str
    example: Example | None
    sides: tuple[tuple[Any, ...], ...]
    judged: tuple[tuple[Judged, ...], ...]


def rows_of(task: Task, split: PredictedSplit) -> Iterator[Row]:
    """Yield the examples of a split with the predictions of all systems.

    The predictions are compared with the gold answers, if these are known.
    """
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
    """Return, for each system, the fraction of its seeds that answer an example correctly.

    The result is empty if the gold answer is unknown.
    """
    return tuple(fmean(found.right for found in side) for side in row.judged)


def build_example(
    predicted: PredictedTask,
    number: int,
    row: Row,
    places: Mapping[int, Mapping[tuple[str, str], str]],
) -> ExampleView:
    """Create the content of one example on the page.

    Args:
        predicted: Input for the page.
        number: Number of the example in the order of the data.
        row: Example with its predictions.
        places: Names of the cells in the confusion matrix of each system. The outer keys are the
            indices of the systems, and the inner keys the titles (row, column) of a cell.
    """
    shares, kind, example = shares_of(row), answer_type(predicted.task), row.example
    gold = "unknown" if example is None else "hidden"
    if example is not None and not example.is_hidden:
        gold = kind.gold_said(example, texts=predicted.texts)
    # The difficulty is larger for harder examples. Without gold answers, it is the share of seeds
    # whose answer differs from the most frequent answer.
    if row.judged:
        near = fmean(found.near for found in row.judged[0])  # answers of the first system only
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
    """Return the distinct answers, most frequent first, with the indices of their predictions."""
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


# Texts of an example, with highlighted spans.


def _options(kind: AnswerType, row: Row) -> Iterator[tuple[str, str, bool]]:
    """Yield the number and text of each option, and whether it is the gold answer.

    Yields nothing if there are more than LONG_OPTIONS options.
    """
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
    """Split a text at the ends of all spans; each segment gets the kinds of spans that cover it."""
    found = [span for span in spans if span[0] < span[1]]
    # No span begins or ends inside a segment, so it covers a segment completely or not at all.
    cuts = sorted({0, len(text), *(at for start, end, _ in found for at in (start, end))})
    return tuple(
        Segment(
            text[start:end],
            " ".join(dict.fromkeys(k for a, b, k in found if a <= start and end <= b)),
        )
        for start, end in pairwise(cuts)
    )


def _answer_spans(kind: AnswerType, row: Row) -> Iterator[Span]:
    """Yield the spans of the gold answers, and of each system's most frequent answer."""
    for start, end in kind.gold_stretches(row.example):
        yield start, end, "gold"
    for name, side in zip(SIDES, row.sides, strict=False):
        _, (usual, *_) = _grouped(kind, side)[0]
        yield from ((start, end, name) for start, end in kind.stretches(side[usual], row.example))
