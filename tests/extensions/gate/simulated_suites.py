"""Simulated suites: outcomes of fine-tuned encoders without any training.

An example is right if its ease, the run's luck and chance sum to more than zero, all normal: some
examples are right with every seed, some with none, and all examples of a run share its luck. Ease
is drawn once per suite and shared by its runs, as real examples are.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from benchharness.extensions.gate.judge import collapse_p_value, drop_p_values
from benchharness.leaderboard.statistics import holm


class PaperTask(NamedTuple):
    """Mean and spread over seeds (dev split, 0 to 1) of a task.

    `churn` is the share of examples that two seeds predict differently.
    """

    mean: float
    spread: float
    churn: float


SUITE = {
    "cola": PaperTask(0.82, 0.008, 0.09),
    "sst2": PaperTask(0.92, 0.004, 0.05),
    "mrpc": PaperTask(0.86, 0.012, 0.11),
    "qqp": PaperTask(0.90, 0.002, 0.05),
    "mnli": PaperTask(0.84, 0.003, 0.09),
    "qnli": PaperTask(0.91, 0.003, 0.05),
    "rte": PaperTask(0.66, 0.018, 0.18),
    "wnli": PaperTask(0.55, 0.015, 0.15),
}
"""Accuracies and spreads similar to BERT-base's on GLUE: the spread is some tenths of a point on
large tasks, and one to two points on small ones."""


def simulate(draw, task, *, suites, examples, runs, drops):
    """Return scores [suites, sum of runs] of groups of runs, with one true drop per group."""
    wide = _width(task)
    scale = np.hypot(1, wide)
    ease = draw.normal(norm.ppf(task.mean) * scale, wide, size=(suites, 1, examples))
    slope = norm.pdf(norm.ppf(task.mean)) / scale
    means = np.repeat([norm.ppf(task.mean - drop) * scale for drop in drops], runs)
    luck = draw.normal(0, task.spread / slope, size=(suites, sum(runs)))
    shift = luck + means - norm.ppf(task.mean) * scale
    chance = draw.standard_normal((suites, sum(runs), examples), dtype=np.float32)
    return (ease.astype(np.float32) + shift[:, :, None].astype(np.float32) + chance > 0).mean(-1)


def _width(task):
    """Return the spread of ease that gives a share `churn` of differing examples."""
    ease = np.linspace(-4, 4, 801)
    weights = norm.pdf(ease) / norm.pdf(ease).sum()
    widths = np.geomspace(0.3, 30, 200)
    chances = [norm.cdf(norm.ppf(task.mean) * np.hypot(1, wide) + wide * ease) for wide in widths]
    churns = np.array([(weights * 2 * p * (1 - p)).sum() for p in chances])
    return widths[np.abs(churns - task.churn).argmin()]


def failing_share(*, suites=1000, examples=200, before=10, after=3, alpha=0.05, drop=0.0, hit=None):
    """Return the share of suites that fail if task `hit` (None: all) has a true drop."""
    draw = np.random.default_rng(2)
    p_values = []
    for name, task in SUITE.items():
        fallen = drop if hit in (None, name) else 0.0
        scores = simulate(
            draw,
            task,
            suites=suites,
            examples=examples,
            runs=(before, after),
            drops=(0.0, fallen),
        )
        p_values.append(drop_p_values(scores[:, :before], scores[:, before:], 1 / examples))
    corrected = [holm(row) for row in np.array(p_values).T]
    return float(np.mean([min(row) < alpha for row in corrected]))


def alarming_shares(*, tasks=8, checks=1000, before=5, after=3, alpha=0.05, collapsing=0.0):
    """Return the shares of checks that fail by the old and by the current rule.

    The baseline has not collapsed. Scores are normal, 70 with a spread of 1.5 points, and 50 if a
    run collapsed, with probability `collapsing`. By the current rule a collapsed seed is replaced
    once; a check fails by a drop of the runs that learned, by more collapsed runs, or by a task
    without any run that learned.
    """
    draw = np.random.default_rng(3)
    shape = (checks, tasks, after)
    old = draw.normal(0.70, 0.015, (checks, tasks, before))
    now = draw.normal(0.70, 0.015, (2, *shape))
    collapsed = draw.random((2, *shape)) < collapsing
    collapsed[1] &= collapsed[0]
    resolution = 1 / 277
    raw = drop_p_values(old, np.where(collapsed[0], 0.50, now[0]), resolution)
    used = np.where(collapsed[0], now[1], now[0])
    alarms = [[], []]
    for check in range(checks):
        alarms[0].append(min(holm(raw[check])) < alpha)
        kept = [used[check, task][~collapsed[1, check, task]] for task in range(tasks)]
        drops = [
            float(drop_p_values(old[check, task], scores, resolution))
            for task, scores in enumerate(kept)
            if scores.size
        ]
        first, again = (int(found.sum()) for found in collapsed[:, check])
        more = collapse_p_value(first, first + again, tasks * after, 0, tasks * before) < alpha / 2
        alarms[1].append(more or len(drops) < tasks or min(holm(drops)) < alpha)
    return tuple(float(np.mean(each)) for each in alarms)
