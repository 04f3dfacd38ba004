"""Measure how well a cheap protocol orders checkpoints that a full protocol distinguishes.

    python -m benchmarks.checkpoint_order RUN --full FULL.sqlite --cheap CHEAP.sqlite

Both files are stores of `bench run --model 'DIR/step-*'` on the checkpoints of one pretraining run.
A pair of checkpoints is ordered correctly if the one that is better by the full protocol has the
higher score by the cheap protocol; a tie counts as wrong. The seconds of a protocol are the sum
over all its jobs.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchharness.extensions.curves.curves import StageCurve
from benchharness.extensions.curves.find import find_curves
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.store.store import open_store

__all__ = ["ordered_pairs"]


class BoardCurves(NamedTuple):
    """A leaderboard, with the curves of a pretraining run on it."""

    board: Board
    curves: list[StageCurve]


def _by_board(found: Sequence[tuple[Board, StageCurve]]) -> list[BoardCurves]:
    boards = {id(board): board for board, _ in found}
    return [BoardCurves(b, [c for other, c in found if other is b]) for b in boards.values()]


def main() -> None:
    options = _parse()
    with open_store(options.full, create=False) as full, open_store(options.cheap) as cheap:
        tasks = options.task or ()
        (whole,) = _by_board(find_curves(full, options.run, tasks=tasks))
        others = _by_board(find_curves(cheap, options.run))
    seconds = _seconds(whole.board, whole.curves)
    print(f"full: {len(whole.curves[0].points)} checkpoints, {seconds:,.0f} s")
    for curve in whole.curves:
        differ = f"{len(curve.told_apart)} pairs differ significantly"
        print(f"  {curve.title}: {differ}{_rate(whole, curve)}")
        print(f"    {curve.summary}")
    for other in others:
        _compare(whole, other, seconds)


def _rate(whole: BoardCurves, curve: StageCurve) -> str:
    """Describe how many pairs a task distinguishes per second; return "" for the mean of tasks."""
    seconds = _seconds(whole.board, [curve])
    return f", {len(curve.told_apart) / seconds:.2f} per second" if seconds else ""


def _compare(whole: BoardCurves, other: BoardCurves, seconds: float) -> None:
    cheap, own = other.curves[0], _seconds(other.board, other.curves)
    print(
        f"cheap ({other.board.data_label}, {cheap.recipe}, {cheap.title}): {own:,.0f} s, "
        f"{own / seconds:.1%} of the full protocol's"
    )
    for curve in whole.curves:
        right, pairs = ordered_pairs(curve, cheap)
        share = f"{right / pairs:.1%}" if pairs else "none to order"
        print(f"  orders {right} of the {pairs} pairs that differ in {curve.title}: {share}")


def ordered_pairs(full: StageCurve, cheap: StageCurve) -> tuple[int, int]:
    """Return how many pairs of checkpoints both curves order equally, and the number of pairs.

    Pairs that the full curve does not distinguish are not counted.
    """
    scores: Mapping[int, float] = {point.stage.step: point.median for point in cheap.points}
    steps = [point.stage.step for point in full.points]
    differences = [
        sign * (scores[steps[other]] - scores[steps[one]])
        for (one, other), sign in full.told_apart.items()
    ]
    return sum(difference > 0 for difference in differences), len(differences)


def _seconds(board: Board, curves: Sequence[StageCurve]) -> float:
    """Return the seconds of all jobs from which these curves of a leaderboard are made."""
    tasks = {curve.task for curve in curves} - {""}
    models = {point.model for curve in curves for point in curve.points}
    runs = {
        run.key: run.seconds
        for entry in board.entries
        if entry.model in models
        for task in tasks & entry.cells.keys()
        for run in entry.cells[task].runs
    }
    return sum(runs.values())


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", help="name of the pretraining run, as for `bench curve`")
    parser.add_argument("--full", required=True, help="store of the full protocol")
    parser.add_argument("--cheap", required=True, help="store of the cheap protocol")
    parser.add_argument(
        "--task", action="append", help="task of the full protocol (repeatable; default: all)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
