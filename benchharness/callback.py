"""Callback for training loops that benchmarks each checkpoint when the checkpoint is saved."""

import json
import logging
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from glob import escape
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import TrainerCallback

from benchharness.api import Results, run, saved_rows
from benchharness.driver.options import DATABASE, listed
from benchharness.errors import BenchError

_LOG = logging.getLogger("benchharness")

_PROGRAM = (
    "import json, sys; from benchharness.callback import benched; "
    "print(json.dumps(vars(benched(**json.loads(sys.argv[1])))))"
)


class BenchCallback(TrainerCallback):
    """Callback for the Trainer of transformers that benchmarks the checkpoints of a training.

    The checkpoints count as checkpoints of one pretraining run, so `bench curve NAME` shows them.
    If a benchmark was interrupted, it is completed when the same training runs again. In a
    distributed training, the first process runs the benchmarks while the other processes wait, so
    increase the time-out of the process group or use `wait=False`.

    All results are stored in the database. For each task, the median score over seeds is written to
    the Trainer's log history as "bench/TASK" and to the Python logger "benchharness". The logger
    also gets warnings about runs that learned nothing. The random state of the training is
    preserved. Wrong options raise a BenchError before the training begins. If a later benchmark
    raises a BenchError, it is only logged as a warning, and the training continues.

    Other training loops can call `bench(folder)` after they have saved the model and the tokenizer
    in the folder. The attribute `results` contains the results so far, as `benchharness.run`
    returns them.

    Args:
        tasks: The name of a task, or several names.
        every: Benchmark only every N-th saved checkpoint.
        name: The name of the pretraining run; by default, the name of the folder that contains the
            checkpoints.
        recipe: The name or the file of the recipe, as for `benchharness.run`.
        wait: Whether the training waits for the scores. If it does not, the scores are computed in
            another process, which should get its own `device`, and are logged when a later
            checkpoint is saved or the training ends.
        **options: Further options of `benchharness.run`.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        *,
        every: int = 1,
        name: str = "",
        recipe: str | None = "checkpoints",
        wait: bool = True,
        **options: Any,
    ) -> None:
        if every < 1:
            raise BenchError(
                f"every is {every}, but must be at least 1, which stands for every checkpoint."
            )
        if "data_file" in options:
            db = fspath(options.get("db", DATABASE))
            options["data_file"] = saved_rows(options["data_file"], db)
        self._options = {"task": listed(tasks), "recipe": recipe, "baselines": False, **options}
        with _same_random_state():
            # Without a model, this runs nothing, but raises an error for wrong options.
            self.results = run((), **self._options, progress=False)
        self._every, self._name, self._wait = every, name, wait
        self._saves = 0
        self._going: list[tuple[Path, subprocess.Popen[str]]] = []

    def bench(self, folder: str | Path) -> dict[str, float]:
        """Benchmark the checkpoint in a folder.

        Returns:
            The median score over seeds, keyed by task. A task on which all runs failed is left out.

        Raises:
            BenchError: The folder contains no checkpoint, or its training step is unknown.
        """
        with _same_random_state():
            return self._taken(benched(**self._words(Path(folder))))

    def frame(self) -> pd.DataFrame:
        """Return a data frame of all benchmarked checkpoints, with one row per run and task.

        The columns are described in `benchharness.stored.frames.runs_frame`.
        """
        return self.results.frame()

    def _taken(self, found: Results) -> dict[str, float]:
        """Add the results of a checkpoint; return its median scores over seeds, keyed by task."""
        for failure in found.failures:
            _LOG.warning("%s", failure)
        self.results = replace(
            self.results,
            keys=tuple(dict.fromkeys((*self.results.keys, *found.keys))),
            failures=(*self.results.failures, *found.failures),
        )
        by_task = found.frame().groupby("task")
        for task, flags in by_task["flags"]:
            for flag, count in flags[flags != ""].value_counts().items():
                _LOG.warning("%s: %s (%d of %d runs)", task, flag, count, len(flags))
        medians = by_task["score"].median().dropna()
        return {str(task): float(value) for task, value in medians.items()}

    def on_train_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:  # noqa: ARG002
        """Raise BenchError if the Trainer will not save a tokenizer with its checkpoints.

        If the Trainer has a tokenizer but will save no checkpoints at all, a warning is logged. The
        arguments are the same as for `TrainerCallback.on_train_begin`.
        """
        if objects.get("processing_class") is None:
            raise BenchError(
                "the checkpoints would have no tokenizer, so they could not be benchmarked. Pass "
                "processing_class=tokenizer to the Trainer."
            )
        if args.save_strategy == "no":
            _LOG.warning("save_strategy is 'no', so the Trainer saves no checkpoints to benchmark.")

    def on_save(self, args: Any, state: Any, control: Any, **objects: Any) -> None:  # noqa: ARG002
        """Benchmark the checkpoint that was just saved, unless `every` skips this checkpoint.

        Scores of earlier benchmarks that ran in other processes and have ended are logged, too. In
        a distributed training, only the first process does this. The arguments are the same as
        for `TrainerCallback.on_save`.
        """
        if not state.is_world_process_zero:
            return
        self._collect(state)
        self._saves += 1
        if self._saves % self._every:
            return
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if not self._wait:
            self._going.append((folder, self._started(folder)))
            return
        try:
            self._log(state, state.global_step, self.bench(folder))
        except BenchError as error:
            _LOG.warning("%s was not benchmarked: %s", folder.name, error)

    def on_train_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:  # noqa: ARG002
        """Wait until all benchmarks have ended, and log their scores.

        The arguments are the same as for `TrainerCallback.on_train_end`.
        """
        self._collect(state, all_of_them=True)

    def _words(self, folder: Path) -> dict[str, Any]:
        """Return the arguments of `benchharness.run` for the checkpoint in a folder.

        The folder is given as a glob pattern that matches only this folder. With a pattern, the
        folder counts as a checkpoint of a pretraining run, and its step is read from its name.
        """
        folder = folder.resolve()
        # "/runs/checkpoint-50" becomes "/runs/checkpoint-5[0]", which matches only that folder.
        pattern = f"{escape(str(folder)[:-1])}[{folder.name[-1]}]"
        return {"model": f"{self._name or folder.parent.name}={pattern}", **self._options}

    def _started(self, folder: Path) -> subprocess.Popen[str]:
        words = json.dumps(self._words(folder), default=_plain)
        return subprocess.Popen(  # noqa: S603  (our own program)
            (sys.executable, "-c", _PROGRAM, words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _collect(self, state: Any, *, all_of_them: bool = False) -> None:
        """Log the scores from benchmark processes that have ended.

        With `all_of_them`, wait for the other processes and log their scores, too.
        """
        ended = [each for each in self._going if all_of_them or each[1].poll() is not None]
        for folder, process in ended:
            self._going.remove((folder, process))
            printed, said = process.communicate()
            if process.returncode:
                _LOG.warning(
                    "%s was not benchmarked: %s", folder.name, said.strip().rpartition("\n")[2]
                )
                continue
            scores = self._taken(Results(**json.loads(printed)))
            self._log(state, int(folder.name.rpartition("-")[2]), scores)

    def _log(self, state: Any, step: int, scores: Mapping[str, float]) -> None:
        named = {f"bench/{task}": value for task, value in scores.items()}
        state.log_history.append({"step": step, **named})
        _LOG.info("checkpoint %d: %s", step, named)


def benched(**words: Any) -> Results:
    """Call `benchharness.run` with the keyword arguments `words`, without progress bars.

    If the training does not wait for the scores, a separate process calls this function.
    """
    return run(**words, progress=False)


def _plain(value: Any) -> Any:
    """Convert an option for JSON, such as a numpy number to a Python number or a path to text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


@contextmanager
def _same_random_state() -> Iterator[None]:
    """Context manager that restores the random states of Python, numpy and torch."""
    python, legacy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        yield
    random.setstate(python)
    np.random.set_state(legacy)
