"""Published tables are compared with their sources; known disagreements are listed."""

from collections import Counter, defaultdict
from decimal import Decimal
from itertools import chain

import pytest

from benchharness.leaderboard.boards.published import (
    PublishedCell,
    PublishedRow,
    published,
)
from benchharness.leaderboard.boards.reproduction import REFERENCES
from benchharness.tasks.suite import complete_mean
from benchharness.tasks.suites import RULES, SUITES, TASKS

ROWS = tuple(chain.from_iterable(published(suite) for suite in SUITES))

COUNTS_AND_SUMS = {
    "albert_paper_glue_dev": (5, 40, "3517.1"),
    "albert_paper_glue_test": (6, 60, "5347.9"),
    "albert_paper_squad_race": (11, 67, "5862.3"),
    "albert_readme_dev": (8, 48, "4207.8"),
    "albert_readme_race": (8, 8, "603.3"),
    "bert_paper_ablation": (3, 15, "1290.3"),
    "bert_paper_glue": (5, 50, "3817.6"),
    "bert_paper_swag": (7, 10, "728.4"),
    "bert_readme_wwm": (4, 12, "1056.37"),
    "blimp_authors": (4, 52, "3747.01383383"),
    "blimp_mlm_scoring": (3, 3, "257.7"),
    "conll2003_bert_paper": (11, 14, "1320.8"),
    "conll2012_coref_readme": (5, 5, "381.1"),
    "conll2012_srl_paper": (6, 10, "862.7"),
    "coqa_leaderboard_2019": (11, 33, "2657.8"),
    "deberta_readme": (9, 80, "7258.4"),
    "deberta_readme_spread": (5, 17, "1535.1"),
    "electra_paper_glue_test": (5, 51, "4461.6"),
    "electra_paper_squad": (12, 54, "4756.1"),
    "electra_paper_squad_dev": (12, 42, "3704.5"),
    "glue_leaderboard_2020": (15, 15, "1342.2"),
    "glue_leaderboard_2021": (17, 204, "18134.6"),
    "glue_leaderboard_2022": (11, 11, "997.8"),
    "hotpotqa_leaderboard_2019": (11, 58, "3273.12"),
    "lexglue_readme": (9, 54, "3754.5"),
    "modernbert_beir": (7, 91, "3379.1"),
    "modernbert_paper": (12, 107, "9332.6"),
    "mt_dnn_readme": (1, 3, "264.7"),
    "neobert_paper": (2, 18, "1600.1"),
    "race_leaderboard_2021": (13, 35, "3105.4"),
    "roberta_paper_glue_dev": (3, 26, "2264.8"),
    "roberta_paper_glue_test": (4, 44, "3901.4"),
    "roberta_paper_input": (7, 33, "2696.7"),
    "roberta_paper_masking": (3, 9, "764.1"),
    # Four rows with 52 printed numbers, and WNLI's score of each row (65.1), which the caption
    # states.
    "spanbert_paper_glue": (4, 52 + 4, str(Decimal("4377.3") + 4 * Decimal("65.1"))),
    "squad2_leaderboard_2020": (8, 18, "1603.666"),
    "squad2_leaderboard_2021": (6, 12, "1095.812"),
    "squad2_leaderboard_2022": (8, 18, "1646.248"),
    "superglue_leaderboard_2021": (17, 255, "20376.3"),
    "superglue_leaderboard_2021_08": (13, 191, "16245.8"),
    "superglue_leaderboard_2022": (6, 90, "8043.2"),
    "xlnet_paper_glue_dev": (3, 26, "2278.0"),
    "xlnet_paper_glue_test": (3, 30, "2686.9"),
}
"""Systems, numbers and their sum, taken by adding up the printed lines without reading columns."""

NOT_ENOUGH_CELLS = {
    **dict.fromkeys(("albert_paper_glue_test", "roberta_paper_glue_test"), "one metric a task"),
    **dict.fromkeys(("electra_paper_glue_test", "gpt_paper"), "one metric a task"),
    "glue_leaderboard_2020": "scores only",
    "glue_leaderboard_2021": "cut after QNLI",
    "glue_leaderboard_2022": "scores only",
    "electra_readme_test": "scores only",
    "superglue_lm_eval": "scores only",
    "ettin_card": "averages only",
    "superglue_test_deberta_paper": "T5-11B and BERT++ have scores only",
}
"""Tables with printed averages whose cells do not give them, with the reason."""

