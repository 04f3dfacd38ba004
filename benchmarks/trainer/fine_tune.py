"""Run the Trainer, from reading the files to scores and counts."""

import tempfile
import time
from importlib import import_module
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import Sampler
from transformers import Trainer, TrainingArguments, set_seed

from benchmarks.trainer.flags import Flags
from benchmarks.trainer.problem import Problem, Request
from benchmarks.workloads import Values

__all__ = ["fine_tune", "train"]


def fine_tune(
    request: Request, head: str, flags: Flags, values: Values, seed: int
) -> dict[str, Any]:
    """Train with one seed; return the dev scores of the last epoch, seconds, and counts.

    No checkpoint is written. transformers' example scripts write one every 500 steps and at the
    end.
    """
    set_seed(seed)
    problem: Problem = import_module(f"benchmarks.trainer.{head}").problem(request)
    logits, train_seconds, predict_seconds = train(problem, problem.network(), flags, values)
    lengths = np.array(problem.lengths["train"], dtype=np.int64)
    return {
        "scores": problem.score(logits),
        "train_seconds": train_seconds,
        "predict_seconds": predict_seconds,
        "train_rows": len(lengths),
        "train_tokens": int(lengths.sum() * values.epochs),
        "train_squares": int((lengths**2).sum() * values.epochs),
        "dev_tokens": int(np.sum(problem.lengths["dev"])),
        "device_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
    }


def train(
    problem: Problem,
    network: Any,
    flags: Flags,
    values: Values,
    sampler: Sampler[int] | None = None,
) -> tuple[Any, float, float]:
    """Train, and return the logits of dev and the seconds of training and of prediction.

    A sampler determines the order of the rows in each epoch; without one the Trainer draws it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        args = _arguments(scratch, flags, values)
        if flags.tf32:
            # The Trainer sets torch's new option, and torch.compile fails if the old one differs
            # (pytorch issue 166387).
            torch.backends.cuda.matmul.allow_tf32 = True
        trainer = Trainer(
            args=args,
            model=network,
            train_dataset=problem.train,
            data_collator=problem.collate,
        )
        if sampler is not None:
            trainer._get_train_sampler = lambda *_: sampler
        started = time.monotonic()
        trainer.train()
        trained = time.monotonic()
        logits = _predict(trainer, problem.dev, flags)
        return logits, trained - started, time.monotonic() - trained


def _arguments(scratch: str, flags: Flags, values: Values) -> TrainingArguments:
    return TrainingArguments(
        output_dir=scratch,
        seed=torch.initial_seed(),
        learning_rate=values.learning_rate,
        num_train_epochs=values.epochs,
        per_device_train_batch_size=values.batch_size,
        per_device_eval_batch_size=values.batch_size,
        warmup_steps=0.1,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        max_grad_norm=1.0,
        use_cpu=not torch.cuda.is_available(),
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **flags.arguments(),
    )


def _predict(trainer: Trainer, dev: Dataset, flags: Flags) -> Any:
    """Return the logits in the order of dev.

    If rows are grouped by length, this function sorts them, the longest first, because the
    Trainer's own grouping does not return the order of the rows.
    """
    if not flags.by_length:
        return trainer.predict(dev).predictions
    lengths = (
        dev["length"] if "length" in dev.column_names else [len(ids) for ids in dev["input_ids"]]
    )
    order = np.argsort(-np.array(lengths), kind="stable")
    trainer.args.train_sampling_strategy = "sequential"
    logits = trainer.predict(dev.select(order)).predictions
    back = np.argsort(order)
    return tuple(part[back] for part in logits) if isinstance(logits, tuple) else logits[back]
