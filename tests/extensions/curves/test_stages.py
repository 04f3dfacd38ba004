"""Score curves over the checkpoints of a pretraining run, and their significant trends."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchharness.errors import BenchError
from benchharness.extensions.curves.curves import StageCurve, lines_of, stage_curves
from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.comparing import Outcomes, first_part
from benchharness.leaderboard.job import Stage
from tests.helpers.boards import GLUE, make_row

SST2, RTE = "glue/sst2", "glue/rte"


def board_of(scores: dict[str, Sequence[Sequence[float]]], **fields) -> Board:
    """Make a board of one pretraining run from scores by task, checkpoint and seed."""
    rows = [
        replace(
            make_row(f"run/step-{step}", task, seed, value, weights=f"sha256:{step}", **fields),
            stage=Stage(run="run", step=step, family="bert"),
        )
        for task, table in scores.items()
        for step, values in enumerate(table)
        for seed, value in enumerate(values)
    ]
    (board,) = build_boards(rows, GLUE)
    return board


def curves_of(board: Board, known=None) -> dict[str, StageCurve]:
    (line,) = lines_of(board, lambda entry: entry.stage)
    unread = dict.fromkeys(board.tasks, ["not read"] * len(line.entries))
    return {curve.task: curve for curve in stage_curves(board, line, known or unread)}


def drawn(true: Sequence[float], seeds: int, noise: float = 0.01, draw: int = 0):
    generator = np.random.default_rng(draw)
    means = np.asarray(true)[:, None]
    return (0.5 + means + generator.normal(0, noise, (len(true), seeds))).tolist()


def parts(curve: StageCurve):
    return [(part.trend, part.first, part.last) for part in curve.stretches]


def test_rising_flat_and_falling_pretraining_trends_are_detected():
    steps = np.arange(20)
    rise = np.minimum(steps, 8) * 0.03
    curve = curves_of(board_of({SST2: drawn(rise, 5)}))[SST2]
    assert curve.scope == "seeds"
    assert [trend for trend, *_ in parts(curve)][-2:] == ["rises", "is flat"]
    _, _, top = parts(curve)[-2]
    assert 6 <= top <= 9
    falling = np.where(steps < 14, rise, rise - (steps - 13) * 0.03)
    curve = curves_of(board_of({SST2: drawn(falling, 5)}))[SST2]
    assert [trend for trend, *_ in parts(curve)] == ["rises", "is flat", "falls"]
    assert "falls from there to step 19 (-1" in curve.summary


@pytest.mark.parametrize(
    "seeds", [3, *(pytest.param(seeds, marks=pytest.mark.soak) for seeds in (2, 5))]
)
def test_flat_curves_have_at_most_5_percent_false_trends(seeds):
    alarms = 0
    for draw in range(200):
        curve = curves_of(board_of({SST2: drawn([0.2] * 12, seeds, draw=draw)}))[SST2]
        alarms += parts(curve) != [("is flat", 0, 11)]
    # At an error rate of 5 %, 17 or more of 200 curves have a false trend with a probability of 2.5
    # %.
    assert alarms <= 16


def test_pretraining_trends_are_contiguous_and_significant_unless_flat():
    for draw in range(30):
        generator = np.random.default_rng(draw)
        true = generator.normal(0, 0.02, 15).cumsum().clip(-0.4, 0.4)
        curve = curves_of(board_of({SST2: drawn(true, 3, draw=draw)}))[SST2]
        places = [place for part in curve.stretches for place in (part.first, part.last)]
        assert (places[0], places[-1]) == (0, 14)
        assert places[1:-1:2] == places[2::2]
        for part in curve.stretches:
            sign = {"rises": 1, "falls": -1, "is flat": 0}[part.trend]
            assert curve.told_apart.get((part.first, part.last), 0) == sign
            assert sign * part.change >= 0
            assert (part.p_value < 0.05) == (sign != 0)


def test_trend_test_counts_the_sampling_of_examples_as_noise():
    """Test two right answers of ten: they are not significant, even if all seeds agree on them."""
    board = board_of({SST2: [[0.6] * 3, [0.8] * 3, [0.8] * 3]})
    right = [[1.0] * 6 + [0.0] * 4, [1.0] * 8 + [0.0] * 2, [1.0] * 8 + [0.0] * 2]
    known = [
        Outcomes(parts=np.array([[[r, 1.0]] * 3 for r in row]), score=first_part) for row in right
    ]
    sure = curves_of(board)[SST2]
    assert sure.told_apart == {(0, 1): 1, (0, 2): 1}
    unsure = curves_of(board, dict.fromkeys(board.tasks, known))[SST2]
    assert (unsure.scope, unsure.told_apart) == ("examples and seeds", {})
    assert parts(unsure) == [("is flat", 0, 2)]


def test_curve_of_a_single_seed_without_predictions_has_no_trend():
    curve = curves_of(board_of({SST2: [[0.6], [0.9]]}))[SST2]
    assert (curve.scope, curve.stretches) == ("", ())
    assert "not tested, because there is one seed" in curve.summary
    assert curve.points[0].interval is None


def test_mean_pretraining_curve_covers_tasks_common_to_all_checkpoints():
    low, high = drawn([0.0, 0.2, 0.3], 3), drawn([0.1, 0.1, 0.1], 3, draw=1)
    found = curves_of(board_of({SST2: low, RTE: high, "glue/wnli": low[:2]}))
    assert list(found) == ["", SST2, RTE, "glue/wnli"]
    mean = found[""]
    assert mean.title == "mean of SST-2, RTE"
    for place, point in enumerate(mean.points):
        middles = [sorted(table[place])[1] for table in (low, high)]
        assert point.median == pytest.approx(sum(middles) / 2)
        assert point.values == pytest.approx(
            [(a + b) / 2 for a, b in zip(low[place], high[place], strict=True)]
        )
    assert len(found["glue/wnli"].points) == 2


def test_pretraining_curve_of_two_model_families_or_two_checkpoints_of_one_step_is_an_error():
    stages = [Stage(run="run", step=1, family="bert"), Stage(run="run", step=2, family="roberta")]
    rows = [
        replace(make_row(f"m{stage.step}", SST2, weights=f"sha256:{stage.step}"), stage=stage)
        for stage in stages
    ]
    (board,) = build_boards(rows, GLUE)
    with pytest.raises(BenchError, match="must have the same family") as caught:
        lines_of(board, lambda entry: entry.stage)
    assert "\n" not in str(caught.value)
    rows[1] = replace(rows[1], stage=stages[0])
    (board,) = build_boards(rows, GLUE)
    with pytest.raises(BenchError, match="two checkpoints of step 1 "):
        lines_of(board, lambda entry: entry.stage)


def test_pretraining_curves_are_per_recipe_and_need_two_checkpoints():
    board = board_of({SST2: [[0.5], [0.6]]})
    again = board_of({SST2: [[0.5], [0.6]]}, recipe="checkpoints")
    both = replace(board, entries=board.entries + again.entries)
    assert [line.recipe for line in lines_of(both, lambda e: e.stage)] == ["paper", "checkpoints"]
    alone = replace(board, entries=board.entries[:1] + again.entries[:1])
    assert lines_of(alone, lambda entry: entry.stage) == []
