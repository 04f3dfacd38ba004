from dataclasses import replace

import pytest

from benchharness.leaderboard.report.plots import Figure
from benchharness.leaderboard.report.plots.lines import histories
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import PastRun, Store
from tests.helpers.boards import one_board, plotted, row_of


def past(
    score: float, finished: str, code: str = "0.1.0 abc", seed: int = 0, **job: object
) -> PastRun:
    run = plotted(seed=seed, score=score, data="hub", **job)  # type: ignore[arg-type]
    return PastRun(row=replace(row_of(run), finished=finished), code=code)


OLD, NEW = "2026-06-01T00:00:00Z", "2026-08-01T00:00:00Z"


def only(runs: list[PastRun]) -> Figure:
    (figure,) = histories(one_board([run.row for run in runs]), runs, ())
    return figure


def rows_of(figure: Figure) -> list[tuple[str, str, str]]:
    """The code, the seeds and the median of each row of the table."""
    assert figure.table is not None
    return [
        (code, seeds, median) for _, code, _, seeds, median in (r.cells for r in figure.table.rows)
    ]


def test_runs_stand_at_their_day_and_score() -> None:
    figure = only([past(0.60, OLD), past(0.65, "2026-07-01T12:00:00Z"), past(0.70, NEW)])
    first, middle, last = figure.marks
    assert middle.x == pytest.approx((first.x + last.x) / 2, abs=0.2)
    assert middle.y == pytest.approx((first.y + last.y) / 2, abs=0.2)
    low, *_, high = figure.y.ticks
    found = float(low.text) + (first.y - low.place) / (high.place - low.place) * (
        float(high.text) - float(low.text)
    )
    assert found == pytest.approx(60, abs=0.1)
    assert "2026-06-01 00:00" in first.note


def test_five_recipes_have_five_signs() -> None:
    """The fourth and all after it had one."""
    figure = only([past(0.6, when, recipe=name) for name in "abcde" for when in (OLD, NEW)])
    assert len({(key.mark, key.shape) for key in figure.keys}) == 5


def test_line_joins_the_medians_of_each_version() -> None:
    runs = [past(0.5 + seed / 10, OLD, "0.1", seed) for seed in range(3)]
    runs += [past(0.7 + seed / 10, NEW, "0.2", seed) for seed in range(3)]
    figure = only(runs)
    (line,) = figure.paths
    corners = [tuple(map(float, corner.split(","))) for corner in line.d[1:].split()]
    heights = [sorted(m.y for m in figure.marks[i : i + 3]) for i in (0, 3)]
    assert [y for _, y in corners] == [middle for _, middle, _ in heights]
    assert [x for x, _ in corners] == [figure.marks[0].x, figure.marks[5].x]
    assert rows_of(figure) == [("0.1", "3", "60.0"), ("0.2", "3", "80.0")]
    assert {label.text for label in figure.texts} == {"0.1", "0.2"}


def test_seed_that_was_forced_again_begins_another_batch() -> None:
    figure = only([past(0.6, OLD), past(0.7, NEW)])
    assert [median for _, _, median in rows_of(figure)] == ["60.0", "70.0"]


def test_recipes_are_series_of_their_own() -> None:
    figure = only([past(0.6, OLD), past(0.7, NEW, recipe="fast", settings={"epochs": 1})])
    assert [key.text for key in figure.keys] == ["paper, fp32", "fast, fp32"]
    assert [mark.kind for mark in figure.marks] == ["past s0", "past s1"]


def test_seeds_run_once_are_no_history() -> None:
    runs = [past(0.6, OLD), past(0.7, NEW, seed=1)]
    assert histories(one_board([run.row for run in runs]), runs, ()) == ()


def test_scores_on_other_rows_are_no_history() -> None:
    ours = past(0.7, NEW)
    fingerprints = {"glue/rte:train": "a" * 64, "glue/rte:dev": "b" * 64}
    other = past(0.6, OLD, fingerprints=fingerprints)
    assert histories(one_board([ours.row]), [ours, other], ()) == ()


def test_day_that_is_none_leaves_a_run_out() -> None:
    runs = [past(0.6, "some day"), past(0.7, NEW), past(0.8, OLD)]
    assert len(only(runs).marks) == 2


def test_only_runs_with_a_section_are_linked() -> None:
    run, again = past(0.6, OLD), past(0.7, NEW)
    board = one_board([again.row])
    (figure,) = histories(board, [run, again], [again.row.key])
    assert {mark.href for mark in figure.marks} == {f"#run-{run.row.key[:16]}"}
    (figure,) = histories(board, [run, again], ())
    assert {mark.href for mark in figure.marks} == {""}


def add(store: Store, finished: str, **code: object) -> Result:
    run = plotted(score=0.6)
    store.add_result(replace(run, finished=finished, provenance={"code": code} if code else {}))
    return run


def test_store_gives_every_result_of_a_seed_that_has_several(store: Store) -> None:
    add(store, OLD, version="0.1.0", commit="abcdef0123456", dirty=True)
    add(store, NEW, version="0.2.0", commit=None, dirty=None)
    store.add_result(plotted(seed=1))
    found = store.past_runs()
    assert [(run.code, run.row.finished) for run in found] == [
        ("0.1.0 abcdef0+", OLD),
        ("0.2.0", NEW),
    ]
    assert found[0].row.scores == {"glue/rte": {"accuracy": 0.6}}


def test_store_knows_no_code_where_none_was_recorded(store: Store) -> None:
    add(store, OLD)
    add(store, NEW)
    assert [run.code for run in store.past_runs()] == ["", ""]


def test_jobs_that_differ_in_values_are_past_runs_of_one_seed(store: Store) -> None:
    store.add_result(plotted(recipe="paper"))
    store.add_result(plotted(recipe="fast", settings={"epochs": 1}))
    assert len(store.past_runs()) == 2
