import math
from dataclasses import replace
from io import StringIO
from statistics import stdev

import pytest
from rich.console import Console
from scipy.stats import t

from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.boards.published import published
from benchharness.leaderboard.boards.reproduction import REFERENCES, Reproduction, reproductions
from benchharness.leaderboard.boards.terminal import render_reproductions
from benchharness.leaderboard.job import Setting
from benchharness.leaderboard.result import RunRow
from benchharness.tasks.suites import SUITES
from tests.helpers.boards import make_row, make_rows, one_board


def found(rows: list[RunRow]) -> dict[tuple[str, str], Reproduction]:
    """Return the comparisons of the only entry of these rows, by task and score."""
    board = one_board(rows)
    (entry,) = board.entries
    return {(r.task, " or ".join(r.theirs.scores)): r for r in reproductions(board, entry)}


def cola(values: list[float], model: str = "minilm", **fields: object) -> Reproduction:
    rows = [
        make_row(model, "glue/cola", seed, value, data="hub", **fields)
        for seed, value in enumerate(values)
    ]
    return found(rows)["glue/cola", "mcc"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"settings": {"shots": Setting(value=32, source="--set")}}, "trained on only 32 rows"),
        ({"settings": {"layers": Setting(value=3, source="--set")}}, "has only 3 of its layers"),
        ({"kind": "zero-shot"}, "was not trained on the task"),
    ],
)
def test_few_shot_layer_truncated_and_zero_shot_runs_are_not_comparable_with_published_scores(
    fields: dict[str, object], reason: str
) -> None:
    """Regression test: a few-shot run was called 30 points below fine-tuning on all rows."""
    compared = cola([0.10, 0.11, 0.12], overridden=True, **fields)
    assert (compared.verdict, compared.ours) == ("not comparable", None)
    assert reason in compared.reason


def test_every_reference_score_is_a_published_dev_score() -> None:
    rows = {(r.table, r.system) for suite in SUITES for r in published(suite) if r.split == "dev"}
    for name, references in REFERENCES.items():
        assert name == name.lower()
        assert set(references) <= rows, name


def test_minilm_runs_are_compared_with_the_scores_of_its_readme() -> None:
    theirs = {key: r.theirs.value for key, r in found(make_rows(data="hub")).items()}
    assert theirs == {
        ("glue/cola", "mcc"): 47.5,
        ("glue/sst2", "accuracy"): 91.5,
        ("glue/mrpc", "accuracy or f1"): 88.9,
        ("glue/qqp", "accuracy or f1"): 90.6,
        ("glue/mnli", "accuracy"): 83.3,
        ("glue/qnli", "accuracy"): 90.5,
        ("glue/rte", "accuracy"): 68.8,
    }


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.470, 0.480, 0.475], "within noise"),
        ([0.400, 0.401, 0.402], "below"),
        ([0.500, 0.501, 0.502], "above"),
        ([0.300, 0.400, 0.500], "within noise"),
    ],
)
def test_reproduction_verdict_depends_on_the_spread_over_seeds(
    values: list[float], verdict: str
) -> None:
    reproduction = cola(values)
    assert reproduction.verdict == verdict
    assert reproduction.ours == pytest.approx(100 * sorted(values)[1])
    assert reproduction.difference == pytest.approx(100 * sorted(values)[1] - 47.5)


def test_reproduction_noise_is_the_t_prediction_interval_plus_rounding() -> None:
    values = [0.46, 0.47, 0.49, 0.50, 0.45]
    bound = t.ppf(0.975, 4) * stdev(100 * v for v in values) * math.sqrt(1 + 1 / 5)
    assert cola(values).noise == pytest.approx(bound + 0.05)


def test_reproduction_noise_of_equal_seeds_is_the_rounding_error() -> None:
    assert cola([0.4753, 0.4753]).verdict == "within noise"
    assert cola([0.4757, 0.4757]).verdict == "above"


def test_reproduction_with_a_single_seed_has_no_verdict() -> None:
    reproduction = cola([0.40])
    assert reproduction.difference == pytest.approx(-7.5)
    assert (reproduction.verdict, reproduction.reason) == (
        "not comparable",
        "the noise is unknown with a single seed",
    )


def test_published_score_without_a_metric_name_is_not_comparable() -> None:
    mrpc = found(make_rows(values=[0.88, 0.89], data="hub"))["glue/mrpc", "accuracy or f1"]
    assert (mrpc.ours, mrpc.verdict) == (None, "not comparable")
    assert "whether it is accuracy or f1" in mrpc.reason


def test_published_metric_missing_from_the_run_is_not_comparable() -> None:
    rows = [
        make_row("roberta-base", "squad/v2.0", 0, {"f1": 0.8}, data="hub"),
        make_row("roberta-base", "squad/v1.1", 0, {"f1": 0.8, "em": 0.7}, data="hub"),
    ]
    (board,) = build_boards(rows, SUITES["squad"])
    by_score = {(r.task, *r.theirs.scores): r for r in reproductions(board, board.entries[0])}
    assert by_score["squad/v2.0", "em"].reason == "em was not measured"
    assert by_score["squad/v2.0", "em"].verdict == "not comparable"
    assert by_score["squad/v1.1", "em"].difference == pytest.approx(70 - 84.6)


