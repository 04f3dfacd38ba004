import math
import random
from dataclasses import replace
from statistics import fmean, stdev

import pytest

from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.boards.cell import shown
from benchharness.leaderboard.job import Setting
from benchharness.tasks.suites import SUITES
from tests.helpers.boards import (
    GLUE,
    TASKS,
    make_failed_row,
    make_row,
    make_rows,
    make_runs,
    one_board,
    row_of,
)


def test_task_score_has_median_mean_and_standard_deviation_over_seeds() -> None:
    (entry,) = one_board(make_rows(values=[0.5, 0.6, 0.9])).entries
    cell = entry.cells["glue/mrpc"]
    assert (cell.median, cell.mean) == (0.6, pytest.approx(2 / 3))
    assert cell.spread == pytest.approx(stdev([0.5, 0.6, 0.9]))
    assert entry.score == pytest.approx(0.6)
    assert entry.spread == pytest.approx(stdev([0.5, 0.6, 0.9]))


def test_task_score_with_two_metrics_is_their_mean() -> None:
    row = make_row(task="glue/mrpc", scores={"accuracy": 0.8, "f1": 0.9, "loss": 7.0})
    assert one_board([row]).entries[0].cells["glue/mrpc"].values == (pytest.approx(0.85),)


def test_suite_score_is_the_mean_of_the_displayed_medians() -> None:
    # The medians of accuracy and F1 are from different seeds, so the cell uses the median of their
    # mean.
    odd = [(0.1, 0.9), (0.2, 0.2), (0.9, 0.3)]
    rows = [r for r in make_rows(values=[0.5] * 3) if r.task != "glue/mrpc"]
    rows += [
        make_row(task="glue/mrpc", seed=seed, scores={"accuracy": a, "f1": f})
        for seed, (a, f) in enumerate(odd)
    ]
    (entry,) = one_board(rows).entries
    assert entry.cells["glue/mrpc"].median == pytest.approx(0.5)
    assert entry.score == pytest.approx(fmean(c.median for c in entry.cells.values()))


def test_task_score_with_a_single_seed_has_no_standard_deviation() -> None:
    (entry,) = one_board(make_rows()).entries
    assert entry.spread is None
    assert entry.cells["glue/cola"].spread is None
    assert entry.seeds == (1, 1)


def test_suite_score_is_missing_if_any_task_is_missing() -> None:
    rows = make_rows("whole") + make_rows("part")[:5]
    whole, part = one_board(rows).entries
    assert (whole.rank, whole.missing) == (1, ())
    assert (part.rank, part.score) == (None, None)
    assert part.missing == TASKS[5:]


def test_mnli_score_is_missing_without_the_mismatched_accuracy() -> None:
    rows = [r for r in make_rows() if r.task != "glue/mnli"]
    rows.append(make_row(task="glue/mnli", scores={"accuracy": 0.8}))
    (entry,) = one_board(rows).entries
    assert entry.missing == ("glue/mnli",)
    assert entry.score is None


def test_scores_that_round_to_the_same_value_share_a_rank() -> None:
    levels = {"a": 0.8001, "b": 0.8003, "c": 0.9, "d": 0.7}
    rows = [row for model, level in levels.items() for row in make_rows(model, [level])]
    ranks = [(entry.model, entry.rank) for entry in one_board(rows).entries]
    assert ranks == [("c", 1), ("a", 2), ("b", 2), ("d", 4)]


def test_leaderboards_do_not_depend_on_the_order_of_runs() -> None:
    rows = [row_of(run) for run in make_runs()]
    rows += make_rows("minilm", [0.4], data="hub")
    expected = build_boards(rows, GLUE)
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        assert build_boards(rows, GLUE) == expected


def test_runs_on_synthetic_and_real_data_have_separate_leaderboards() -> None:
    # The runs have no task in common, so their fingerprints cannot differ.
    boards = build_boards(
        [make_row(task="glue/cola", data="mini"), make_row(task="glue/rte", data="hub")], GLUE
    )
    assert sorted(board.data for board in boards) == [("hub",), ("mini",)]


def test_runs_on_equal_rows_from_different_sources_share_an_entry() -> None:
    prints = {"glue/rte:train": "1", "glue/rte:dev": "2"}
    rows = [
        make_row(seed=0, data="hub", fingerprints=prints),
        make_row(seed=1, data="files/glue", fingerprints=prints),
    ]
    board = one_board(rows)
    assert board.data == ("files/glue", "hub")
    assert board.data_label == "files in files/glue and hub data"
    assert [entry.seeds for entry in board.entries] == [(2, 2)]


def test_data_of_tasks_that_are_not_on_the_hub_is_not_called_hub_data() -> None:
    row = make_row(task="needle/512", data="hub", scores={"accuracy": 0.5})
    (board,) = build_boards([row], SUITES["needle"])
    assert board.data_label == "the task's own data"


