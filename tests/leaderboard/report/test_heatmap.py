"""Heat and bars: what shares a scale, and what an outlier does to it."""

from benchharness.leaderboard.report.table import build_table
from tests.helpers.boards import make_row, one_board

FLOOR = {"kind": "baseline", "weights": "baseline:majority@1", "recipe": "baseline"}


def rows_of(*rows):
    table = build_table(one_board(rows), 1)
    return {row.name: row.cells[0] for group in table.groups for row in group.rows}


def test_heat_goes_from_low_to_high_and_an_outlier_has_none():
    scores = {"a": 0.9, "b": 0.88, "c": 0.86, "d": 0.84, "collapsed": 0.1}
    cells = rows_of(*(make_row(name, scores=score) for name, score in scores.items()))
    heats = [cells[name].heat for name in scores]
    assert heats == sorted(heats, reverse=True)
    assert (cells["a"].heat, cells["collapsed"].heat) == (5, 0)
    assert cells["c"].heat > 0


def test_baselines_make_a_scale_only_where_models_are_too_few():
    floor = make_row("majority", scores=0.5, **FLOOR)
    few = rows_of(make_row("a", scores=0.9), make_row("b", scores=0.8), floor)
    assert (few["a"].heat, few["majority"].heat) == (5, 0)
    scores = {"a": 0.9, "b": 0.8, "c": 0.7}
    several = rows_of(*(make_row(name, scores=score) for name, score in scores.items()), floor)
    assert [several[name].heat for name in ("a", "c", "majority")] == [5, 0, 0]


def test_equal_numbers_have_no_heat():
    cells = rows_of(*(make_row(name, scores=0.8) for name in "abc"))
    assert {cell.heat for cell in cells.values()} == {0}


def test_what_learned_nothing_has_no_heat_and_makes_no_scale():
    collapsed = make_row("majority", scores=0.95, flags={"glue/rte": ("constant predictions",)})
    scores = {"a": 0.9, "b": 0.8, "c": 0.7}
    cells = rows_of(*(make_row(name, scores=score) for name, score in scores.items()), collapsed)
    assert [cells[name].heat for name in ("a", "c", "majority")] == [5, 0, 0]


def test_below_a_number_stand_the_lowest_and_the_highest_seed():
    seeds = {"a": (0.9, 0.8), "b": (-0.7, 0.75), "c": (0.6,)}
    cells = rows_of(
        *(make_row(n, seed=s, scores=v) for n, found in seeds.items() for s, v in enumerate(found))
    )
    assert [cells[name].ends for name in seeds] == ["80.0–90.0", "-70.0–75.0", ""]
    assert [cells[name].seeds for name in seeds] == [("90", "80"), ("-70", "75"), ()]
