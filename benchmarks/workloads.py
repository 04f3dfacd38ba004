"""The measured workloads: tasks with rows and hyperparameters, the same on both sides."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["WORKLOADS", "Values", "Workload", "find_workload"]


@dataclass(frozen=True, kw_only=True)
class Values:
    """Hyperparameters that are passed to both sides.

    For all others, both sides use the values of google-research/bert's run_classifier.py: 10 %
    linear warm-up, weight decay 0.01, clipping at 1.0, Adam epsilon 1e-6.
    """

    epochs: float
    batch_size: int = 32
    learning_rate: float = 5e-5
    max_tokens: int = 128


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A task, the number of its rows that are used, and the location of its official files.

    `folder` is relative to the data folder; None means that the rows are synthetic, because the
    real ones are not available everywhere. `head` names the module in benchmarks/trainer, and
    `peer` is the example script of transformers whose defaults it has.
    """

    name: str
    task: str
    head: str
    peer: str
    folder: str | None
    train_rows: int
    dev_rows: int
    values: Values

    def files(self, data: Path) -> Path | None:
        """Return the folder of the official files; None if the rows are synthetic.

        Files that are not split by article or passage are in the folder of their benchmark.
        """
        if self.folder is None:
            return None
        found = data / self.folder
        return found if found.exists() else data / self.task.partition("/")[0]


def _glue(name: str, task: str, folder: str, rows: int) -> Workload:
    return Workload(
        name=name,
        task=f"glue/{task}",
        head="pair",
        peer="run_glue.py",
        folder=f"glue/{folder}",
        train_rows=rows,
        dev_rows=rows // 4,
        values=Values(epochs=1),
    )


WORKLOADS = (
    _glue("SST-2", "sst2", "SST-2", 2000),
    _glue("MRPC", "mrpc", "MRPC", 1200),
    _glue("RTE", "rte", "RTE", 1100),
    _glue("STS-B", "stsb", "STS-B", 1600),
    _glue("CoLA", "cola", "CoLA", 2000),
    Workload(
        name="SQuAD 1.1",
        task="squad/v1.1",
        head="span",
        peer="run_qa.py",
        folder="squad-by-article",
        train_rows=320,
        dev_rows=80,
        values=Values(epochs=1, max_tokens=384),
    ),
    Workload(
        name="RACE",
        task="race/all",
        head="choice",
        peer="run_swag.py",
        folder="race-by-passage",
        train_rows=96,
        dev_rows=24,
        # With batches of 16 questions, the Trainer with its best flags ran out of 16 GB of memory.
        values=Values(epochs=1, batch_size=8, max_tokens=512),
    ),
    Workload(
        name="CoNLL-2003 (made)",
        task="conll2003/ner",
        head="tag",
        peer="run_ner.py",
        folder=None,
        train_rows=2400,
        dev_rows=600,
        values=Values(epochs=1),
    ),
    Workload(
        name="SWAG (made)",
        task="swag/regular",
        head="choice",
        peer="run_swag.py",
        folder=None,
        train_rows=600,
        dev_rows=150,
        values=Values(epochs=1, batch_size=16, learning_rate=2e-5),
    ),
)
"""Workloads for which the slowest side takes a minute or two on two processor cores of 2023."""


def find_workload(name: str) -> Workload:
    """Return the workload of a task, given the task's name, such as glue/mrpc."""
    return next(workload for workload in WORKLOADS if workload.task == name)
