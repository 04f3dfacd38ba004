"""Measure how often `bench which`, simulated with stored results, finds the best encoder.

    python -m benchmarks.which_encoder --db GRID.sqlite [--share 0.5] [--repetitions 200]

GRID.sqlite is a store of `bench run` with the full grid of several encoders, tasks, learning rates
and seeds. Each repetition shuffles the seeds of every encoder, task and rate (with `--draw`, it
draws that number with replacement), and runs the rounds of a search until the share of the full
grid's seconds is spent. The chosen encoder is then compared with the best encoder of the full grid
with the same draw. Regret is the score of the best encoder minus the score of the chosen one, both
in the full grid. The score of an encoder is the best of its rates' medians over seeds.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean, median
from typing import NamedTuple

from benchharness.extensions.search.rounds import Grid, Size, Trial, in_turn
from benchharness.extensions.which.rounds import encoder_rounds
from benchharness.leaderboard.boards.cell import build_cell
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.suites import find_suite, title_of

__all__ = ["Stored", "chosen", "regrets", "search"]

HALF_A_POINT = 0.005


class Stored(NamedTuple):
    """A full grid, with the scores of all seeds and their mean seconds.

    `scores` and `seconds` are keyed by task, encoder and index of the learning rate.
    """

    grid: Grid
    scores: Mapping[tuple[str, str, int], Sequence[float]]
    seconds: Mapping[tuple[str, str, int], float]

    @property
    def total(self) -> float:
        """Seconds of the whole grid."""
        return sum(self.grid[place[:2]].seeds * found for place, found in self.seconds.items())


def read(db: str, encoders: Sequence[str], seeds: int, draw: int | None) -> Stored:
    """Read the grid in a store, with the named encoders or all encoders.

    The grid has `draw` seeds. If that is None, it has the number of seeds that all of its tasks,
    encoders and rates have, at most `seeds`.
    """
    with open_store(db, create=False) as store:
        rows = [row for row in store.runs() if row.status == "finished" and row.kind == "model"]
    rates = sorted({float(row.settings["learning_rate"].value) for row in rows})
    places = [rates[len(rates) // 2], *(rate for rate in rates if rate != rates[len(rates) // 2])]
    scores: dict[tuple[str, str, int], list[float]] = {}
    seconds: dict[tuple[str, str, int], list[float]] = {}
    for row in sorted(rows, key=lambda row: row.seed):
        if encoders and row.model not in encoders:
            continue
        cell = build_cell(row.task, [row], find_suite(row.suite).rule)
        place = row.task, row.model, places.index(float(row.settings["learning_rate"].value))
        if cell is not None and len(scores.get(place, ())) < seeds:
            scores.setdefault(place, []).append(cell.median)
            seconds.setdefault(place, []).append(row.seconds)
    fewest = min(map(len, scores.values()))
    grid = {place[:2]: Size(len(rates), draw or fewest) for place in scores}
    kept = scores if draw else {place: found[:fewest] for place, found in scores.items()}
    return Stored(grid, kept, {place: fmean(found) for place, found in seconds.items()})


def search(
    stored: Stored, draw: Mapping[tuple[str, str, int], Sequence[float]], budget: float
) -> tuple[dict[Trial, float | None], float]:
    """Run a search within a budget of seconds; return the finished trials and the seconds spent."""
    ended: dict[Trial, float | None] = {}
    spent = 0.0
    for trials, _ in in_turn(encoder_rounds, stored.grid, ended):
        for trial in trials:
            if trial in ended:
                continue
            seconds = stored.seconds[trial[:3]]
            if spent + seconds > budget:
                return ended, spent
            spent += seconds
            ended[trial] = draw[trial[:3]][trial.seed]
    return ended, spent


def chosen(grid: Grid, ended: Mapping[Trial, float | None]) -> dict[str, dict[str, float]]:
    """Return the score of each encoder on each task, as on a leaderboard.

    It is the best median over seeds among the learning rates with the largest number of seeds.
    """
    found: dict[str, dict[str, float]] = {}
    for pair, size in grid.items():
        points = [
            [value for t, value in ended.items() if t[:3] == (*pair, point)]
            for point in range(size.candidates)
        ]
        most = max(map(len, points))
        medians = [
            median(scored)
            for own in points
            if len(own) == most and (scored := [v for v in own if v is not None])
        ]
        found.setdefault(pair[0], {})[pair[1]] = max(medians, default=-math.inf)
    return found


def regrets(
    full: Mapping[str, Mapping[str, float]], found: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Return the regret of the chosen encoder for each task and, if there are several, the mean."""

    def best(scores: Mapping[str, float]) -> str:
        return max(scores, key=lambda encoder: scores[encoder])

    result = {task: max(full[task].values()) - full[task][best(found[task])] for task in full}
    if len(full) > 1:
        whole, seen = _means(full), _means(found)
        result["mean"] = max(whole.values()) - whole[best(seen)]
    return result


