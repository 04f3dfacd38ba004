"""Test whether benchharness and transformers' Trainer are equivalent on real data, with ten seeds.

    python -m benchmarks.equivalence --model CHECKPOINT --data FOLDER

Both sides read the same official files with their own readers, and have the same settings. With
each seed both begin with the same head and use the same order of rows; dropout is drawn
independently. Every run is stored when it ends, and stored runs are not repeated.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import transformers
from torch.utils.data import Sampler
from transformers import set_seed

from benchharness.worker.job import run_job
from benchmarks.certificate import Start, names_of
from benchmarks.derived import FILES as DERIVED
from benchmarks.derived import write as write_derived
from benchmarks.record import ROOT, begin, load, write
from benchmarks.sample import draw_sample
from benchmarks.sides import machine
from benchmarks.tost import ALL, SIDES
from benchmarks.trainer.fine_tune import train
from benchmarks.trainer.flags import FLAGS
from benchmarks.trainer.problem import Problem, Request
from benchmarks.workloads import Values, Workload
from tests.helpers.plans import plan_job

__all__ = ["WORKLOADS"]

SEEDS = range(1, 11)
FLAG, PRECISION = "random-bf16", "bf16"

PAIR, SPAN = ("pair", "run_glue.py"), ("span", "run_qa.py")
CHOICE, TAG = ("choice", "run_swag.py"), ("tag", "run_ner.py")


def _values(epochs: float, batch_size: int, learning_rate: float, max_tokens: int = 128) -> Values:
    return Values(
        epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, max_tokens=max_tokens
    )


WORKLOADS = tuple(
    Workload(
        name=name,
        task=task,
        head=head,
        peer=peer,
        folder=folder,
        train_rows=rows,
        dev_rows=dev_rows,
        values=values,
    )
    for name, task, (head, peer), folder, rows, dev_rows, values in (
        ("STS-B", "glue/stsb", PAIR, "glue/STS-B", 1000, ALL, _values(2, 8, 1e-4)),
        ("SST-2", "glue/sst2", PAIR, "glue/SST-2", 2000, ALL, _values(1, 16, 1e-4)),
        ("SQuAD", "squad/v1.1", SPAN, "squad-by-article", 1200, 600, _values(1, 16, 2e-4, 192)),
        ("choice", "swag/regular", CHOICE, "squad-by-article", 300, 400, _values(1, 8, 1e-4)),
        ("tags", "conll2003/ner", TAG, "superglue/ReCoRD", ALL, ALL, _values(4, 8, 2e-4)),
        ("MRPC", "glue/mrpc", PAIR, "glue/MRPC", 1000, ALL, _values(2, 8, 1e-4)),
    )
)
"""Workloads whose runs take about a minute on one core; settings that they lack are BERT's."""

LAST = ("MRPC",)
"""Tasks that run after all seeds of the other tasks."""


class _Order(Sampler[int]):
    """Sampler that yields the rows of each epoch in benchharness's order."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows, self.seed, self.epoch = rows, seed, 0

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[int]:
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.rows)
        self.epoch += 1
        return iter(order.tolist())


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A workload with its files, and the Trainer's problem that is made from the same files."""

    workload: Workload
    model: str
    folder: Path
    problem: Problem

    @classmethod
    def of(cls, workload: Workload, model: str, data: Path, folder: Path) -> "Pair":
        suite = workload.task.partition("/")[0]
        if suite in DERIVED:
            for split, rows in (("train", workload.train_rows), ("dev", workload.dev_rows)):
                write_derived(suite, data, split, rows, folder)
        else:
            draw_sample(workload, data, folder)
        flags = FLAGS[FLAG]
        request = Request(
            checkpoint=model,
            folder=str(folder),
            task=workload.task,
            max_tokens=workload.values.max_tokens,
            pads=False,
            multiple=flags.multiple,
        )
        problem = import_module(f"benchmarks.trainer.{workload.head}").problem(request)
        return cls(workload=workload, model=model, folder=folder, problem=problem)

    def run(self, side: str, seed: int) -> Mapping[str, float]:
        """Train one side with a seed, and return its dev scores."""
        values = asdict(self.workload.values)
        job = plan_job(
            self.model,
            self.workload.task,
            data=str(self.folder),
            seeds=[seed],
            precision=PRECISION,
            overrides={name: str(value) for name, value in values.items()} | {"evaluations": "1"},
        )
        if side == "ours":
            return run_job(job).evaluations[0].scores
        start, network = Start.begin(job, self.workload.head), self.problem.network()
        state = network.state_dict()
        with torch.no_grad():
            for name, their_name in names_of(start.weights, network).items():
                state[their_name].copy_(start.weights[name])
        set_seed(seed)  # determines dropout
        order = _Order(len(self.problem.train), seed)
        logits, *_ = train(self.problem, network, FLAGS[FLAG], self.workload.values, order)
        return self.problem.score(logits)


def _setup(workload: Workload) -> dict[str, Any]:
    """Return the values of a workload that must be equal for runs to be comparable."""
    return {"rows": workload.train_rows, "dev": workload.dev_rows, **asdict(workload.values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of the encoder's checkpoint")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with glue/ and squad-by-article/"
    )
    parser.add_argument("--runs", type=Path, default=ROOT / "build" / "equivalence.jsonl")
    parser.add_argument("--task", action="append")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options.runs.parent.mkdir(parents=True, exist_ok=True)
    options.runs.touch()
    known = (load("equivalence") or {"runs": []})["runs"]
    known += [json.loads(line) for line in options.runs.read_text().splitlines()]
    setups = {each.name: _setup(each) for each in WORKLOADS}
    # Stored runs with other rows or settings are dropped.
    known = [run for run in known if run["setup"] == setups[run["task"]]]
    done = {(run["task"], run["side"], run["seed"]): run for run in known}
    with TemporaryDirectory(prefix="equivalence-") as name:
        pairs = [
            Pair.of(each, options.model, options.data, Path(name) / each.name)
            for each in WORKLOADS
            if not options.task or each.name in options.task
        ]
        turns = sorted(
            product(SEEDS[: options.seeds], pairs, SIDES),
            key=lambda turn: turn[1].workload.name in LAST,
        )
        for seed, pair, side in turns:
            key = (pair.workload.name, side, seed)
            if key in done:
                continue
            began = time.monotonic()
            scores = pair.run(side, seed)
            run = dict(zip(("task", "side", "seed"), key, strict=True))
            run |= {"scores": dict(scores), "seconds": round(time.monotonic() - began, 1)}
            done[key] = run | {"setup": setups[key[0]]}
            with options.runs.open("a") as file:
                file.write(json.dumps(done[key]) + "\n")
    record = begin(options.model, "") | {"machine": machine(), "runs": [*done.values()]}
    write("equivalence", record)


if __name__ == "__main__":
    main()