AVERAGE_DISAGREES = {
    ("modernbert_paper", "DeBERTa-v3-base"): (88.1, 88.26),
    ("modernbert_paper", "NomicBERT"): (84.0, 84.12),
}
"""Rows whose printed average differs from that of their cells: printed, computed."""

RACE_MIDDLE, RACE_HIGH = 1436, 3498
"""Number of test questions per level; the printed overall accuracy pools both."""

POOLING_DISAGREES = {
    ("albert_paper_squad_race", "RoBERTa"): (83.2, 82.81),
    ("roberta_readme_squad_race", "RoBERTa-large"): (83.2, 82.81),
    ("deberta_readme_race", "DeBERTa-large"): (86.3, 86.11),
    ("race_leaderboard_2021", "Amazon Mechanical Turker"): (73.3, 73.97),
}
"""Rows whose printed accuracy differs from that of their levels: printed, pooled."""


def is_average(cell: PublishedCell) -> bool:
    """Return whether a cell is the average of a suite and not the score of a task."""
    return "/" not in cell.task


def averages() -> list[tuple[PublishedRow, PublishedCell]]:
    return [(row, cell) for row in ROWS for cell in row.cells if is_average(cell)]


def one(table: str, system: str, task: str, score: str, split: str = "test") -> str:
    """Return the printed number of a table, system, task, score and split."""
    (found,) = (
        cell.printed
        for row in ROWS
        if (row.table, row.system, row.split) == (table, system, split)
        for cell in row.of(task)
        if cell.scores == (score,) and row.protocol != "ensemble"
    )
    return found


@pytest.mark.parametrize("table", COUNTS_AND_SUMS)
def test_each_published_table_has_the_number_of_scores_and_the_total_of_its_source(
    table: str,
) -> None:
    rows = [row for row in ROWS if row.table == table]
    numbers = [Decimal(cell.printed) for row in rows for cell in row.cells]
    found = (len({row.system for row in rows}), len(numbers), str(sum(numbers)))
    assert found == COUNTS_AND_SUMS[table]


def test_published_scores_have_no_duplicates() -> None:
    places = Counter(
        (row.table, row.system, row.split, row.protocol, row.date, cell.task, cell.scores)
        for row in ROWS
        for cell in row.cells
    )
    assert [place for place, count in places.items() if count > 1] == []
    assert len(places) == 2586


@pytest.mark.parametrize("suite", SUITES)
def test_every_published_score_is_a_metric_of_its_task(suite: str) -> None:
    for row in published(suite):
        for cell in row.cells:
            if is_average(cell):
                assert cell.task == suite
                assert set(cell.scores) <= {*RULES, *PLAIN_MEANS}
                continue
            task = TASKS[cell.task]
            names = {metric.name for metric in task.metrics + task.details}
            # The names of scores on a second dev or test split end with the suffix of the split.
            endings = {split.partition("_")[2] for split in task.source.splits} - {""}
            names |= {f"{name}_{ending}" for name in names for ending in endings}
            assert task.suite == suite
            assert set(cell.scores) <= names, (row.table, row.system, cell)


def test_every_published_score_is_a_percentage_with_a_source() -> None:
    for row in ROWS:
        assert row.split in {"dev", "test"}
        assert row.system
        assert row.protocol
        assert row.source
        assert row.place
        # A Matthews correlation may be negative: a few-shot system has -0.4 on AX-b.
        assert all(-1 <= cell.value <= 100 for cell in row.cells)


@pytest.mark.parametrize("suite", ["glue", "superglue", "squad", "race"])
def test_human_scores_come_first_in_published_tables(suite: str) -> None:
    human = [row.is_human for row in published(suite)]
    assert human[0]
    assert human == sorted(human, reverse=True)


