"""Tests of the intervals of cells, scores and ranks, on synthetic outcomes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import scipy
from rich.console import Console

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Uncertainty
from benchharness.leaderboard.boards.terminal import render
from benchharness.leaderboard.comparing import (
    Known,
    Outcomes,
    f1_of_counts,
    first_part,
    headline_outcomes,
)
from benchharness.leaderboard.comparing.contrast import Contrast
from benchharness.leaderboard.comparing.noise import (
    median_estimate,
    sample_of,
    with_uncertainty,
)
from benchharness.leaderboard.report.table import build_table
from benchharness.leaderboard.statistics import Interval, median_interval
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Metric
from tests.helpers import drawn_predictions
from tests.helpers.boards import TASKS, make_row, make_rows, one_board

UNITS = 200


def outcomes_of(rights: Sequence[np.ndarray]) -> Outcomes:
    """Make outcomes from one array of right and wrong answers per seed."""
    return Outcomes(parts=np.stack(rights, axis=1)[..., None].astype(float), score=first_part)


def drawn(board: Board, noise: float = 0.5) -> dict[str, list[Known | None]]:
    """Draw outcomes for every cell, with the shares of right answers that the runs' values give.

    All systems find the same examples hard; `noise` is by how much they do not.
    """
    found: dict[str, list[Known | None]] = {}
    for task in board.tasks:
        draw = np.random.default_rng(len(task))
        hard = draw.normal(size=UNITS)
        found[task] = [
            outcomes_of([right(hard + noise * draw.normal(size=UNITS), v) for v in cell.values])
            if (cell := entry.cells.get(task))
            else None
            for entry in board.entries
        ]
    return found


def right(difficulty: np.ndarray, share: float) -> np.ndarray:
    """Return which examples are right: the easiest ones, up to this share."""
    found = np.zeros(UNITS)
    found[np.argsort(difficulty)[: round(share * UNITS)]] = 1
    return found


def uncertainty(values: Mapping[str, Sequence[float]], **fields: float) -> dict[str, Uncertainty]:
    """Return the uncertainty of models whose every task has these values, one per seed."""
    board = one_board([row for name, v in values.items() for row in make_rows(name, v)])
    shown = with_uncertainty(board, drawn(board, **fields))
    return {entry.model: entry.uncertainty for entry in shown.entries if entry.uncertainty}


def test_task_score_has_intervals_over_examples_over_seeds_and_over_both() -> None:
    values = (0.60, 0.61, 0.62, 0.63, 0.64)
    cell = uncertainty({"a": values})["a"].cells["glue/rte"]
    assert cell.examples is not None
    assert cell.seeds is not None
    assert cell.both is not None
    # An accuracy of 62 % on 200 examples has a standard error of 3.4 points.
    assert cell.examples.high - cell.examples.low == pytest.approx(2 * 1.96 * 0.034, rel=0.25)
    seeds = median_interval(values)
    assert (cell.seeds.low, cell.seeds.high) == pytest.approx((seeds.low, seeds.high))
    assert cell.both.low <= min(cell.examples.low, cell.seeds.low)
    assert cell.both.high >= max(cell.examples.high, cell.seeds.high)
    assert cell.scope == "examples and seeds"


def test_task_score_with_one_seed_has_an_interval_over_examples_only() -> None:
    cell = uncertainty({"a": [0.7]})["a"].cells["glue/rte"]
    assert (cell.seeds, cell.scope) == (None, "examples")
    assert cell.both == cell.examples


def test_suite_score_has_a_narrower_interval_than_its_tasks() -> None:
    found = uncertainty({"a": [0.60, 0.62, 0.64]})["a"]
    assert found.score.both is not None
    width = found.score.both.high - found.score.both.low
    for cell in found.cells.values():
        assert cell.both is not None
        assert width < 0.6 * (cell.both.high - cell.both.low)
    assert found.score.both.has(0.62)


def test_clearly_different_models_have_a_single_possible_rank_each() -> None:
    found = uncertainty({"a": [0.9, 0.9, 0.91], "b": [0.6, 0.6, 0.61], "c": [0.3, 0.3, 0.31]})
    assert [found[name].ranks for name in "abc"] == [(1, 1), (2, 2), (3, 3)]
    assert [found[name].rank_label for name in "abc"] == ["1", "2", "3"]
    assert all(each.tied == () for each in found.values())


def test_similar_models_have_overlapping_rank_ranges_and_list_ties() -> None:
    found = uncertainty({"a": [0.700, 0.720], "b": [0.705, 0.715], "c": [0.20, 0.21]})
    assert found["a"].rank_label == found["b"].rank_label == "1-2"
    assert found["a"].tied == ("b",)
    assert found["b"].tied == ("a",)
    assert found["c"].ranks == (3, 3)


def test_identical_models_are_always_tied() -> None:
    found = uncertainty({"a": [0.7], "b": [0.7], "c": [0.3]}, noise=0.0)
    assert found["a"].ranks == found["b"].ranks == (1, 2)
    assert (found["a"].tied, found["b"].tied) == (("b",), ("a",))


def test_paired_test_can_rank_models_with_overlapping_intervals() -> None:
    found = uncertainty({"a": [0.74], "b": [0.72]}, noise=0.0)
    one, other = found["a"].score.both, found["b"].score.both
    assert one is not None
    assert other is not None
    assert one.low < other.high
    assert (found["a"].ranks, found["b"].ranks) == ((1, 1), (2, 2))


def test_rank_ranges_cover_the_true_ranks_in_most_simulations() -> None:
    """Simulate three systems of true accuracies 62, 60 and 58 %, each on 40 sets of examples."""
    held = []
    for seed in range(40):
        board = one_board([row for n in "abc" for row in make_rows(n, [0.6])])
        draw = np.random.default_rng(seed)
        known: dict[str, list[Known | None]] = {
            task: [outcomes_of([draw.random(UNITS) < share]) for share in (0.62, 0.60, 0.58)]
            for task in board.tasks
        }
        shown = with_uncertainty(board, known)
        for true, entry in enumerate(shown.entries, start=1):
            assert entry.uncertainty is not None
            assert entry.uncertainty.ranks is not None
            held.append(entry.uncertainty.ranks[0] <= true <= entry.uncertainty.ranks[1])
    assert np.mean(held) >= 0.93


def test_task_score_has_only_a_seed_interval_if_examples_are_unreadable() -> None:
    board = one_board(make_rows("a", [0.60, 0.64]) + make_rows("b", [0.70, 0.71]))
    known = drawn(board)
    known["glue/rte"][1] = "its examples could not be read."
    a = with_uncertainty(board, known).entries[1].uncertainty
    assert a is not None
    cell = a.cells["glue/rte"]
    assert (cell.examples, cell.both is None, cell.scope) == (None, False, "seeds")
    assert cell.reason == "its examples could not be read."
    assert (a.score.examples, a.score.both is None) == (None, False)


def test_single_seed_entry_without_readable_examples_of_a_task_has_no_rank_range() -> None:
    board = one_board(make_rows("a", [0.6]) + make_rows("b", [0.7]))
    known = drawn(board)
    known["glue/rte"][1] = "its examples could not be read."
    b, a = (entry.uncertainty for entry in with_uncertainty(board, known).entries)
    assert b is not None
    assert a is not None
    assert (a.score.both, a.ranks, a.rank_label) == (None, None, "")
    assert b.ranks == (1, 1)


def test_incomplete_entry_has_intervals_and_no_rank() -> None:
    rows = make_rows("a", [0.6, 0.61]) + [make_row("b", TASKS[0], s, 0.5) for s in range(2)]
    board = one_board(rows)
    a, b = (entry.uncertainty for entry in with_uncertainty(board, drawn(board)).entries)
    assert a is not None
    assert b is not None
    assert a.ranks == (1, 1)
    assert b.ranks is None
    assert b.score.both is None
    assert set(b.cells) == {TASKS[0]}


def test_bootstrap_intervals_are_reproducible() -> None:
    values = {"a": [0.70, 0.72], "b": [0.71, 0.715]}
    assert uncertainty(values) == uncertainty(values)


def test_intervals_are_clipped_to_the_range_of_the_metric() -> None:
    cell = uncertainty({"a": [0.90, 0.99]})["a"].cells["glue/rte"]
    assert cell.both is not None
    assert cell.seeds is not None
    assert cell.both.high == cell.seeds.high == 1.0
    low = uncertainty({"a": [0.01, 0.10]})["a"]
    cell = low.cells["glue/rte"]
    assert cell.both is not None
    assert cell.seeds is not None
    assert low.score.seeds is not None
    assert cell.both.low == cell.seeds.low == 0.0
    assert low.score.seeds.low > -0.5, "of the nine tasks only CoLA and STS-B can be below 0"


def shown_board() -> Board:
    board = one_board(make_rows("a", [0.70, 0.72]) + make_rows("b", [0.71, 0.715]))
    return with_uncertainty(board, drawn(board))


def test_terminal_shows_rank_ranges_intervals_and_ties() -> None:
    console = Console(width=100, file=StringIO(), color_system=None)
    render(shown_board(), console)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert sum(line.startswith("1-2 95 % from ") for line in lines) == 2
    assert sum(line.startswith("95 % to ") for line in lines) == 2
    assert "a is not significantly different from b." in lines


def test_report_shows_rank_ranges_and_intervals_in_notes() -> None:
    table = build_table(shown_board(), 1)
    assert table.has_intervals
    first = table.groups[0].rows[0]
    assert first.ranks == "1 to 2"
    assert first.ranks_note.endswith("not significantly different from a")
    assert "95 % interval from " in first.score.note
    assert "over examples and seeds" in " ".join(cell.note for cell in first.cells)


def test_leaderboard_without_computed_intervals_shows_none() -> None:
    table = build_table(one_board(make_rows("a", [0.7])), 1)
    assert not table.has_intervals
    row = table.groups[0].rows[0]
    assert (row.ranks, row.ranks_note) == ("", "")
    assert "95 %" not in row.score.note


def test_single_seed_entries_use_the_pooled_standard_deviation() -> None:
    values = {"a": [0.6], "b": [0.55], "c": [0.2, 0.3, 0.4]}
    board = one_board([row for name, own in values.items() for row in make_rows(name, own)])
    shown = {
        is_pooled: with_uncertainty(board, drawn(board), is_pooled=is_pooled)
        for is_pooled in (False, True)
    }
    found = {
        is_pooled: {entry.model: entry.uncertainty for entry in each.entries if entry.uncertainty}
        for is_pooled, each in shown.items()
    }
    for task in board.tasks:
        assert found[False]["a"].cells[task].seeds is None
        given = found[True]["a"].cells[task].seeds
        assert given is not None
        # The t-interval of a single value, with the 2 degrees of freedom of the pooled deviation.
        assert given.high == pytest.approx(min(1.0, 0.6 + 4.303 * 0.1), abs=1e-3)
    assert (found[False]["a"].tied, found[True]["a"].tied) == ((), ("b",))


def null_boards(count: int, models: int) -> Iterator[Board]:
    for seed in range(count):
        draw = np.random.default_rng(seed)
        board = one_board([row for n in range(models) for row in make_rows(f"m{n}", [0.6] * 3)])
        known: dict[str, list[Known | None]] = {}
        for task in board.tasks:
            hard = draw.normal(size=(UNITS, 1))
            known[task] = [
                outcomes_of(
                    list((hard + draw.normal(size=(UNITS, 3)) + draw.normal(0, 0.1, 3)).T > 0)
                )
                for _ in board.entries
            ]
        yield with_uncertainty(board, known)


def test_models_of_equal_accuracy_are_all_tied_in_95_percent_of_simulations() -> None:
    """Check Holm's correction over the pairs: 95 % of boards of equal models have only ties."""
    wrong = sum(
        any(entry.uncertainty and len(entry.uncertainty.tied) < 4 for entry in board.entries)
        for board in null_boards(60, 5)
    )
    assert wrong <= 8


