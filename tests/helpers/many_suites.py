"""A store of many suites, and the plugin that knows them.

`python -m tests.helpers.many_suites DIR N M` makes N suites with M models each.

GLUE is one of them, on the packaged data, so that there are examples to compare on.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchharness.leaderboard.result import Result
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.bulk_store import fill, names_of, template
from tests.helpers.results import SCORES, make_job, make_result

TASKS, SEEDS = 10, 5
"""Of each suite."""

PLUGIN = """
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.glue import pair_task

TASKS = tuple(
    pair_task(
        name=f"made{{suite:02}}/task{{task}}",
        folder=f"made{{suite:02}}-task{{task}}",
        texts={{"text": "text"}},
        labels=("no", "yes"),
        label_texts="01",
        metrics=(accuracy,),
    )
    for suite in range(1, {suites})
    for task in range({tasks})
)
"""

SETTINGS = {
    "learning_rate": 2e-5,
    "epochs": 3,
    "batch_size": 32,
    "warmup": 0.1,
    "weight_decay": 0.01,
    "max_length": 128,
    "adam_epsilon": 1e-6,
    "clip_norm": 1.0,
    "dropout": 0.1,
}


def make_store(folder: Path, suites: int, models: int) -> Path:
    """A store of `suites` suites with `models` models each, and the plugin beside it."""
    (folder / "many.py").write_text(PLUGIN.format(suites=suites, tasks=TASKS))
    path = folder / "many.sqlite"
    names = list(names_of(models))
    fill(path, map(template, _glue()), models=names, seeds=SEEDS)
    for number in range(1, suites):
        made = [f"made{number:02}/task{task}" for task in range(TASKS)]
        results = [make_result(_job(task, data="hub")) for task in made]
        ours = [f"{name}-of-{number:02}" for name in names]
        fill(path, map(template, results), models=ours, seeds=SEEDS)
    return path


def _job(task: str, **fields: object) -> object:
    return make_job(task=task, settings=SETTINGS, precision="fp32", recipe="paper", **fields)


def _glue() -> Iterator[Result]:
    """A result of every task, on the rows of the packaged data."""
    for name in SCORES:
        task = find_task(name)
        splits = ("train", *task.dev_splits)
        prints = {
            f"{name}:{split}": read(task, split, parse_data("mini")).fingerprint for split in splits
        }
        yield make_result(replace(_job(name), fingerprints=prints))


if __name__ == "__main__":
    sys.stdout.write(f"{make_store(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))}\n")
