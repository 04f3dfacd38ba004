"""SQuAD 1.1: a span of a passage, which is read in overlapping windows, as in run_qa.py."""

import json
import re
import string
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset
from transformers import AutoModelForQuestionAnswering, DataCollatorWithPadding

from benchmarks.trainer.problem import Problem, Request, Scores, real_lengths

__all__ = ["problem"]

OVERLAP = 128
"""Number of tokens that two windows share: run_qa.py --doc_stride."""

BEST, LONGEST = 20, 30
"""Limits of prediction: run_qa.py --n_best_size, and --max_answer_length in tokens."""


class Question(NamedTuple):
    """A question on a passage, with its answers and their positions in characters."""

    text: str
    context: str
    answers: list[tuple[str, int]]


def problem(request: Request) -> Problem:
    tokenizer = request.tokenizer()
    train, dev = (
        _read(Path(request.folder) / "squad" / f"{name}-v1.1.json") for name in ("train", "dev")
    )
    encoded = {"train": _encode(train, request, tokenizer), "dev": _encode(dev, request, tokenizer)}
    columns = {
        name: [c for c in ("input_ids", "token_type_ids", "attention_mask") if c in rows]
        for name, rows in encoded.items()
    }
    starts, ends = _targets(encoded["train"], train)
    splits = {name: {column: encoded[name][column] for column in columns[name]} for name in encoded}
    splits["train"] |= {"start_positions": starts, "end_positions": ends}

    def score(logits: Any) -> Scores:
        return _score(_answers(logits, encoded["dev"], dev), dev)

    return Problem(
        train=Dataset.from_dict(splits["train"]),
        dev=Dataset.from_dict(splits["dev"]),
        lengths={name: real_lengths(rows["attention_mask"]) for name, rows in encoded.items()},
        collate=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=request.multiple),
        network=lambda: AutoModelForQuestionAnswering.from_pretrained(request.checkpoint),
        score=score,
    )


def _read(path: Path) -> list[Question]:
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [
        Question(
            asked["question"],
            paragraph["context"],
            [(answer["text"], answer["answer_start"]) for answer in asked["answers"]],
        )
        for article in articles
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]


def _encode(questions: list[Question], request: Request, tokenizer: Any) -> Any:
    return tokenizer(
        [question.text.lstrip() for question in questions],
        [question.context for question in questions],
        truncation="only_second",
        max_length=request.max_tokens,
        stride=OVERLAP,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=request.padding,
    )


def _context(encoded: Any, row: int) -> range:
    """Return the indices of a window's tokens that belong to the passage."""
    kinds = encoded.sequence_ids(row)
    first = kinds.index(1)
    return range(first, first + kinds.count(1))


def _targets(encoded: Any, questions: list[Question]) -> tuple[list[int], list[int]]:
    """Return the first and last token of the first answer in each window, or 0 if it is cut."""
    places = [
        _places(
            encoded["offset_mapping"][row], _context(encoded, row), *questions[number].answers[0]
        )
        for row, number in enumerate(encoded["overflow_to_sample_mapping"])
    ]
    return [start for start, _ in places], [end for _, end in places]


def _places(
    offsets: list[tuple[int, int]], context: range, text: str, start: int
) -> tuple[int, int]:
    end = start + len(text)
    if offsets[context[0]][0] > start or offsets[context[-1]][1] < end:
        return 0, 0
    inside = [place for place in context if offsets[place][1] > start and offsets[place][0] < end]
    return inside[0], inside[-1]


def _answers(logits: Any, encoded: Any, questions: list[Question]) -> list[str]:
    """Return the best answer to each question over all windows, by the sum of two logits."""
    found: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
    for row, number in enumerate(encoded["overflow_to_sample_mapping"]):
        offsets, context = encoded["offset_mapping"][row], _context(encoded, row)
        first, last = (part[row][context.start : context.stop] for part in logits)
        for start in np.argsort(-first)[:BEST]:
            for end in np.argsort(-last)[:BEST]:
                if start <= end < start + LONGEST:
                    span = offsets[context[start]][0], offsets[context[end]][1]
                    found[number].append((float(first[start] + last[end]), *span))
    best = [max(found[number], default=(0.0, 0, 0)) for number in range(len(questions))]
    return [q.context[start:end] for q, (_, start, end) in zip(questions, best, strict=True)]


def _score(guesses: list[str], questions: list[Question]) -> Scores:
    """Return exact match and F1 in percent, as the official evaluate-v1.1.py defines them."""
    exact, f1 = [], []
    for guess, question in zip(guesses, questions, strict=True):
        words = _words(guess)
        exact.append(max(words == _words(answer) for answer, _ in question.answers))
        f1.append(max(_f1(words, _words(answer)) for answer, _ in question.answers))
    return {"exact_match": 100 * float(np.mean(exact)), "f1": 100 * float(np.mean(f1))}


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation and articles."""
    plain = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def _f1(guess: list[str], gold: list[str]) -> float:
    same = sum((Counter(guess) & Counter(gold)).values())
    return 2 * same / (len(guess) + len(gold)) if same else 0.0
