"""Predictions page, which shows the answers of one or two systems to each example of a task."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchharness.extensions.prediction_pages.examples import (
    ExampleView,
    PredictedTask,
    Row,
    System,
    build_example,
    rows_of,
    shares_of,
)
from benchharness.leaderboard.boards.cell import marked, note_lines, shown
from benchharness.leaderboard.comparing.contrast import slices_of
from benchharness.leaderboard.report.write import packed, render_page, template_module
from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import Confusion, TypeLine, labels_known
from benchharness.tasks.suites import full_title

_HERE = Path(__file__).parent

_STYLES = ("style.css", "predictions.css")
_SCRIPTS = ("unpack.js", "predictions.js")

INLINE = 20
"""Number of examples (the hardest ones) that a page contains as plain HTML, so that they are
visible without scripts. A page also contains all examples in compressed form, which a script
unpacks."""


@dataclass(frozen=True, kw_only=True)
class MatrixView:
    """Confusion matrix of one system.

    Attributes:
        system: Name of the system.
        number: Index of the system on the page, from 0.
        confusion: Counts of gold and predicted classes.
    """

    system: str
    number: int
    confusion: Confusion

    def shade(self, row: int, column: int) -> int:
        """Return the shade of a cell, from 0 (light) to 4 (dark).

        The shade is proportional to the cell's share of the counts in its row.

        Args:
            row: Index of the row.
            column: Index of the column.
        """
        counts = self.confusion.counts[row]
        return round(4 * counts[column] / sum(counts)) if sum(counts) else 0


@dataclass(frozen=True, kw_only=True)
class SliceLine:
    """Statistics of a slice, which is a subset of the examples.

    Attributes:
        name: Name of the slice.
        examples: Number of examples in the slice.
        shares: For each system, the percentage of these examples that it answers correctly (mean
            over its seeds), as text.
    """

    name: str
    examples: int
    shares: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PredictionsView:
    """Content of a predictions page, from which a template makes the HTML.

    Attributes:
        title: Title of the task.
        data: Source of the data.
        systems: One or two systems that made the predictions.
        texts: Sentences about the example texts on the page.
        measures: Names of the scores.
        scores: One tuple per run: name of the system, seed, and the scores as text.
        notes: Warnings about the scores of runs.
        matrices: Confusion matrices; empty if gold answers are unknown.
        matrix_names: Noun for the items that the matrices count, and the caption of the matrices.
        kind: Noun for the classes or types that `types` lists.
        types: For each class or type of answer, the statistics of each system; empty if gold
            answers are unknown.
        slices: Statistics of slices of the examples; empty if gold answers are unknown.
        examples: Examples, hardest first or, if gold answers are unknown, those first on which the
            seeds of the first system disagree the most.
        splits: Names of the splits.
        states: Numbers of examples that the first system answers correctly with "none", "some" and
            "all" of its seeds; empty if gold answers are unknown.
        flips: Numbers of examples that the first system answers correctly more often than the
            second system, and less often.
        order: Order of the examples in words.
        is_marked: True if answers are highlighted in the texts.
    """

    title: str
    data: str
    systems: tuple[System, ...]
    texts: str
    measures: tuple[str, ...]
    scores: tuple[tuple[str, str, tuple[str, ...]], ...]
    notes: tuple[str, ...]
    matrices: tuple[MatrixView, ...]
    matrix_names: tuple[str, str]
    kind: str
    types: tuple[tuple[TypeLine, ...], ...]
    slices: tuple[SliceLine, ...]
    examples: tuple[ExampleView, ...]
    splits: tuple[str, ...]
    states: Mapping[str, int]
    flips: tuple[int, int]
    order: str
    is_marked: bool


def render_predictions(predicted: PredictedTask, generated: str, home: str = "") -> str:
    """Render a predictions page as HTML.

    Args:
        predicted: Predictions to show.
        generated: Date and time at which the page is generated, as text.
        home: URL of the leaderboard's page, for a link; empty for no link.
    """
    view = build_view(predicted)
    return render_page(
        "predictions.html.j2",
        _STYLES,
        _SCRIPTS,
        _HERE,
        view=view,
        generated=generated,
        home=home,
        inline=view.examples[:INLINE],
        data=packed(_records(view)),
    )


def _records(view: PredictionsView) -> str:
    """Return the examples as JSON for the page's script.

    They are in the order of the data, because they can be compressed best in this order.
    """
    card = template_module("prediction.html.j2", _HERE).example_card
    ranks = {example.place: rank for rank, example in enumerate(view.examples)}
    splits = {split: number for number, split in enumerate(view.splits)}
    listed = [
        {
            "place": example.place,
            "rank": ranks[example.place],
            "state": example.state,
            "flip": example.flip,
            "split": splits[example.split],
            "cells": example.cells,
            "html": card(example, view),
        }
        for example in sorted(view.examples, key=lambda example: example.place)
    ]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


# Computing the content of a page.


def build_view(predicted: PredictedTask) -> PredictionsView:
    """Compute the content of a predictions page from the predictions and gold answers."""
    task, systems = predicted.task, predicted.systems
    kind = answer_type(task)
    rows = [row for split in predicted.splits for row in rows_of(task, split)]
    known = all(labels_known(split.examples) for split in predicted.splits)
    matrices = tuple(
        MatrixView(system=system.name, number=number, confusion=confusion)
        for number, system in enumerate(systems if known else ())
        if (confusion := kind.confusion(c for r in rows for j in r.judged[number] for c in j.cells))
    )
    places = {
        matrix.number: {
            (row, column): f"{matrix.number}.{i}.{j}"
            for i, row in enumerate(matrix.confusion.rows)
            for j, column in enumerate(matrix.confusion.columns)
        }
        for matrix in matrices
    }
    examples = [build_example(predicted, number, row, places) for number, row in enumerate(rows, 1)]
    examples.sort(key=lambda example: -example.difficulty)
    states = [example.state for example in examples]
    names = tuple(dict.fromkeys(n for s in systems for scores in s.scores for n in scores))
    passages = [p for row in rows[:1] if known for p in kind.passages(row.example)]
    return PredictionsView(
        title=full_title(task.name),
        data=predicted.data,
        systems=systems,
        texts=_about_texts(predicted, known),
        measures=names,
        scores=tuple(line for system in systems for line in _lines(system, names)),
        notes=tuple(
            note_lines(
                (f"{system.name}, seed {seed}" if seed else system.name, system.flags.get(key, ()))
                for system in systems
                for seed, key in zip(system.seeds, system.keys, strict=True)
            )
        ),
        matrices=matrices,
        matrix_names=kind.matrix,
        kind=kind.type_noun,
        types=tuple(_types(predicted)) if known else (),
        slices=tuple(_slices(rows)) if known else (),
        examples=tuple(examples),
        splits=tuple(dict.fromkeys(row.split for row in rows)),
        states={s: states.count(s) for s in ("none", "some", "all")} if known else {},
        flips=(
            sum(example.flip > 0 for example in examples),
            sum(example.flip < 0 for example in examples),
        ),
        order="hardest first" if known else "largest disagreement first",
        is_marked=known and predicted.texts and any(p.holds_answers for p in passages),
    )


def _lines(system: System, names: Sequence[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the name, the seed and the scores with these names for each run of a system."""
    for seed, key, scores in zip(system.seeds, system.keys, system.scores, strict=True):
        flags = system.flags.get(key, ())
        shown_scores = (marked(shown(scores[n]), flags) if n in scores else "–" for n in names)
        yield system.name, seed, tuple(shown_scores)


