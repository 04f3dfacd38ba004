"""CoNLL-2003: a tag for every word, as in run_ner.py."""

from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from seqeval.metrics import f1_score
from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

from benchmarks.trainer.problem import Problem, Request, Scores, real_lengths

__all__ = ["problem"]

TAGS = ("O", *(f"{prefix}-{kind}" for kind in ("PER", "ORG", "LOC", "MISC") for prefix in "BI"))
IGNORED = -100
FILES = {"train": "eng.train", "dev": "eng.testa"}

Sentence = tuple[list[str], list[str]]


def problem(request: Request) -> Problem:
    tokenizer = request.tokenizer()
    sentences = {
        split: _read(Path(request.folder) / "conll2003" / file) for split, file in FILES.items()
    }
    splits = {name: _encode(rows, request, tokenizer) for name, rows in sentences.items()}
    gold = list(splits["dev"]["labels"])

    def score(logits: Any) -> Scores:
        pairs = [
            (_tags(row.argmax(-1), tags), _tags(tags, tags))
            for row, tags in zip(logits, gold, strict=True)
        ]
        guessed, right = zip(*pairs, strict=True)
        return {"entity_f1": float(f1_score(list(right), list(guessed)))}

    return Problem(
        **splits,
        lengths={name: real_lengths(rows["attention_mask"]) for name, rows in splits.items()},
        collate=DataCollatorForTokenClassification(tokenizer, pad_to_multiple_of=request.multiple),
        network=lambda: AutoModelForTokenClassification.from_pretrained(
            request.checkpoint, num_labels=len(TAGS)
        ),
        score=score,
    )


def _read(path: Path) -> list[Sentence]:
    blocks = [block.split("\n") for block in path.read_text(encoding="utf-8").strip().split("\n\n")]
    sentences = [[line.split() for line in lines] for lines in blocks]
    return [
        ([fields[0] for fields in lines], _iob2([fields[-1] for fields in lines]))
        for lines in sentences
        if lines[0][0] != "-DOCSTART-"
    ]


def _iob2(tags: list[str]) -> list[str]:
    """Convert the files' IOB1 tags to IOB2, as on the hub, in which every entity begins with B."""
    before = ["O", *tags]
    return [
        f"B{tag[1:]}" if tag[0] == "I" and last[1:] != tag[1:] else tag
        for last, tag in zip(before, tags, strict=False)
    ]


def _encode(sentences: list[Sentence], request: Request, tokenizer: Any) -> Dataset:
    features = tokenizer(
        [words for words, _ in sentences],
        is_split_into_words=True,
        truncation=True,
        max_length=request.max_tokens,
        padding=request.padding,
    )
    labels = [_labels(features.word_ids(row), tags) for row, (_, tags) in enumerate(sentences)]
    return Dataset.from_dict({**features, "labels": labels})


def _labels(words: list[int | None], tags: list[str]) -> list[int]:
    """Return the tag of every word at its first token, and IGNORED elsewhere."""
    return [
        IGNORED if word is None or word == last else TAGS.index(tags[word])
        for last, word in zip([None, *words], words, strict=False)
    ]


def _tags(numbers: Any, gold: list[int]) -> list[str]:
    """Return the names of predicted tags at the first tokens of words, where `gold` has a tag."""
    return [
        TAGS[int(number)]
        for number, right in zip(np.asarray(numbers), gold, strict=False)
        if right != IGNORED
    ]