def test_report_does_not_round_a_significant_difference_to_an_insignificant_one() -> None:
    board = one_board(make_rows("a", [0.70, 0.72]) + make_rows("b", [0.71, 0.715]))
    found = Contrast(
        task="glue/rte",
        seeds=(0, 1),
        scores=(0.54, 0.5),
        examples=160,
        interval=Interval(low=0.0003, high=0.0797),
        test="t",
        corrected=0.0499,
    )
    ((_, _, verdicts),) = build_table(board, 1, contrasts={(0, 1): [found]}).contrasts
    assert list(verdicts.values()) == [
        "* t: p = 0.0499 after Holm's correction, difference 4.0, 95 % interval from 0.03 to 8.0"
    ]


def at_the_end(share: float, outcomes: Outcomes, seeds: int = 1) -> Uncertainty:
    """Return the uncertainty of a model with this score on RTE, which a second model lacks."""
    board = one_board([*make_rows("a", [share] * seeds), *make_rows("b", [0.5] * seeds)])
    known: dict[str, list[Known | None]] = {
        task: [outcomes if entry.model == "a" else half(seeds) for entry in board.entries]
        for task in board.tasks
    }
    found = {e.model: e.uncertainty for e in with_uncertainty(board, known).entries}["a"]
    assert found is not None
    return found