TEST_9 = (
    *(("glue/mnli", "accuracy"), ("glue/mnli", "accuracy_mm"), ("glue/qqp", "f1")),
    *(("glue/qnli", "accuracy"), ("glue/sst2", "accuracy"), ("glue/cola", "mcc")),
    *(("glue/stsb", "spearman"), ("glue/mrpc", "f1"), ("glue/rte", "accuracy")),
)
WITHOUT_QNLI = (
    *(("glue/cola", "mcc"), ("glue/sst2", "accuracy"), ("glue/mrpc", "accuracy")),
    *(("glue/stsb", "spearman"), ("glue/qqp", "accuracy"), ("glue/mnli", "accuracy")),
    *(("glue/rte", "accuracy"), ("glue/wnli", "accuracy")),
)
F1_DEV = (
    *(("glue/cola", "mcc"), ("glue/sst2", "accuracy"), ("glue/mrpc", "f1")),
    *(("glue/stsb", "spearman"), ("glue/qqp", "f1"), ("glue/mnli", "accuracy")),
    *(("glue/qnli", "accuracy"), ("glue/rte", "accuracy")),
)

PLAIN_MEANS = {
    "GLUE-test-9-cells": TEST_9,
    "GLUE-test-8-without-QNLI": WITHOUT_QNLI,
    "GLUE-dev-8-f1": F1_DEV,
}
"""Cells whose mean a paper prints, keyed by the name of the mean, which no ScoreRule computes.

The first is the "Average" of Devlin et al. 2019, table 1, and of TinyBERT: without WNLI, and with
MNLI counted twice. The second is the "Avg.*" of Clark et al. 2020, which leaves out QNLI because
some systems had treated it as ranking. The third is mGTE's (izhx/nlu-evals, gather_glue.py)."""


def reproduced(row: PublishedRow, name: str) -> float | None:
    """Return the named average of the row's cells, or None if the row lacks one of them.

    A number whose source does not name its score stands for each that it may be.
    """
    scores: dict[str, dict[str, float]] = {}
    for cell in row.cells:
        if not is_average(cell):
            scores.setdefault(cell.task, {}).update(dict.fromkeys(cell.scores, cell.value))
    if name in PLAIN_MEANS:
        return complete_mean([scores.get(task, {}).get(cell) for task, cell in PLAIN_MEANS[name]])
    return RULES[name].score(scores)


def test_published_averages_equal_the_mean_of_their_task_scores_except_in_known_rows() -> None:
    """Compare to within the rounding of the cells (0.05) and of the average itself."""
    checked = 0
    off = {}
    for row, cell in averages():
        (rule,) = cell.scores
        value = reproduced(row, rule)
        if value is None:
            assert row.table in NOT_ENOUGH_CELLS, (row.table, row.system)
            continue
        checked += 1
        if abs(value - cell.value) > 0.05 + cell.half_unit + 1e-9:
            off[row.table, row.system] = (cell.value, round(value, 2))
    assert off == AVERAGE_DISAGREES
    # In this order: SuperGLUE's leaderboards and DeBERTa's table; the rows of the GLUE server;
    # BERT, ELECTRA and DistilBERT; SpanBERT and TinyBERT; ModernBERT and NeoBERT.
    assert checked == (35 + 2) + 6 + 3 * 5 + 4 + 2 + 11 + 2


def test_published_tables_listed_as_incomplete_have_missing_cells() -> None:
    lacking = {row.table for row, cell in averages() if reproduced(row, *cell.scores) is None}
    assert lacking == NOT_ENOUGH_CELLS.keys()


def test_published_race_score_is_the_weighted_mean_of_both_levels_except_in_known_rows() -> None:
    off = {}
    for row in published("race"):
        values = {cell.scores[0]: cell for cell in row.of("race/all")}
        if len(values) < 3:
            continue
        middle, high = values["accuracy_middle"].value, values["accuracy_high"].value
        pooled = (RACE_MIDDLE * middle + RACE_HIGH * high) / (RACE_MIDDLE + RACE_HIGH)
        printed = values["accuracy"]
        if abs(pooled - printed.value) > 0.05 + printed.half_unit:
            off[row.table, row.system] = (printed.value, round(pooled, 2))
    assert off == POOLING_DISAGREES


def test_albert_paper_has_xlnet_scores_in_the_bert_row() -> None:
    """Check SQuAD 2.0 test scores of BERT-large.

    Its own table has 80.0 EM, the board 80.005 and 83.061.
    """
    for score, slip, board in (("em", "86.3", "80.005"), ("f1", "89.1", "83.061")):
        assert one("albert_paper_squad_race", "BERT-large", "squad/v2.0", score) == slip
        assert one("albert_paper_squad_race", "XLNet", "squad/v2.0", score) == slip
        assert one("xlnet_paper_squad_test", "BERT-large", "squad/v2.0", score) == board


