"""Python function `bh.which`, which finds the best of several encoders on some tasks."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchharness.api import Words, load_files, run_options, watching
from benchharness.driver.options import OF_WHICH, in_python, listed, takes_options
from benchharness.driver.session import Session
from benchharness.extensions.which.answers import Answer
from benchharness.extensions.which.choose import Inference, choose, measured, options_among
from benchharness.leaderboard.result import Failure
from benchharness.progress import job_name
from benchharness.tasks.suites import title_of


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Result of `bh.which`: a ranking per task and, for several tasks, one for their mean.

    Attributes:
        answers: The rankings in the order of the tasks; the one for the mean is the last.
        cost: The cost of prediction on this machine, keyed by encoder: an `Inference`, or a
            sentence with the reason why it was not measured.
        runs: The number of runs of the search that have ended.
        of: The number of runs in the whole grid of encoders, tasks, hyperparameter settings and
            seeds.
        left: Description of the round of the search that was not completed, with which the same
            call continues; empty if no other run can change the answer.
        failures: A sentence for each job that failed in this call.
        warnings: A sentence for each task on which encoders may have been trained for too few
            steps, so that their scores may be too low.
    """

    answers: tuple[Answer, ...]
    cost: Mapping[str, Inference | str]
    runs: int
    of: int
    left: str
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """Best encoder in the last answer; empty if none beats the majority baseline.

        It is also empty if no encoder has learned anything, or if none has a score on every task.
        """
        return next(iter(self.answers[-1].best), "")

    def frame(self) -> pd.DataFrame:
        """Return a data frame with one row per ranking and encoder, best first.

        `answers_frame` describes its columns.
        """
        return answers_frame(self.answers, self.cost)

    def __repr__(self) -> str:
        sentences = [*(answer.sentence for answer in self.answers), *self.warnings]
        return "\n".join((*sentences, f"{self.runs} of the {self.of} possible runs"))


@takes_options(OF_WHICH)
def which(
    task: Words = (),
    *,
    among: Words,
    minutes: float,
    plugins: str | Path | Iterable[str | Path] = (),
    progress: bool | None = None,
    **options: Any,
) -> Choice:
    """Find the best of several encoders on some tasks within a time budget, as `bench which` does.

    The search is successive halving over encoders, learning rates (by default the recipe's rate,
    twice this rate and half of it) and at most `seeds` seeds. Its runs are stored like those of
    `run`, and the same call resumes an interrupted search.

    Args:
        task: The tasks on which the encoders are compared.
        among: The encoders to choose from.
        minutes: The time budget in minutes.
        plugins: Plugin files, as in `run`.
        progress: True to show progress bars, False to show none. None shows them only in a terminal
            or a notebook.
        **options: The options of `bench which`, listed below, with Python values as in `run`.

    Returns:
        The rankings of the encoders, their costs of prediction, and the state of the search.

    Raises:
        BenchError: The request is invalid, or the time budget is too short for one run of each
            encoder on each task; raised before any job starts.
    """
    load_files(plugins)
    asked = options_among(run_options({"task": task, **options}), listed(among))
    session = Session.of(asked, watching(progress))
    found = choose(session, minutes, warn=_warn)
    search = found.search
    failed = [each for each in search.outcomes if isinstance(each, Failure)]
    return Choice(
        answers=tuple(found.answers),
        cost=measured(session.request, search.jobs),
        runs=len(search.jobs),
        of=len(search.trials),
        left=search.left,
        failures=tuple(f"{job_name(each.job)}: {each.error}" for each in failed),
        warnings=tuple(map(in_python, found.warnings)),
    )


def _warn(notes: Iterable[str]) -> None:
    for note in notes:
        # The caller of `which` is above this function, `choose`, `which` and its two decorators.
        warnings.warn(in_python(note), stacklevel=6)


def answers_frame(answers: Iterable[Answer], cost: Mapping[str, object]) -> pd.DataFrame:
    """Convert rankings to a data frame with one row per ranking and encoder, best first.

    Args:
        answers: Rankings to convert.
        cost: Cost of prediction, keyed by encoder: an `Inference`, or anything else if it was not
            measured.

    Returns:
        A data frame with these columns:

        * `task`: name of the task, or "mean" for the ranking by the mean;
        * `encoder`: name of the encoder;
        * `score`, `low`, `high`: score in the metric's own unit, and its 95 % interval;
        * `is_tied`: true for the best encoder and for all that do not differ significantly from it,
          if they beat the majority baseline;
        * `gain`: expected overestimation of the score, because the best of several hyperparameter
          settings was chosen;
        * `seeds`: smallest number of seeds on a task;
        * `point`: best hyperparameter setting;
        * `flags`: warnings about the scores; empty if there are none;
        * `tokens_per_second`, `peak_memory_bytes`, `parameters`: cost of prediction; NaN if it was
          not measured.
    """
    lines = [
        {
            "task": answer.tasks[0] if len(answer.tasks) == 1 else "mean",
            "encoder": found.encoder,
            "score": found.score,
            "low": found.interval.low if found.interval else None,
            "high": found.interval.high if found.interval else None,
            "is_tied": found.encoder in answer.best,
            "gain": found.gain,
            "seeds": found.seeds[0],
            "point": "; ".join(found.points.values()),
            "flags": "; ".join(
                f"{title_of(task)}: {note}" for task, notes in found.flags.items() for note in notes
            ),
            **{name: getattr(cost.get(found.encoder), name, None) for name in _COSTS},
        }
        for answer in answers
        for found in answer.candidates
    ]
    numbers = ["score", "low", "high", "gain", *_COSTS]
    columns = ["task", "encoder", *numbers[:3], "is_tied", "gain", "seeds", "point", "flags"]
    columns += _COSTS
    return pd.DataFrame(lines, columns=columns).astype(dict.fromkeys(numbers, "float64"))


_COSTS = ("tokens_per_second", "peak_memory_bytes", "parameters")