def half(seeds: int) -> Outcomes:
    return outcomes_of([np.arange(40) % 2 == 0] * seeds)


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("seeds", [1, 3])
def test_accuracy_of_0_or_100_has_the_exact_interval_over_examples(
    share: float, seeds: int
) -> None:
    outcomes = outcomes_of([np.full(40, share)] * seeds)
    cell = at_the_end(share, outcomes, seeds).cells["glue/rte"]
    exact = scipy.stats.binomtest(round(share * 40), 40).proportion_ci(0.95)
    for found in (cell.examples, cell.both):
        assert found is not None
        assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


def test_perfect_f1_has_no_interval_but_is_ranked_and_the_reason_is_shown() -> None:
    counts = np.ones((40, 1, 3))
    found = at_the_end(1.0, Outcomes(parts=counts, score=f1_of_counts))
    cell = found.cells["glue/rte"]
    assert (cell.both, cell.examples, found.score.both) == (None, None, None)
    assert cell.reason.startswith("on RTE, the score is equal for every choice of these examples")
    assert found.ranks == (1, 1)


@pytest.mark.parametrize(("metric", "is_exact"), [("accuracy", True), ("kappa", False)])
def test_perfect_score_has_the_exact_interval_only_if_its_metric_is_a_mean(
    metric: str, *, is_exact: bool
) -> None:
    """Cohen's kappa of right answers equals their accuracy, but has other values otherwise."""
    task = find_task("glue/rte")
    kappa = Metric(name="kappa", compute=_kappa)
    split = drawn_predictions.drawn("glue/rte", one=[1.0], other=[])
    split = replace(split, task=replace(task, metrics=(*task.metrics, kappa)))
    found = headline_outcomes([split], [metric])
    assert found is not None
    assert median_estimate(sample_of(found)).interval().has_width == is_exact


