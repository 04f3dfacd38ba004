"""Random predictions for any split, and files in each benchmark's official format."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchharness.extensions.conll2012.files import write_clusters, write_roles
from benchharness.extensions.conll2012.task import ClusterPrediction, DocumentExample
from benchharness.extensions.reading.files import write_conversations
from benchharness.extensions.retrieval.task import QueryExample, RankingPrediction
from benchharness.extensions.retrieval.trec import write_run
from benchharness.extensions.submission.answer_file import AnswerFile, Labels, Text
from benchharness.extensions.submission.files import write_answers
from benchharness.extensions.submission.json_lines import Option
from benchharness.extensions.submission.prediction_files import OFFICIAL
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    Example,
    PairExample,
    PairPrediction,
    Prediction,
    RoleExample,
    SpanExample,
    SpanPrediction,
    TagExample,
    TagPrediction,
)
from benchharness.tasks.metrics.entities import are_entity_tags, to_iob1, to_iob2
from benchharness.tasks.task import PairTask, SpanTask, TagTask, Task

Pair = tuple[Any, Any]


def tags_of(task: Task) -> tuple[str, ...]:
    known = task.labels if isinstance(task, PairTask) else ()
    return task.tags if isinstance(task, TagTask) else known


def guess(  # noqa: C901, PLR0911  (one for each kind of example)
    task: Task, example: Example, draw: random.Random
) -> Prediction:
    """Return a random prediction; a number may lie outside its scale."""
    match example:
        case PairExample() if task.kind == "labels":
            names = tuple(name for name in tags_of(task) if draw.random() < 0.3)
            return PairPrediction(id=example.id, label=names)
        case QueryExample():
            ids = tuple(draw.sample(example.corpus.ids, 20))
            scores = tuple(draw.choice((0.5, 0.1, draw.random())) for _ in ids)
            return RankingPrediction(id=example.id, documents=ids, scores=scores)
        case PairExample() if isinstance(task, PairTask):
            label = draw.choice(task.labels) if task.labels else round(draw.uniform(-1, 6), 3)
            return PairPrediction(id=example.id, label=label)
        case SpanExample():
            text = draw.choice([*example.context.split(), ""])
            if not isinstance(task, SpanTask) or task.files == "squad":
                return SpanPrediction(id=example.id, text=text)
            return SpanPrediction(
                id=example.id,
                text=text,
                no_answer_score=float(task.no_answer and not text),
                classes=tuple(draw.choice(names) for names in task.classes),
                facts=tuple(draw.sample(range(len(example.sentences)), 2)) if task.facts else (),
            )
        case ChoiceExample():
            return ChoicePrediction(id=example.id, option=draw.randrange(len(example.options)))
        case DocumentExample():
            clusters = tuple(c for c in example.clusters or () if draw.random() < 0.7)
            return ClusterPrediction(id=example.id, clusters=clusters)
        case RoleExample():
            return TagPrediction(id=example.id, tags=_some_arguments(example, draw))
        case TagExample():
            known = tags_of(task)[:4] if are_entity_tags(tags_of(task)) else tags_of(task)
            tags = tuple(draw.choice(known) for _ in example.words)
            return TagPrediction(
                id=example.id, tags=to_iob2(tags) if are_entity_tags(tags) else tags
            )
    raise TypeError(example)


def _some_arguments(example: RoleExample, draw: random.Random) -> tuple[str, ...]:
    """Return the gold tags without some of the arguments; predicates are kept."""
    kept, gone = [], False
    for tag in example.tags or ():
        if tag.startswith("B-"):
            gone = tag != "B-V" and draw.random() < 0.3
        kept.append("O" if gone else tag)
    return tuple(kept)


def write(task: Task, guesses: Sequence[Any], examples: Sequence[Any], folder: Path) -> Path:
    """Write the predictions in the format of the task's benchmark; return the file."""
    pairs = list(zip(guesses, examples, strict=True))
    official = OFFICIAL.get(task.name)
    if official is not None:
        path = folder / official.name
        path.write_bytes(write_answers(official, [_official(official, *pair) for pair in pairs]))
        return path
    if isinstance(task, SpanTask) and task.files != "squad":
        path = folder / "predictions.json"
        path.write_bytes(write_conversations(task.files, guesses, examples))
        return path
    if task.suite == "conll2012":
        path = folder / "predictions.txt"
        path.write_bytes(
            (write_roles if task.kind == "role" else write_clusters)(guesses, examples)
        )
        return path
    if task.kind == "ranking":
        path = folder / "run.trec"
        path.write_bytes(write_run(guesses))
        return path
    path = folder / ("predictions.json" if task.head == "span" else "predictions.tsv")
    path.write_text(WRITERS[task.head](task, pairs), encoding="utf-8")
    return path


def _official(file: AnswerFile, prediction: Any, example: Any) -> object:
    """Return the written form of a prediction."""
    if isinstance(prediction, ChoicePrediction):
        is_text = isinstance(file.answers, Text)
        return example.options[prediction.option] if is_text else prediction.option
    if file.format == "multirc":
        paragraph, question, _ = map(int, prediction.id.split("-"))
        return Option(paragraph, question, int(prediction.label == "True"))
    if isinstance(file.answers, Labels):
        return file.answers.written[str(prediction.label)]
    return str(prediction.label)


def _texts(task: Task, pairs: Sequence[Pair]) -> str:
    return json.dumps({p.id: p.text for p, _ in pairs})


def _labels(task: Task, pairs: Sequence[Pair]) -> str:
    several = task.kind == "labels"
    rows = [(p.id, json.dumps(p.label) if several else str(p.label)) for p, _ in pairs]
    return _table(("index", "prediction"), rows)


def _options(task: Task, pairs: Sequence[Pair]) -> str:
    is_race = task.suite == "race"
    names = "ABCD" if is_race else "0123"
    rows = [(p.id, names[p.option]) for p, _ in pairs]
    return _table(("id", "answer") if is_race else ("index", "prediction"), rows)


def _columns(task: Task, pairs: Sequence[Pair]) -> str:
    """Return lines of word, part of speech and IOB1 tag, with a document start first."""
    lines = ["-DOCSTART- -X- O", ""]
    for prediction, example in pairs:
        tags = to_iob1(prediction.tags) if are_entity_tags(tags_of(task)) else prediction.tags
        lines += [f"{word} NN {tag}" for word, tag in zip(example.words, tags, strict=True)]
        lines.append("")
    return "\n".join(lines)


def _table(header: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{first}\t{second}\n" for first, second in [header, *rows])


WRITERS = {"span": _texts, "pair": _labels, "choice": _options, "tag": _columns}