def _about_texts(predicted: PredictedTask, known: bool) -> str:
    if predicted.reason:
        return (
            f"Texts and gold answers are missing: {predicted.reason} Only the stored predictions "
            "are shown."
        )
    hidden = "" if known else " The benchmark hides the gold answers of this split."
    if not predicted.texts:
        return (
            f"This page was written with --no-texts, so it contains no text from {predicted.data}."
            f"{hidden}"
        )
    return (
        f"The texts were read from {predicted.data} when this page was written, and its licence "
        f"applies to them. To leave them out, use --no-texts.{hidden}"
    )


def _types(predicted: PredictedTask) -> Iterator[tuple[TypeLine, ...]]:
    """Yield a tuple per class or type of answer, with the statistics of each system."""
    examples = [example for split in predicted.splits for example in split.examples]
    every: list[tuple[TypeLine, ...]] = []
    for number in range(len(predicted.systems)):
        sides = [(split.one, split.other)[number] for split in predicted.splits]
        # For each seed, concatenate the predictions of all splits in the order of the examples.
        runs = [[p for run in joined for p in run] for joined in zip(*sides, strict=True)]
        every.append(answer_type(predicted.task).type_lines(runs, examples))
    yield from zip(*every, strict=True)


def _slices(rows: Sequence[Row]) -> Iterator[SliceLine]:
    examples = [row.example for row in rows if row.example is not None]
    for name, places in slices_of(examples).items():
        shares = zip(*(shares_of(rows[place]) for place in places), strict=True)
        yield SliceLine(
            name=name,
            examples=len(places),
            shares=tuple(shown(fmean(share)) for share in shares),
        )