def test_runs_on_changed_evaluation_rows_have_a_separate_leaderboard() -> None:
    old, new = ({"glue/rte:train": "1", "glue/rte:dev": dev} for dev in "23")
    rows = [make_row(data="hub", fingerprints=p, key=k) for p, k in ((old, "a"), (new, "b"))]
    boards = build_boards(rows, GLUE)
    assert [len(board.entries[0].runs) for board in boards] == [1, 1]


def test_runs_with_a_row_limit_have_a_separate_leaderboard() -> None:
    full, limited = build_boards([*make_rows(), make_row(limit=64)], GLUE)
    assert full.data_label == "mini data"
    assert limited.data_label == "mini data, at most 64 rows per split"


def test_full_runs_of_tasks_below_the_row_limit_share_the_limited_leaderboard() -> None:
    wnli = make_row(task="glue/wnli", largest_split=60)
    limited = [make_row(task=task, limit=64) for task in ("glue/rte", "glue/cola")]
    board = one_board([wnli, *limited])
    assert board.limit == 64
    assert set(board.entries[0].cells) == {"glue/wnli", "glue/rte", "glue/cola"}

    prints = {"glue/rte:train": "1" * 64, "glue/rte:dev": "2" * 64}
    full = [make_row(task="glue/rte", largest_split=2000, fingerprints=prints), wnli]
    boards = build_boards([*full, *limited], GLUE)
    cells = {board.limit: set(board.entries[0].cells) for board in boards}
    assert cells == {
        None: {"glue/wnli", "glue/rte"},
        64: {"glue/wnli", "glue/rte", "glue/cola"},
    }


@pytest.mark.parametrize("largest_split", [0, 65])
def test_limited_leaderboard_excludes_full_runs_of_tasks_above_the_limit(
    largest_split: int,
) -> None:
    full = make_row(task="glue/wnli", largest_split=largest_split)
    boards = build_boards([full, make_row(limit=64)], GLUE)
    assert [set(board.entries[0].cells) for board in boards if board.limit] == [{"glue/rte"}]
    assert len(boards) == 2


def test_limited_leaderboard_excludes_few_shot_runs() -> None:
    shots = {"shots": Setting(value=8, source="--set")}
    drawn = make_row(settings=shots, overridden=True, largest_split=60)
    full, limited = build_boards([drawn, make_row(limit=64, key="limited")], GLUE)
    assert (full.limit, limited.limit) == (None, 64)
    assert [len(board.entries) for board in (full, limited)] == [1, 1]


def test_runs_on_different_training_rows_have_separate_leaderboard_entries() -> None:
    prints = [{"glue/rte:train": train, "glue/rte:dev": "d"} for train in "12"]
    board = one_board(make_row(key=str(n), seed=n, fingerprints=p) for n, p in enumerate(prints))
    assert [entry.seeds for entry in board.entries] == [(1, 1), (1, 1)]
    assert board.entries[0].variant != board.entries[1].variant


def test_runs_with_different_recipe_values_have_separate_entries() -> None:
    rows = make_rows(values=[0.6]) + make_rows(values=[0.7], recipe_digest="b" * 12)
    board = one_board(rows)
    assert [(e.rank, round(e.score or 0, 3)) for e in board.entries] == [(1, 0.7), (2, 0.6)]
    for entry in board.entries:
        assert len({run.recipe_digest for run in entry.runs}) == 1
    assert [entry.recipe_label for entry in board.entries] == [
        "paper, values bbbbbbb",
        "paper, values aaaaaaa",
    ]


def test_different_checkpoints_with_the_same_name_have_separate_entries() -> None:
    rows = make_rows(values=[0.6])[:5] + make_rows(values=[0.7], weights="sha256:other")[5:]
    board = one_board(rows)
    assert [(e.model, e.score) for e in board.entries] == [("minilm", None)] * 2
    assert len({entry.recipe_label for entry in board.entries}) == 2
    for entry in board.entries:
        assert len({run.weights for run in entry.runs}) == 1
    assert {entry.name for entry in board.entries} == {
        "minilm, weights other",
        "minilm, weights revision of minilm",
    }


def test_seeds_of_different_checkpoints_with_the_same_name_are_not_pooled() -> None:
    rows = [make_row(seed=seed, weights=weights) for seed, weights in enumerate("ab")]
    assert [entry.seeds for entry in one_board(rows).entries] == [(1, 1), (1, 1)]


def test_runs_of_a_recipe_with_task_specific_values_share_an_entry() -> None:
    rows = [r for r in make_rows() if r.task != "glue/mrpc"]
    rows.append(make_row(task="glue/mrpc", recipe_digest="b" * 12))
    (entry,) = one_board(rows).entries
    assert entry.score == pytest.approx(0.5)
    assert entry.recipe_label == "paper"