@pytest.mark.parametrize(
    ("tables", "place", "printed", "are_alike"),
    [
        (
            ("electra_paper_squad", "electra_paper_squad_dev"),
            ("ELECTRA-1.75M", "squad/v2.0", "em"),
            ("88.0", "88.1"),
            True,
        ),
        (
            ("deberta_cards", "deberta_readme"),
            ("DeBERTa-v3-small", "squad/v2.0", "f1"),
            ("82.8", "82.9"),
            False,
        ),
    ],
)
def test_two_editions_of_a_published_table_differ_in_one_score_only(
    tables: tuple[str, str], place: tuple[str, str, str], printed: tuple[str, str], are_alike: bool
) -> None:
    editions: defaultdict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for row in ROWS:
        if row.table in tables and row.split == "dev":
            for cell in row.cells:
                editions[row.system, cell.task, cell.scores[0]][row.table] = cell.printed
    differ = {place: found for place, found in editions.items() if len(set(found.values())) > 1}
    assert differ == {place: dict(zip(tables, printed, strict=True))}
    assert not are_alike or all(len(found) == 2 for found in editions.values())


def test_electra_paper_lists_spanbert_test_scores_as_dev_scores() -> None:
    """Check the numbers against those that SpanBERT's README has for the test servers."""
    for task in ("squad/v1.1", "squad/v2.0"):
        printed = one("electra_paper_squad", "SpanBERT", task, "f1", split="dev")
        assert printed == one("spanbert_readme", "SpanBERT-large", task, "f1")
    assert "spanbert-large-cased" not in REFERENCES


def test_deberta_superglue_row_is_the_single_model() -> None:
    """Check the 89.9 that the README calls the single-model submission; the ensemble has 90.3."""
    (row,) = (row for row in published("superglue") if row.system == "DeBERTa 1.5B + SiFT")
    assert row.protocol == "single"
    assert [cell.printed for cell in row.of("superglue")] == ["89.9"]


def test_modernbert_paper_scores_are_marked_as_best_of_grid() -> None:
    """Check the protocols of Appendix E.1.

    Numbers of other models in the table are quoted from their papers.
    """
    found = {row.system: row.protocol for row in ROWS if row.table == "modernbert_paper"}
    assert found.pop("ModernBERT-base") == found.pop("ModernBERT-large") == "best of grid"
    # mGTE's script trains all encoders with the same recipe and one seed.
    assert found.pop("GTE-en-MLM-base") == found.pop("GTE-en-MLM-large") == "one seed"
    assert set(found.values()) == {"unsaid"}


@pytest.mark.parametrize(
    ("size", "mrpc", "qqp"), [("base", "92.1", "88.8"), ("large", "93.5", "89.2")]
)
def test_gte_scores_on_mrpc_and_qqp_are_f1(size: str, mrpc: str, qqp: str) -> None:
    assert one("modernbert_paper", f"GTE-en-MLM-{size}", "glue/mrpc", "f1", split="dev") == mrpc
    assert one("modernbert_paper", f"GTE-en-MLM-{size}", "glue/qqp", "f1", split="dev") == qqp


def test_glue_scores_of_alice_at_two_dates_are_both_listed() -> None:
    """Check both numbers: papers copied the GLUE board at different times."""
    found = {
        (row.date, cell.printed)
        for row in published("glue")
        if row.system == "ALICE"
        for cell in row.of("glue")
    }
    assert found == {("2019-07-25", "86.3"), ("2019-09-16", "87.0")}


def test_published_score_without_a_metric_lists_each_possible_metric() -> None:
    (row,) = (row for row in published("glue") if row.system == "MiniLM-L6-H384")
    (mrpc,) = row.of("glue/mrpc")
    assert (mrpc.scores, mrpc.value) == (("accuracy", "f1"), 88.9)


def test_rounding_error_of_a_published_score_follows_from_its_digits() -> None:
    cells = {
        text: PublishedCell(task="glue/rte", scores=("accuracy",), printed=text).half_unit
        for text in ("50", "50.1", "50.123")
    }
    assert cells == pytest.approx({"50": 0.5, "50.1": 0.05, "50.123": 0.0005})
