"""Python function `bh.which`, which finds the best of several encoders on some tasks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchharness.api import Words, load_files, run_options, watching
from benchharness.driver.options import OF_WHICH, listed, takes_options
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
        runs: The number of finished runs.
        of: The number of runs in the whole grid.
        left: Description of the next runs of the search; empty if no other run can change the
            answer.
        failures: A sentence for each job that failed in this call.
    """

    answers: tuple[Answer, ...]
    cost: Mapping[str, Inference | str]
    runs: int
    of: int
    left: str
    failures: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """Best encoder in the last answer; empty if no encoder beats the majority baseline."""
        return next(iter(self.answers[-1].best), "")

    def frame(self) -> pd.DataFrame:
        """Return a data frame with the columns of `answers_frame`."""
        return answers_frame(self.answers, self.cost)

    def __repr__(self) -> str:
        sentences = "\n".join(answer.sentence for answer in self.answers)
        return f"{sentences}\n{self.runs} of {self.of} runs of the whole grid"


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
        progress: Whether to show progress bars, as in `run`.
        **options: The options of `bench which`, listed below, with Python values as in `run`.

    Raises:
        BenchError: The request is invalid, or the time budget is too short for one run of each
            encoder on each task; raised before any job starts.
    """
    load_files(plugins)
    asked = options_among(run_options({"task": task, **options}), listed(among))
    session = Session.of(asked, watching(progress))
    answers, search = choose(session, minutes)
    failed = [each for each in search.outcomes if isinstance(each, Failure)]
    return Choice(
        answers=tuple(answers),
        cost=measured(session.request, search.jobs),
        runs=len(search.jobs),
        of=len(search.trials),
        left=search.left,
        failures=tuple(f"{job_name(each.job)}: {each.error}" for each in failed),
    )


def answers_frame(answers: Iterable[Answer], cost: Mapping[str, object]) -> pd.DataFrame:
    """Return a data frame with a row per ranking and encoder, best first.

    `task` is the task's name, or "mean" for several tasks. `score` is in the metric's own unit,
    with its 95 % interval from `low` to `high`. `is_tied` is true for the best encoder and for all
    that do not differ significantly from it, if they beat the majority baseline. `point` is the
    best hyperparameter setting, and `gain` the expected overestimation of the score, because the
    best of several settings was chosen. `seeds` is the smallest number of seeds per task. `flags`
    are warnings about the scores; empty if there are none. `tokens_per_second`,
    `peak_memory_bytes` and `parameters` describe prediction; NaN if they were not measured.
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
