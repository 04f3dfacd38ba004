"""GLUE: classification or regression of one or two sentences, as in run_glue.py."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

from benchmarks.trainer.problem import Problem, Request, Scores, real_lengths

__all__ = ["TASKS", "problem"]


def matthews(guess: np.ndarray, gold: np.ndarray) -> Scores:
    return {"mcc": float(matthews_corrcoef(gold, guess))}


def accuracy(guess: np.ndarray, gold: np.ndarray) -> Scores:
    return {"accuracy": float(accuracy_score(gold, guess))}


def accuracy_and_f1(guess: np.ndarray, gold: np.ndarray) -> Scores:
    return accuracy(guess, gold) | {"f1": float(f1_score(gold, guess))}


def correlations(guess: np.ndarray, gold: np.ndarray) -> Scores:
    return {
        "pearson": float(pearsonr(guess, gold).statistic),
        "spearman": float(spearmanr(guess, gold).statistic),
    }


@dataclass(frozen=True)
class GlueFile:
    """Format of a task's official files: the columns of its texts and label, and its labels."""

    folder: str
    texts: tuple[int, ...]
    label: int
    labels: tuple[str, ...]
    score: Callable[[np.ndarray, np.ndarray], Scores]
    header: bool = True


TASKS = {
    "glue/cola": GlueFile("CoLA", (3,), 1, ("0", "1"), matthews, header=False),
    "glue/sst2": GlueFile("SST-2", (0,), 1, ("0", "1"), accuracy),
    "glue/mrpc": GlueFile("MRPC", (3, 4), 0, ("0", "1"), accuracy_and_f1),
    "glue/stsb": GlueFile("STS-B", (7, 8), 9, (), correlations),
    "glue/rte": GlueFile("RTE", (1, 2), 3, ("entailment", "not_entailment"), accuracy),
    "glue/wnli": GlueFile("WNLI", (1, 2), 3, ("0", "1"), accuracy),
}


def problem(request: Request) -> Problem:
    task, tokenizer = TASKS[request.task], request.tokenizer()
    splits = {name: _read(request, task, name, tokenizer) for name in ("train", "dev")}
    gold = np.array(splits["dev"]["labels"])

    def score(logits: Any) -> Scores:
        return task.score(logits.argmax(-1) if task.labels else logits[:, 0], gold)

    return Problem(
        **splits,
        lengths={name: real_lengths(rows["attention_mask"]) for name, rows in splits.items()},
        collate=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=request.multiple),
        network=lambda: AutoModelForSequenceClassification.from_pretrained(
            request.checkpoint, num_labels=len(task.labels) or 1
        ),
        score=score,
    )


def _read(request: Request, task: GlueFile, split: str, tokenizer: Any) -> Dataset:
    """Read a split of a task, and return its token ids and labels."""
    path = Path(request.folder) / task.folder / f"{split}.tsv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = rows[1:] if task.header else rows
    features = tokenizer(
        *([row[column] for row in rows] for column in task.texts),
        truncation=True,
        max_length=request.max_tokens,
        padding=request.padding,
    )
    names = task.labels
    gold = [names.index(r[task.label]) if names else float(r[task.label]) for r in rows]
    return Dataset.from_dict({**features, "labels": gold})