def _kappa(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
    pairs = [(p.label, e.label) for p, e in zip(predictions, examples, strict=True)]
    guesses, golds = zip(*pairs, strict=True)
    chance = sum(guesses.count(g) * golds.count(g) for g in {*golds}) / len(pairs) ** 2
    agreed = sum(guess == gold for guess, gold in pairs) / len(pairs)
    return (agreed - chance) / (1 - chance) if chance < 1 else 0.0


def test_score_of_0_for_every_choice_of_examples_has_the_interval_0_to_0() -> None:
    found = at_the_end(0.0, Outcomes(parts=np.zeros((40, 1, 3)), score=f1_of_counts))
    assert found.cells["glue/rte"].both == Interval(low=0.0, high=0.0)
    assert found.score.both is not None


def test_perfect_f1_with_three_equal_seeds_has_no_interval() -> None:
    found = at_the_end(1.0, Outcomes(parts=np.ones((40, 3, 3)), score=f1_of_counts), 3)
    assert found.cells["glue/rte"].both is None


@pytest.mark.parametrize("accuracy", [0.9, 0.95, 0.98, 0.995])
def test_interval_of_an_accuracy_near_100_contains_the_truth_in_95_of_100_samples(
    accuracy: float,
) -> None:
    draw, held = np.random.default_rng(0), 0
    for _ in range(400):
        sample = sample_of(outcomes_of([draw.random(40) < accuracy]))
        found = median_estimate(sample).interval()
        held += found.has(accuracy)
    assert held / 400 >= 0.94
