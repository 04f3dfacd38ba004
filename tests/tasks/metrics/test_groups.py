import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness.errors import BenchError
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.metrics import (
    answer_option_f1,
    gender_parity,
    question_exact_match,
    question_f1,
)

rows_of_questions = st.lists(
    st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=60
)


def build(rows):
    """Make predictions and examples from (group, predicted, gold)."""
    predictions = [PairPrediction(id=str(i), label=str(g)) for i, (_, g, _) in enumerate(rows)]
    examples = [
        PairExample(id=str(i), text_a="x", label=str(gold), group=str(group))
        for i, (group, _, gold) in enumerate(rows)
    ]
    return predictions, examples


def ratio(part: int, whole: int) -> float:
    """Divide as the official script does, where 0/0 is 1."""
    return part / whole if whole else 1.0


def f1_of_means(questions) -> float:
    """Return F1m of CogComp's multirc-eval-v1.py, from the mean precision and the mean recall."""
    rights = [sum(guess and gold for _, guess, gold in rows) for rows in questions]
    guesses = [sum(guess for _, guess, _ in rows) for rows in questions]
    golds = [sum(gold for _, _, gold in rows) for rows in questions]
    precision = sum(map(ratio, rights, guesses)) / len(questions)
    recall = sum(map(ratio, rights, golds)) / len(questions)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def f1_of_counts(rows) -> float:
    right = sum(guess and gold for _, guess, gold in rows)
    wrong = sum(guess != gold for _, guess, gold in rows)
    return 2 * right / (2 * right + wrong) if right else 0.0


@given(rows_of_questions)
def test_multirc_scores_match_their_definitions(rows):
    questions = [[row for row in rows if row[0] == name] for name in {row[0] for row in rows}]
    whole = [all(guess == gold for _, guess, gold in question) for question in questions]
    found = [
        metric.compute(*build(rows))
        for metric in (answer_option_f1("True"), question_exact_match, question_f1("True"))
    ]
    assert found == pytest.approx(
        [
            f1_of_counts(rows),
            sum(whole) / len(questions),
            f1_of_means(questions),
        ]
    )


def test_multirc_scores_of_a_worked_example_are_correct():
    """Check two questions: gold 1 0 1, predicted 1 1 0; gold 0 1, predicted 0 1."""
    rows = [(1, True, True), (1, True, False), (1, False, True), (2, False, False), (2, True, True)]
    assert answer_option_f1("True").compute(*build(rows)) == pytest.approx(4 / 6)
    assert question_exact_match.compute(*build(rows)) == 0.5
    # The precision is 1/2 for one question and 1 for the other. So is the recall.
    assert question_f1("True").compute(*build(rows)) == 0.75


def test_f1m_of_perfect_predictions_is_1_even_without_a_correct_option():
    rows = [(1, True, True), (1, False, False), (2, False, False), (2, False, False)]
    assert question_f1("True").compute(*build(rows)) == 1.0


def test_f1m_is_computed_from_mean_precision_and_mean_recall():
    """Check precisions 1 and 1/3, recalls 1/2 and 1: the means are 2/3 and 3/4."""
    rows = [(1, True, True), (1, False, True)]
    rows += [(2, True, True), (2, True, False), (2, True, False)]
    assert question_f1("True").compute(*build(rows)) == pytest.approx(2 * 2 / 3 * 3 / 4 / (17 / 12))


def test_f1m_is_0_if_the_official_script_divides_by_0():
    rows = [(1, True, False), (1, False, True)]
    assert question_f1("True").compute(*build(rows)) == 0.0


def test_group_metrics_have_the_score_names_of_the_superglue_rule():
    metrics = answer_option_f1("True"), question_exact_match, question_f1("True"), gender_parity
    assert [metric.name for metric in metrics] == ["f1a", "em", "f1m", "parity"]


def test_multirc_options_of_a_question_may_be_in_nonadjacent_rows():
    rows = [(1, True, True), (2, True, True), (1, True, False)]
    assert question_exact_match.compute(*build(rows)) == 0.5


def test_gender_parity_is_the_share_of_pairs_with_equal_predictions():
    rows = [(1, True, True), (1, True, False), (2, True, True), (2, False, True)]
    assert gender_parity.compute(*build(rows)) == 0.5


def test_gender_parity_ignores_gold_labels():
    rows = [(1, False, True), (1, False, True)]
    assert gender_parity.compute(*build(rows)) == 1.0


def test_gender_parity_of_an_incomplete_minimal_pair_is_an_error():
    with pytest.raises(BenchError, match="the minimal pair 1 has 1 rows, expected two"):
        gender_parity.compute(*build([(1, True, True)]))


def test_group_metric_on_an_example_without_a_group_is_an_error():
    examples = [PairExample(id="7", text_a="x", label="True")]
    with pytest.raises(BenchError, match="example 7 has no group"):
        question_exact_match.compute([PairPrediction(id="7", label="True")], examples)
