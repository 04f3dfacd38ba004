"""The peer: transformers' Trainer fine-tunes a checkpoint on official GLUE files.

Reads the files, tokenizes and scores on its own, with nothing of benchharness, so that its scores
can stand beside ours. Hyperparameters are those of google-research/bert's
run_classifier.py: learning rate 5e-5, 3 epochs, batch 32, 10 % linear warm-up, weight decay 0.01,
clipping at 1.0, Adam epsilon 1e-6, 128 tokens. What makes it fast without changing
what it learns is on: padding to the batch and fused AdamW. Grouping by length is off: it changes
which examples share a step (docs/log.md).

    python benchmarks/glue_trainer.py CHECKPOINT GLUE_FOLDER --task cola --seed 1 --bf16

Prints one JSON line per task and seed: task, seed, scores, seconds.
"""

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

Scores = dict[str, float]


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
    """Where the texts and the label stand in a task's official files."""

    folder: str
    texts: tuple[int, ...]
    label: int
    labels: tuple[str, ...]
    score: Callable[[np.ndarray, np.ndarray], Scores]
    header: bool = True


TASKS = {
    "cola": GlueFile("CoLA", (3,), 1, ("0", "1"), matthews, header=False),
    "sst2": GlueFile("SST-2", (0,), 1, ("0", "1"), accuracy),
    "mrpc": GlueFile("MRPC", (3, 4), 0, ("0", "1"), accuracy_and_f1),
    "stsb": GlueFile("STS-B", (7, 8), 9, (), correlations),
    "rte": GlueFile("RTE", (1, 2), 3, ("entailment", "not_entailment"), accuracy),
    "wnli": GlueFile("WNLI", (1, 2), 3, ("0", "1"), accuracy),
}


def read(folder: Path, task: GlueFile, split: str, tokenizer: Any) -> Dataset:
    """One split as token ids and labels."""
    with (folder / task.folder / f"{split}.tsv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = rows[1:] if task.header else rows
    features = tokenizer(
        *([row[column] for row in rows] for column in task.texts),
        truncation=True,
        max_length=128,
    )
    names = task.labels
    gold = [names.index(r[task.label]) if names else float(r[task.label]) for r in rows]
    return Dataset.from_dict({**features, "labels": gold})


def fine_tune(checkpoint: str, folder: Path, name: str, options: argparse.Namespace) -> Scores:
    """Trains with one seed and returns the dev scores of the last epoch."""
    task = TASKS[name]
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    train, dev = (read(folder, task, split, tokenizer) for split in ("train", "dev"))
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            seed=options.seed,
            learning_rate=5e-5,
            num_train_epochs=3,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=32,
            warmup_steps=0.1,
            weight_decay=0.01,
            adam_epsilon=1e-6,
            max_grad_norm=1.0,
            bf16=options.bf16,
            use_cpu=True,
            save_strategy="no",
            optim="adamw_torch_fused",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(
            args=arguments,
            model_init=lambda: AutoModelForSequenceClassification.from_pretrained(
                checkpoint, num_labels=len(task.labels) or 1
            ),
            train_dataset=train,
            data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=16),
        )
        trainer.train()
        output = trainer.predict(dev)
    logits = output.predictions
    guess = logits.argmax(-1) if task.labels else logits[:, 0]
    # Grouping by length reorders dev too: the labels that came with the logits are in their order.
    return task.score(guess, output.label_ids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--task", action="append", choices=sorted(TASKS), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    for name in options.task:
        start = time.monotonic()
        scores = fine_tune(options.checkpoint, options.folder, name, options)
        seconds = round(time.monotonic() - start, 1)
        row = {"task": name, "seed": options.seed, "scores": scores, "seconds": seconds}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
