"""Rounds of the search for the best encoder, by successive halving over encoders and settings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from benchharness.extensions.search.rounds import (
    Ended,
    Grid,
    Pair,
    Round,
    Score,
    Trial,
    scores,
    sizes,
    survivors,
)


def encoder_rounds(grid: Grid, known: Ended) -> Iterator[Round]:
    """Yield the rounds of a search over encoders by successive halving.

    The first round tries every encoder on every task with one hyperparameter setting ("point") and
    one seed, and the second round tries all other settings. Then each round doubles the number of
    seeds, and halves the numbers of encoders and settings. On each task, the encoders with the best
    scores continue, and also the encoders with the best means over all tasks. These halving rounds
    are then repeated with twice as many encoders and settings, and so on, until every run that may
    still be the best was tried.

    Args:
        grid: Numbers of settings and seeds, keyed by task and encoder.
        known: Scores of all trials that have ended. It must contain the results of a round when
            the next round is requested.
    """
    tasks, encoders = (list(dict.fromkeys(names)) for names in zip(*grid, strict=True))
    pairs = [(task, encoder) for encoder in encoders for task in tasks]
    every, most = f"{len(encoders)} encoders", max(size.candidates for size in grid.values())
    yield Round([Trial(*pair, 0, 0) for pair in pairs], f"{every}, one seed")
    others = [(*pair, n) for n in range(1, most) for pair in pairs if n < grid[pair].candidates]
    yield Round(
        [Trial(*each, 0) for each in others], f"{every}, one seed with each of {most} settings"
    )
    halves = sizes(len(encoders), max(size.seeds for size in grid.values()))[1:]
    width = 1
    # Double the width until it excludes no candidate. In the end, only candidates that can no
    # longer win have been left out.
    while width < 2 * max(most, len(encoders)):
        points = most
        for half, seeds in halves:
            points = math.ceil(points / 2)
            found = scores(grid, known, noise=True)
            kept = _contenders(found, tasks, width * half)
            trials = [
                Trial(*pair, point, seed)
                for seed in range(seeds)
                for pair in kept
                for point in survivors(found[pair], width * points)
            ]
            count = len({encoder for _, encoder in kept})
            yield Round(trials, f"{count} of {every}, {seeds} seeds")
        width *= 2


def _contenders(
    scores: Mapping[Pair, Mapping[int, Score]], tasks: Sequence[str], most: int
) -> list[Pair]:
    """Return the pairs (task, encoder) that continue.

    There is a ranking per task, and one by the mean over all tasks. At most `most` encoders of each
    ranking continue, and none if only one encoder can still win it.
    """
    best = {pair: max(own.values(), key=lambda s: s.value) for pair, own in scores.items()}

    def leading(tasks: Sequence[str]) -> list[str]:
        means = {}
        for encoder in dict.fromkeys(encoder for _, encoder in best):
            values, errors = zip(*(best[task, encoder] for task in tasks), strict=True)
            # If all runs on a task failed, the mean is -inf, and the encoder is not ranked.
            if math.isfinite(fmean(values)):
                # Standard error of the mean of independent scores; 0 if one of their errors is 0.
                error = math.hypot(*errors) / len(tasks) if all(errors) else 0.0
                means[encoder] = Score(fmean(values), error)
        found = survivors(means, most)
        return found if len(found) > 1 else []

    of_mean = leading(tasks) if len(tasks) > 1 else []
    return [
        (task, encoder)
        for task in tasks
        for encoder in sorted(
            dict.fromkeys((*leading([task]), *of_mean)), key=lambda e: -best[task, e].value
        )
    ]