@pytest.mark.parametrize("name", ["shots", "layers"])
def test_runs_with_different_shots_or_layers_never_share_an_entry(name: str) -> None:
    runs = [("cola", 8), ("cola", 32), ("rte", 32), ("rte", 8), ("sst2", None)]
    rows = [
        make_row(
            key=str(n),
            task=f"glue/{task}",
            recipe_digest=str(n) * 12,
            overridden=True,
            settings={} if value is None else {name: Setting(value=value, source="--set")},
        )
        for n, (task, value) in enumerate(runs)
    ]
    found = [
        {name in run.settings and run.settings[name].value for run in entry.runs}
        for entry in one_board(rows).entries
    ]
    assert len(found) == 3
    assert all(len(values) == 1 for values in found)


@pytest.mark.parametrize("field", ["model", "recipe", "precision"])
def test_runs_with_different_models_recipes_or_precisions_have_separate_entries(field: str) -> None:
    rows = [make_row(key="a"), make_row(key="b", **{field: "other"})]
    assert len(one_board(rows).entries) == 2


def test_leaderboard_uses_only_the_newest_run_of_each_seed() -> None:
    rows = [
        make_row(scores=0.4, key="a", finished="2026-08-01T12:00:00Z"),
        make_row(scores=0.6, key="b", finished="2026-08-02T12:00:00Z"),
    ]
    assert one_board(rows).entries[0].cells["glue/rte"].values == (0.6,)


def test_leaderboard_lists_failed_runs_without_a_score() -> None:
    (entry,) = one_board([make_row(seed=0), make_failed_row(seed=1)]).entries
    assert entry.cells["glue/rte"].values == (0.5,)
    assert [run.status for run in entry.failures] == ["diverged"]


def test_failures_of_successfully_repeated_runs_are_not_listed() -> None:
    (entry,) = one_board([make_row(seed=1), make_failed_row(seed=1)]).entries
    assert entry.failures == ()


def test_leaderboard_lists_a_model_with_only_failed_runs() -> None:
    (entry,) = one_board([make_failed_row()]).entries
    assert (entry.rank, entry.cells, entry.seeds) == (None, {}, (0, 0))


def test_leaderboard_treats_a_nan_score_as_missing() -> None:
    row = make_row(task="glue/stsb", scores={"pearson": math.nan, "spearman": 0.8})
    assert one_board([row]).entries[0].cells == {}


def test_diagnostic_set_is_shown_but_excluded_from_the_suite_score() -> None:
    scores = {
        "glue/mnli": {"accuracy": 0.5, "accuracy_mm": 0.5},
        "glue/ax": {"mcc_logic": 0.1, "mcc": 0.9},
    }
    rows = [r for r in make_rows() if r.task != "glue/mnli"]
    rows.append(replace(make_row(task="glue/mnli"), scores=scores))
    board = one_board(rows)
    assert board.tasks[-1] == "glue/ax"
    assert board.extras == ("glue/ax",)
    assert board.entries[0].cells["glue/ax"].values == (0.9,)
    assert board.entries[0].score == pytest.approx(0.5)


def test_identical_warnings_about_several_seeds_are_listed_once() -> None:
    flags = {"glue/rte": ("constant predictions",)}
    rows = [make_row(seed=seed, flags=flags) for seed in range(3)]
    assert one_board(rows).entries[0].cells["glue/rte"].flags == ("constant predictions",)


def test_warning_about_an_mnli_score_does_not_apply_to_the_diagnostic_set() -> None:
    flags = {"glue/mnli": ("constant predictions",)}
    scores = {"glue/mnli": {"accuracy": 0.3, "accuracy_mm": 0.3}, "glue/ax": {"mcc": 0.2}}
    row = replace(make_row(task="glue/mnli", flags=flags), scores=scores)
    cells = one_board([row]).entries[0].cells
    assert cells["glue/mnli"].flags == ("constant predictions",)
    assert cells["glue/ax"].flags == ()


def test_leaderboard_excludes_runs_of_other_suites() -> None:
    rows = {"superglue/rte:train": "0", "superglue/rte:dev": "1"}
    other = replace(make_row(), task="superglue/rte", fingerprints=rows)
    assert build_boards([other], GLUE) == ()


def test_best_score_is_highlighted_only_in_columns_with_several_entries() -> None:
    board: Board = one_board([*make_rows("a", [0.5]), *make_rows("b", [0.6])])
    assert board.best("glue/cola") == "60.0"
    assert one_board(make_rows()).best("glue/cola") == ""


@pytest.mark.parametrize(
    ("value", "text"), [(0.80523, "80.5"), (-0.0001, "0.0"), (1.0, "100.0"), (-0.1, "-10.0")]
)
def test_scores_are_displayed_as_percentages_with_one_decimal(value: float, text: str) -> None:
    assert shown(value) == text
