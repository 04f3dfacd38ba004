import io
from collections.abc import Iterable

import pytest
from rich.console import Console

from benchharness.leaderboard.boards import terminal
from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.boards.terminal import print_boards, render
from benchharness.leaderboard.report.table import build_table
from benchharness.leaderboard.result import RunRow
from benchharness.tasks.suites import SUITES, title_of
from tests.helpers.boards import (
    make_failed_row,
    make_row,
    make_rows,
    make_runs,
    one_board,
    row_of,
)
from tests.helpers.gold import check_gold


def printed(board: Board, width: int = 80, *, details: bool = False, **options: object) -> str:
    file = io.StringIO()
    render(board, Console(file=file, width=width, **options), details=details)  # type: ignore[arg-type]
    return file.getvalue()


def of(rows: Iterable[RunRow], **options: object) -> str:
    return printed(one_board(rows), **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def board() -> Board:
    return one_board(row_of(run) for run in make_runs())


@pytest.mark.gold
@pytest.mark.parametrize("width", [60, 80, 140])
def test_terminal_leaderboard_matches_the_reference_file(board: Board, width: int) -> None:
    check_gold(f"board-{width}.txt", printed(board, width))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160])
def test_terminal_leaderboard_fits_the_width_without_truncated_numbers(
    board: Board, width: int
) -> None:
    text = printed(board, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for task in board.tasks:
        if task not in board.extras:
            assert title_of(task) in text
    for entry in board.entries:
        for task, cell in entry.cells.items():
            if task not in board.extras:
                assert f"{cell.median * 100:.1f}" in text


def test_terminal_leaderboard_written_to_a_pipe_has_no_escape_codes(board: Board) -> None:
    assert "\x1b" not in printed(board)


def test_no_color_environment_variable_disables_colours(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(board, force_terminal=True)
    assert "\x1b[3" not in text


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/]", "[link=http://x]y"])
def test_terminal_prints_markup_in_names_as_text(name: str) -> None:
    assert name in of(make_rows(name), width=120)


def test_terminal_explains_missing_tasks_and_failed_runs() -> None:
    text = of([*make_rows()[:5], make_failed_row(task="glue/rte", seed=1)], width=120)
    assert "no GLUE-9 score: MNLI, QNLI, RTE, WNLI are missing." in text
    assert "measured on mini data." in text
    assert "1 run failed (`bench show runs`): minilm." in text
    assert "5 of 9" in of([*make_rows(), *make_rows("other")[:5]], width=120)


def test_terminal_shows_precisions_other_than_fp32() -> None:
    rows = [*make_rows(), *make_rows(precision="bf16")]
    text = of(rows, width=120)
    assert "minilm, bf16" in text
    assert "minilm, fp32" in text
    assert "trained in bf16 precision: minilm." in of(make_rows(precision="bf16"), width=120)
    assert "fp32" not in of(make_rows(), width=120)


def test_terminal_legend_explains_score_rule_data_seeds_and_spread() -> None:
    text = " ".join(of(make_rows(values=[0.5, 0.6]), width=200).split())
    assert "GLUE-9" in text
    assert "mini data" in text
    assert "medians over 2 seeds" in text
    assert "±: sample standard deviation over seeds" in text


def test_terminal_legend_omits_the_spread_for_a_single_seed() -> None:
    text = of(make_rows())
    assert "±" not in text
    assert "medians over 1 seed, times 100." in text


def test_terminal_marks_and_explains_flagged_scores() -> None:
    text = of([make_row(flags={"glue/rte": ("constant predictions",)})])
    assert "50.0!" in text
    assert "!: 1 of 1 seed collapsed" in text


def test_details_option_shows_mean_range_and_spread_below_the_median() -> None:
    rows = make_rows(values=[0.5, 0.61, 0.9])
    lines = [line.split() for line in of(rows, details=True, width=100).splitlines()]
    assert ["mean", *["67.0"] * 10] in lines
    assert ["min", *["50.0"] * 10] in lines
    assert ["max", *["90.0"] * 10] in lines
    assert ["spread", *["±20.7"] * 10] in lines
    assert ["seeds", *["3"] * 10] in lines
    assert lines[4][:5] == ["1", "minilm", "61.0", "±20.7", "61.0"]
    assert "mean" not in of(rows)


def test_terminal_counts_collapsed_seeds() -> None:
    collapsed = {"glue/rte": ("constant predictions", "the training loss never fell")}
    rows = [make_row(seed=seed, flags=collapsed if seed == 2 else {}) for seed in range(5)]
    text = of(rows, width=160)
    reasons = "constant predictions, the training loss never fell"
    assert f"!: 1 of 5 seeds collapsed ({reasons})" in text
    assert "medians over 5 seeds" in text


def test_terminal_lists_ensembles_and_baselines_unranked_below_the_models() -> None:
    rows = [
        *make_rows(
            "majority", [0.2], kind="baseline", weights="baseline:majority@1", recipe="baseline"
        ),
        *make_rows(
            "minilm x5", [0.95], kind="ensemble", weights="ensemble:minilm x5", recipe="ensemble"
        ),
        *make_rows("minilm", [0.9]),
        *make_rows("tiny", [0.1]),
    ]
    lines = [line.split() for line in of(rows, width=120).splitlines()]
    placed = [line[:2] for line in lines if line[:1] in (["1"], ["2"], ["-"])]
    assert placed == [["1", "minilm"], ["2", "tiny"], ["-", "minilm"], ["-", "majority"]]
    assert "below the models, without a rank: ensembles, baselines." in of(rows, width=120)


def test_terminal_omits_empty_columns() -> None:
    text = of([make_row(seed=seed, scores=0.5 + seed / 10) for seed in range(2)])
    assert text.splitlines()[1].split() == ["model", "RTE"]
    assert "minilm 55.0 ±7.1" in " ".join(text.split())


MODELS = (
    "bert-base-uncased bert-large-uncased roberta-base roberta-large deberta-v3-base "
    "deberta-v3-large deberta-v3-small deberta-v3-xsmall electra-base-discriminator "
    "bert-mini electra-small-discriminator albert-base-v2 distilbert-base-uncased "
    "distilroberta-base xlnet-base-cased mpnet-base minilm modernbert-base "
    "modernbert-large tinybert-4l-312d mobilebert-uncased spanbert-base-cased "
    "funnel-small-base convbert-base "
)


def lines_of(rows: Iterable[RunRow], monkeypatch: pytest.MonkeyPatch, **options: object) -> int:
    file = io.StringIO()
    monkeypatch.setattr(terminal, "Console", lambda: Console(file=file, width=80))
    print_boards([one_board(rows)], **options)  # type: ignore[arg-type]
    assert max(map(len, file.getvalue().splitlines())) <= 80
    return len(file.getvalue().splitlines())


def test_terminal_leaderboard_of_24_models_fits_45_lines_at_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [
        row
        for place, model in enumerate(MODELS.split())
        for row in make_rows(model, [0.6 + (place + seed) / 100 for seed in range(5)], data="hub")
    ]
    for name in ("majority", "bag-of-words"):
        facts = {"kind": "baseline", "weights": f"baseline:{name}", "recipe": "baseline"}
        rows += make_rows(name, [0.4], data="hub", **facts)
    assert len(MODELS.split()) == 24
    assert lines_of(rows, monkeypatch) <= 45


def test_terminal_leaderboard_with_published_scores_fits_40_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [
        make_row("bert-base-uncased", seed=n, scores=0.66 + n / 100, data="hub", parameters=110e6)
        for n in range(5)
    ]
    assert 20 < lines_of(rows, monkeypatch, published="like") <= 40
    assert lines_of(rows, monkeypatch, published="all") > 150


def test_terminal_output_says_that_no_run_has_finished() -> None:
    text = of([make_failed_row()])
    assert "no run has finished" in text


def test_leaderboard_of_a_single_task_shows_its_score_in_one_column() -> None:
    suite = SUITES["snli"]
    rows = [
        make_row(model, "snli/snli", 0, dict.fromkeys(suite.rule.cells["snli/snli"], value))
        for model, value in (("a", 0.8), ("b", 0.7))
    ]
    (board,) = build_boards(rows, suite)
    text = printed(board)
    assert text.count("80.0") == text.count("70.0") == 1
    assert "score" not in text
    heads, _, first, second, *_ = text.splitlines()[1:]
    assert heads.split() == ["#", "model", "SNLI"]
    assert [first.split()[0], second.split()[0]] == ["1", "2"], "they are ranked all the same"
    table = build_table(board, 1)
    assert not table.has_score
    assert {row.score.text for group in table.groups[:1] for row in group.rows} == {""}
