"""Tests of the plot of a pretraining run: score against step or tokens."""

from itertools import pairwise

import pytest

from benchharness.extensions.curves.curves import StageCurve, StagePoint, Stretch
from benchharness.extensions.curves.figures import stage_figures
from benchharness.leaderboard.job import Stage
from benchharness.leaderboard.statistics import Interval


def curve(scores, tokens=None, recipe="paper", **fields):
    """Make a curve from scores by step, each with an interval of one point on both sides."""
    points = tuple(
        StagePoint(
            model=f"run/step-{step}",
            stage=Stage(run="run", step=step, tokens=None if tokens is None else tokens * step),
            values=(score,),
            median=score,
            interval=Interval(low=score - 0.01, high=score + 0.01),
        )
        for step, score in scores.items()
    )
    standard = {"run": "run", "precision": "fp32", "title": "RTE", "task": "glue/rte"}
    return StageCurve(**standard, recipe=recipe, points=points, told_apart={}, **fields)


def test_evenly_spaced_checkpoints_have_a_linear_axis_from_zero():
    (figure,) = stage_figures([curve({100: 0.5, 200: 0.6, 300: 0.7})])
    first, middle, last = figure.marks
    assert figure.x.label == "steps of pretraining"
    assert middle.x - first.x == pytest.approx(last.x - middle.x, abs=0.2)
    assert first.x - figure.x(0) == pytest.approx(middle.x - first.x, abs=0.2)
    assert first.y > middle.y > last.y
    assert "run/step-200, paper, fp32: 60.0" in middle.note
    low, high = (figure.y(end) for end in (59, 61))
    assert middle.paths["range"] == f"M{middle.x:g},{low:g}V{high:g}"


def test_log_spaced_checkpoints_have_a_logarithmic_axis_that_begins_at_zero():
    steps = [0, *(10 * 2**n for n in range(8))]
    (figure,) = stage_figures([curve(dict.fromkeys(steps, 0.5) | {0: 0.4})])
    assert "logarithmic" in figure.x.label
    places = [mark.x for mark in figure.marks]
    apart = [after - before for before, after in pairwise(places[1:])]
    assert max(apart) - min(apart) < 0.3
    assert places[0] == figure.x.start < places[1]
    assert figure.x.ticks[0].text == "0"


def test_pretraining_axis_shows_tokens_if_all_checkpoints_have_token_counts():
    said = curve({100: 0.5, 200: 0.6}, tokens=5_000_000)
    (figure,) = stage_figures([said])
    assert figure.x.label == "tokens of pretraining"
    assert any(tick.text.endswith("M") or tick.text.endswith("B") for tick in figure.x.ticks)
    (mixed,) = stage_figures([said, curve({100: 0.4}, recipe="fast")])
    assert mixed.x.label == "steps of pretraining"
    assert [key.text for key in mixed.keys] == ["paper, fp32", "fast, fp32"]


def test_pretraining_plot_describes_trends_in_its_table_and_note():
    rises = Stretch(trend="rises", first=0, last=1, change=0.1, p_value=0.001)
    (figure,) = stage_figures(
        [curve({1000: 0.5, 2000: 0.6}, tokens=10, scope="seeds", stretches=(rises,))]
    )
    assert figure.title == "run, RTE"
    assert "rises from step 1,000 to step 2,000 (+10.0)." in figure.note
    assert "differ significantly" in figure.note
    assert [text.text for text in figure.texts] == ["rises"]
    assert figure.table is not None
    assert figure.table.rows[1].cells == (
        *("2,000", "20,000", "paper, fp32", "1", "60.0", "59.0 to 61.0"),
    )


def test_pretraining_plot_has_a_separate_figure_per_task():
    other = StageCurve(**{**vars(curve({1: 0.5, 2: 0.6})), "task": "glue/cola", "title": "CoLA"})
    assert [f.title for f in stage_figures([curve({1: 0.5, 2: 0.6}), other])] == [
        "run, RTE",
        "run, CoLA",
    ]
    assert stage_figures([]) == ()