def _means(by_task: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    encoders = next(iter(by_task.values()))
    return {encoder: fmean(own[encoder] for own in by_task.values()) for encoder in encoders}


def main() -> None:
    options = _parse()
    stored = read(options.db, options.among or (), options.seeds, options.draw)
    grid = stored.grid
    tasks, encoders = (set(names) for names in zip(*grid, strict=True))
    rates, seeds = next(iter(grid.values()))
    print(
        f"{len(encoders)} encoders, {len(tasks)} tasks, {rates} rates, {seeds} seeds: "
        f"{len(grid) * rates * seeds} runs, {stored.total:,.0f} s"
    )
    every = {
        Trial(*place, seed): value
        for place, values in stored.scores.items()
        for seed, value in enumerate(values)
    }
    full = chosen(grid, every)
    print("as stored:")
    for task, scores in full.items():
        ordered = sorted(scores.items(), key=lambda item: -item[1])
        print(f"  {title_of(task)}: " + ", ".join(f"{n} {100 * s:.1f}" for n, s in ordered))
    ordered = sorted(_means(full).items(), key=lambda item: -item[1])
    print("  mean: " + ", ".join(f"{n} {100 * s:.1f}" for n, s in ordered))
    for share in options.share:
        _repeat(stored, share, options)


def _repeat(stored: Stored, share: float, options: argparse.Namespace) -> None:
    random, within, lost, spent = Random(options.seed), dict[str, int](), dict[str, float](), []
    for _ in range(options.repetitions):
        draw = {
            place: random.choices(values, k=options.draw)
            if options.draw
            else random.sample(values, len(values))
            for place, values in stored.scores.items()
        }
        every = {
            Trial(*place, seed): value
            for place, values in draw.items()
            for seed, value in enumerate(values)
        }
        full = chosen(stored.grid, every)
        ended, seconds = search(stored, draw, share * stored.total)
        spent.append(seconds / stored.total)
        for question, regret in regrets(full, chosen(stored.grid, ended)).items():
            within[question] = within.get(question, 0) + (regret <= HALF_A_POINT + 1e-9)
            lost[question] = lost.get(question, 0.0) + regret
    count = options.repetitions
    print(f"budget {share:.0%}: {fmean(spent):.0%} spent on average, at most {max(spent):.0%}")
    for question, times in within.items():
        name = question if question == "mean" else title_of(question)
        print(
            f"  {name}: within half a point in {times / count:.1%}, "
            f"{100 * lost[question] / count:.2f} points lost on average"
        )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--db", required=True, help="store of the full grid")
    parser.add_argument(
        "--share", type=float, action="append", help="share of the full budget; default: 0.5"
    )
    parser.add_argument("--among", action="append", help="encoder of the grid; default: all")
    parser.add_argument("--seeds", type=int, default=99, help="largest number of seeds per point")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--draw", type=int, help="draw this many seeds per point, with replacement")
    parser.add_argument("--seed", type=int, default=0)
    found = parser.parse_args()
    found.share = found.share or [0.5]
    return found


if __name__ == "__main__":
    main()
