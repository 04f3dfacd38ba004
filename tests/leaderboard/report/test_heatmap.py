"""Heatmap of a report: the scores that share a colour scale, and the effect of an outlier."""

from benchharness.leaderboard.report.table import build_table
from tests.helpers.boards import make_row, one_board

FLOOR = {"kind": "baseline", "weights": "baseline:majority@1", "recipe": "baseline"}


def rows_of(*rows):
    table = build_table(one_board(rows), 1)
    return {row.name: row.cells[0] for group in table.groups for row in group.rows}


def test_heatmap_colour_increases_with_the_score_and_ignores_outliers():
    scores = {"a": 0.9, "b": 0.88, "c": 0.86, "d": 0.84, "collapsed": 0.1}
    cells = rows_of(*(make_row(name, scores=score) for name, score in scores.items()))
    heats = [cells[name].heat for name in scores]
    assert heats == sorted(heats, reverse=True)
    assert (cells["a"].heat, cells["collapsed"].heat) == (5, 0)
    assert cells["c"].heat > 0


def test_heatmap_scale_includes_baselines_only_with_few_models():
    floor = make_row("majority", scores=0.5, **FLOOR)
    few = rows_of(make_row("a", scores=0.9), make_row("b", scores=0.8), floor)
    assert (few["a"].heat, few["majority"].heat) == (5, 0)
    scores = {"a": 0.9, "b": 0.8, "c": 0.7}
    several = rows_of(*(make_row(name, scores=score) for name, score in scores.items()), floor)
    assert [several[name].heat for name in ("a", "c", "majority")] == [5, 0, 0]


def test_equal_scores_have_no_heatmap_colour():
    cells = rows_of(*(make_row(name, scores=0.8) for name in "abc"))
    assert {cell.heat for cell in cells.values()} == {0}


def test_heatmap_excludes_collapsed_runs_from_colours_and_scale():
    collapsed = make_row("majority", scores=0.95, flags={"glue/rte": ("constant predictions",)})
    scores = {"a": 0.9, "b": 0.8, "c": 0.7}
    cells = rows_of(*(make_row(name, scores=score) for name, score in scores.items()), collapsed)
    assert [cells[name].heat for name in ("a", "c", "majority")] == [5, 0, 0]


def test_lowest_and_highest_seed_are_shown_below_each_score():
    seeds = {"a": (0.9, 0.8), "b": (-0.7, 0.75), "c": (0.6,)}
    cells = rows_of(
        *(make_row(n, seed=s, scores=v) for n, found in seeds.items() for s, v in enumerate(found))
    )
    assert [cells[name].ends for name in seeds] == ["80.0–90.0", "-70.0–75.0", ""]
    assert [cells[name].seeds for name in seeds] == [("90", "80"), ("-70", "75"), ()]
