"""RACE and SWAG: questions with four options, as in run_swag.py."""

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset
from transformers import AutoModelForMultipleChoice, DataCollatorForMultipleChoice

from benchmarks.trainer.problem import Problem, Request, Scores, real_lengths

__all__ = ["problem"]

OPTIONS = 4


class Question(NamedTuple):
    """A text, its continuation for each option, and the index of the right option."""

    context: str
    endings: tuple[str, ...]
    label: int


def problem(request: Request) -> Problem:
    tokenizer = request.tokenizer()
    read = {"race/all": _race, "swag/regular": _swag}[request.task]
    questions = {name: read(Path(request.folder), name) for name in ("train", "dev")}
    splits = {name: _encode(rows, request, tokenizer) for name, rows in questions.items()}
    gold = np.array([question.label for question in questions["dev"]])

    def score(logits: Any) -> Scores:
        return {"accuracy": float((logits.argmax(-1) == gold).mean())}

    return Problem(
        **splits,
        lengths={
            name: real_lengths([mask for masks in rows["attention_mask"] for mask in masks])
            for name, rows in splits.items()
        },
        collate=DataCollatorForMultipleChoice(tokenizer, pad_to_multiple_of=request.multiple),
        network=lambda: AutoModelForMultipleChoice.from_pretrained(request.checkpoint),
        score=score,
    )


def _race(folder: Path, split: str) -> list[Question]:
    passages = [
        json.loads(path.read_text()) for path in sorted(folder.glob(f"race/{split}/*/*.txt"))
    ]
    return [
        Question(
            passage["article"],
            tuple(
                question.replace("_", o) if "_" in question else f"{question} {o}" for o in options
            ),
            "ABCD".index(answer),
        )
        for passage in passages
        for question, options, answer in zip(
            passage["questions"], passage["options"], passage["answers"], strict=True
        )
    ]


def _swag(folder: Path, split: str) -> list[Question]:
    name = {"train": "train.csv", "dev": "val.csv"}[split]
    with (folder / "swag" / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Question(
            row["sent1"],
            tuple(f"{row['sent2']} {row[f'ending{number}']}" for number in range(OPTIONS)),
            int(row["label"]),
        )
        for row in rows
    ]


def _encode(questions: list[Question], request: Request, tokenizer: Any) -> Dataset:
    """Encode the four rows of each question; a question is as long as its longest row."""
    features = tokenizer(
        [question.context for question in questions for _ in range(OPTIONS)],
        [ending for question in questions for ending in question.endings],
        truncation=True,
        max_length=request.max_tokens,
        padding=request.padding,
    )
    columns = {
        name: [rows[start : start + OPTIONS] for start in range(0, len(rows), OPTIONS)]
        for name, rows in features.items()
    }
    lengths = [max(map(len, rows)) for rows in columns["input_ids"]]
    labels = [question.label for question in questions]
    return Dataset.from_dict({**columns, "length": lengths, "labels": labels})
