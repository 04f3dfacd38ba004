"""Engine that trains nothing: a given share of each task's predictions is right."""

import random

from benchharness.leaderboard.result import Cost, Failure, Result
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.suites import find_task

CONSTANT = 0.0
"""Share that means the same answer for every row."""


class LearnedEngine:
    """Replacement of LocalEngine with given accuracies.

    `shares` are by task; None is a job that fails, and a function gets the seed. Another `world` is
    another machine: the same seeds draw other predictions. `started` lists the given jobs; after
    `stop_after` of them KeyboardInterrupt is raised.
    """

    def __init__(self, shares, world=0, stop_after=None):
        self._shares = shares
        self._world = world
        self._stop_after = stop_after
        self.started = []

    def __call__(self, slots, orders, **options):
        return self

    def run(self, jobs, report):
        for job in jobs:
            if len(self.started) == self._stop_after:
                raise KeyboardInterrupt
            self.started.append(job)
            share = self._shares[job.task]
            share = share(job.seed) if callable(share) else share
            yield _failure(job) if share is None else self._result(job, share)

    def _result(self, job, share):
        draw = random.Random(f"{job.task} {job.seed} {self._world}")
        names = [f"{task}:{split}" for task, split in job.predicted_splits]
        return Result(
            job=job,
            evaluations=tuple(_evaluation(job, name, share, draw) for name in names),
            curve=(),
            cost=Cost.without_network(1.0),
            provenance={
                "code": {"version": "0.1.0"},
                "versions": {"torch": "none"},
                "machine": {"device": "cpu", "threads": 1},
            },
            finished=f"2026-01-01T00:00:{job.seed:02}+00:00",
        )


def _evaluation(job, name, share, draw):
    rows, labels = read_split(job, name), find_task(job.task).labels
    guesses = []
    for example in rows.examples:
        wrong = [label for label in labels if label != example.label]
        label = example.label if draw.random() < share else draw.choice(wrong)
        label = labels[0] if share == CONSTANT else label
        guesses.append(PairPrediction(id=example.id, label=label))
    return evaluate_split(name, rows, guesses)


def _failure(job):
    return Failure(
        job=job,
        kind="diverged",
        error="the loss became nan.",
        details="",
        exit_code=1,
        finished="2026-01-01T00:00:00+00:00",
    )
