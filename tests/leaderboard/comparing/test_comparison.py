from collections.abc import Iterable

import pytest

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import boards_with, select_entry
from benchharness.leaderboard.boards.naming import full_label
from benchharness.leaderboard.comparing import Known
from benchharness.leaderboard.comparing.power import SCORE, compare_seeds
from tests.helpers.boards import TASKS, make_rows, one_board


def unread(tasks: Iterable[str]) -> dict[str, list[Known | None]]:
    return {task: ["gone", "gone"] for task in tasks}


def test_comparison_includes_each_task_and_the_suite_score() -> None:
    rows = [*make_rows("good", [0.80, 0.82, 0.84]), *make_rows("bad", [0.70, 0.75, 0.80])]
    board = one_board(rows)
    comparisons = {
        found.task: found for found in compare_seeds(board, board.entries, unread(TASKS))
    }
    assert set(comparisons) == {*TASKS, SCORE}
    rte = comparisons["glue/rte"]
    assert rte.values == ((0.80, 0.82, 0.84), (0.70, 0.75, 0.80))
    assert rte.difference == pytest.approx(0.07)
    assert rte.spreads == pytest.approx((0.02, 0.05))
    assert rte.needed == 6  # from the formula of the t-test, for an effect size of 1.84
    assert rte.p_value == pytest.approx(0.0875, abs=1e-4)
    assert rte.unread == "gone"
    # The mean of nine tasks whose runs are independent.
    assert comparisons[SCORE].difference == pytest.approx(0.07)
    assert comparisons[SCORE].needed == 2


def test_comparison_omits_the_suite_score_if_a_task_is_excluded() -> None:
    board = one_board([*make_rows("a", [0.8, 0.9]), *make_rows("b", [0.7, 0.8])])
    assert [c.task for c in compare_seeds(board, board.entries, unread(["glue/rte"]))] == [
        "glue/rte"
    ]


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ([0.8], [0.7, 0.6], "the variance over seeds is unknown: run at least 2 seeds of each"),
        ([0.8, 0.9], [0.8, 0.9], "the means are equal"),
        ([0.8, 0.3], [0.55001, 0.55], "more than 10,000 seeds"),
    ],
)
def test_missing_recommended_seed_count_has_a_stated_reason(
    one: object, other: object, reason: str
) -> None:
    board = one_board([*make_rows("one", one), *make_rows("other", other)])
    (found,) = compare_seeds(board, board.entries, unread(["glue/rte"]))
    assert (found.needed, found.reason) == (None, reason)


def test_comparison_with_a_baseline_recommends_no_seed_count() -> None:
    once = make_rows("majority", [0.7], kind="baseline")
    board = one_board([*make_rows("one", [0.8, 0.9, 0.7]), *once])
    (found,) = compare_seeds(board, board.entries, unread(["glue/rte"]))
    assert found.reason == "majority has a single run without a seed, so no seeds can be added"


def test_entry_can_be_selected_by_model_recipe_and_precision() -> None:
    rows = [
        *make_rows("minilm", [0.8]),
        *make_rows("minilm", [0.7], recipe="fast", weights="others"),
        *make_rows("bert", [0.6]),
    ]
    board = one_board(rows)
    entry = select_entry(board, "minilm:fast")
    assert entry is not None
    assert full_label(entry) == "minilm:fast:fp32"
    assert select_entry(board, "minilm:fast:fp32") is entry
    assert select_entry(board, "roberta") is None
    with pytest.raises(BenchError, match="minilm:paper or minilm:fast"):
        select_entry(board, "minilm")


def test_comparison_of_systems_without_a_common_leaderboard_is_an_error() -> None:
    mini, hub = (
        one_board(make_rows(name, data=data)) for name, data in (("a", "mini"), ("b", "hub"))
    )
    assert [found for found, _ in boards_with([mini, hub], ["a"])] == [mini]
    with pytest.raises(BenchError, match=r"results of a and b .* There are results of a, b"):
        boards_with([mini, hub], ["a", "b"])
