"""A small pretraining run, and checkpoint orders from a cheap and a full evaluation."""

import sys
from itertools import pairwise

import pytest

from benchharness.extensions.curves.curves import StageCurve, StagePoint
from benchharness.leaderboard.job import Stage
from benchharness.models import find_models
from benchmarks import pretrain
from benchmarks.checkpoint_order import ordered_pairs


def curve(scores, told_apart):
    points = tuple(
        StagePoint(
            model=f"m{step}",
            stage=Stage(run="r", step=step),
            values=(score,),
            median=score,
            interval=None,
        )
        for step, score in scores.items()
    )
    words = {"run": "r", "recipe": "paper", "precision": "fp32", "title": "RTE", "task": "glue/rte"}
    return StageCurve(**words, points=points, told_apart=told_apart)


def test_checkpoint_order_is_compared_only_for_significantly_different_pairs():
    full = curve({10: 0.5, 20: 0.7, 30: 0.6}, {(0, 1): 1, (1, 2): -1, (0, 2): 1})
    cheap = curve({10: 0.30, 20: 0.35, 30: 0.30, 40: 0.9}, {})
    assert ordered_pairs(full, cheap) == (2, 3)


def test_saved_pretraining_steps_are_log_spaced_up_to_the_last_step():
    steps = pretrain.steps_to_keep(3000, 23)
    assert (steps[0], steps[-1], len(steps)) == (30, 3000, 23)
    ratios = [after / before for before, after in pairwise(steps)]
    assert max(ratios) < 1.3


@pytest.mark.soak
@pytest.mark.slow
def test_checkpoints_of_a_small_pretraining_run_are_found_by_a_glob_pattern(tmp_path, monkeypatch):
    words = ["--data", "mini", "--out", str(tmp_path / "small"), "--steps", "6", "--keep", "2"]
    words += ["--width", "64", "--layers", "1", "--vocabulary", "600"]
    monkeypatch.setattr(sys, "argv", ["pretrain", *words])
    pretrain.main()
    found = find_models(f"{tmp_path}/small/step-*")
    assert [spec.stage.step for spec in found] == [0, 1, 6]
    tokens = [spec.stage.tokens for spec in found]
    assert tokens[0] == 0 < tokens[1] < tokens[2]