def test_published_test_scores_are_not_comparable_with_dev_scores() -> None:
    wnli = found(make_rows("bert-large-uncased", [0.56, 0.57], data="hub"))["glue/wnli", "accuracy"]
    assert (wnli.ours, wnli.difference, wnli.verdict) == (None, None, "not comparable")
    other = "the published score is on another split, test"
    assert wnli.reason == other
    assert (wnli.measured, wnli.text) == (pytest.approx(56.5), "56.5")
    small = found(make_rows("bert-tiny", [0.7, 0.8], data="hub"))
    assert {each.reason for each in small.values()} == {other}


def test_published_ensemble_or_best_of_grid_is_not_comparable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (theirs,) = (
        row
        for row in published("glue")
        if (row.table, row.system) == ("minilm_readme", "MiniLM-L6-H384")
    )
    for protocol, verdict in {
        "ensemble": "not comparable",
        "best of grid": "not comparable",
        "mean of 5 ± 0.35": "above",
        "one seed": "above",
    }.items():
        row = replace(theirs, protocol=protocol)
        monkeypatch.setattr(
            "benchharness.leaderboard.boards.reproduction.published", lambda _, row=row: (row,)
        )
        reproduction = cola([0.5, 0.501])
        assert reproduction.verdict == verdict
        assert reproduction.reason.endswith(protocol if verdict == "not comparable" else "")
        assert bool(reproduction.reason) == (verdict == "not comparable")


def test_diagnostic_set_is_not_compared_with_published_scores() -> None:
    row = make_row("roberta-large", "glue/mnli", 1, 0.9, data="hub")
    both = replace(row, scores={**row.scores, "glue/ax": {"mcc": 0.4}})
    assert {task for task, _ in found([both])} == {"glue/mnli"}


def test_reproduction_table_has_one_line_per_comparison() -> None:
    rows = make_rows(values=[0.47, 0.48], data="hub") + make_rows("[b]\u202e/minilm", data="hub")
    console = Console(width=120, file=StringIO(), color_system=None)
    render_reproductions(one_board(rows), console, details=True)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "GLUE, reproduction of published scores"
    assert "minilm CoLA mcc 47.5 47.5 +0.0 ±11.1 within noise" in lines
    assert "whether it is accuracy or f1" in " ".join(lines)
    assert text.count("[b]\\u202e/minilm") == 1
    assert "\u202e" not in text


def test_reproduction_table_shows_only_verdict_counts_without_details() -> None:
    rows = make_rows(values=[0.47, 0.48], data="hub") + make_rows("roberta-base", data="hub")
    console = Console(width=300, file=StringIO(), color_system=None)
    render_reproductions(one_board(rows), console)
    line = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "1 within noise" in line
    assert "not comparable" in line
    assert line.endswith("--details shows them.")


def test_reproduction_table_is_omitted_if_nothing_is_comparable() -> None:
    console = Console(file=StringIO())
    render_reproductions(one_board(make_rows(data="mini")), console)
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["MiniLM-L6-H384-uncased", "nreimers/MiniLM-L6-H384-uncased"])
def test_published_model_is_recognized_by_the_last_part_of_its_hub_name(name: str) -> None:
    assert cola([0.47, 0.48], model=name).row.system == "MiniLM-L6-H384"


def test_reproduction_requires_a_known_model_and_full_official_data() -> None:
    assert found(make_rows("tiny", data="hub")) == {}
    assert found(make_rows(data="mini")) == {}
    assert found(make_rows(data="hub", limit=100)) == {}


def test_reproduction_verdicts_do_not_depend_on_the_order_of_seeds() -> None:
    rows = make_rows(values=[0.4, 0.5, 0.6], data="hub")
    expected = found(rows)
    assert found(rows[::-1]) == expected
    assert replace(expected["glue/rte", "accuracy"], noise=None).verdict == "not comparable"


def test_sweep_result_is_compared_only_with_published_best_of_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = cola([0.5, 0.501]).row
    name = "benchharness.leaderboard.boards.reproduction.published"
    sweep = {"overridden": True, "is_sweep": True}
    for protocol, fields, verdict in (
        ("best of grid", sweep, "within noise"),
        ("best of grid", {}, "not comparable"),
        ("median of 5", sweep, "not comparable"),
        ("median of 5", {}, "within noise"),
    ):
        row = replace(theirs, protocol=protocol)
        monkeypatch.setattr(name, lambda _, row=row: (row,))
        assert cola([0.45, 0.501], **fields).verdict == verdict
    assert cola([0.45, 0.501], **sweep).reason.endswith("the best of 1 settings")


@pytest.mark.parametrize(
    ("features", "theirs"), [("last", 94.9), ("sum-all", 95.5), ("fine-tuned", 96.4)]
)
def test_frozen_feature_runs_are_compared_with_published_feature_scores(
    features: str, theirs: float
) -> None:
    settings = {"features": Setting(value=features, source="--set")}
    told = {} if features == "fine-tuned" else {"settings": settings}
    rows = [
        make_row("bert-base-cased", "conll2003/ner", seed, {"f1": 0.9}, data="hub", **told)
        for seed in range(3)
    ]
    (board,) = build_boards(rows, SUITES["conll2003"])
    (entry,) = board.entries
    assert [each.theirs.value for each in reproductions(board, entry)] == [theirs]
