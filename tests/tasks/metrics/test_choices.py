from random import Random

import pytest

from benchharness.errors import BenchError
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction
from benchharness.tasks.metrics import (
    choice_accuracy,
    of_group,
    option_exact_match,
    option_f1,
)
from tests.helpers.squad_oracle import evaluate_v1

ENTITIES = ("Paris", "the Paris", "City of Paris", "U.S.", "US", "United States", "A.", "Obama")


def build(rows):
    """Make predictions and examples from (chosen, gold, options, group)."""
    predictions = [ChoicePrediction(id=str(i), option=row[0]) for i, row in enumerate(rows)]
    examples = [
        ChoiceExample(id=str(i), context="", question="", options=options, gold=gold, group=group)
        for i, (_, gold, options, group) in enumerate(rows)
    ]
    return predictions, examples


def choices(pairs, group=None):
    return [(chosen, (gold,), ("w", "x", "y", "z"), group) for chosen, gold in pairs]


def test_choice_accuracy_is_the_share_of_right_options():
    assert choice_accuracy.compute(*build(choices([(0, 0), (1, 2), (3, 3), (2, 2)]))) == 0.75


def test_choice_accuracy_accepts_any_of_several_gold_options():
    rows = [(1, (0, 1), ("x", "y", "z"), None), (2, (0, 1), ("x", "y", "z"), None)]
    assert choice_accuracy.compute(*build(rows)) == 0.5


def test_race_has_a_pooled_accuracy_and_one_accuracy_per_level():
    """Check that BERT-large's 76.6 on 1436 and 70.1 on 3498 questions pool to 72.0."""
    middle = choices([(0, 0)] * 1100 + [(0, 1)] * 336, "middle")
    high = choices([(0, 0)] * 2452 + [(0, 1)] * 1046, "high")
    built = build(middle + high)
    levels = [of_group(choice_accuracy, level) for level in ("middle", "high")]
    assert [level.name for level in levels] == ["accuracy_middle", "accuracy_high"]
    assert [round(100 * level.compute(*built), 1) for level in levels] == [76.6, 70.1]
    assert round(100 * choice_accuracy.compute(*built), 1) == 72.0


def test_accuracy_of_a_group_without_examples_is_none():
    assert of_group(choice_accuracy, "middle").compute(*build(choices([(0, 0)], "high"))) is None


def test_record_scores_match_squad_v1():
    """Compare with the oracle of evaluate-v1.1.py, from which ReCoRD's script was made."""
    for seed in range(1000):
        random = Random(seed)
        rows, data, answers = [], [], {}
        for index in range(random.randint(1, 10)):
            options = tuple(random.sample(ENTITIES, random.randint(2, 6)))
            gold = tuple(random.sample(range(len(options)), random.randint(1, 2)))
            chosen = random.randrange(len(options))
            rows.append((chosen, gold, options, None))
            data.append({"id": f"{index}", "answers": [options[i] for i in gold]})
            answers[f"{index}"] = options[chosen]
        found = {
            "exact_match": 100 * option_exact_match.compute(*build(rows)),
            "f1": 100 * option_f1.compute(*build(rows)),
        }
        assert found == pytest.approx(evaluate_v1(data, answers), abs=1e-9), seed


def test_record_scores_of_a_worked_example_are_correct():
    options = ("City of Paris", "Paris", "London")
    # One of three predicted words is right: precision 1/3, recall 1.
    rows = [(0, (1, 2), options, None)]
    assert option_exact_match.compute(*build(rows)) == 0.0
    assert option_f1.compute(*build(rows)) == pytest.approx(0.5)


def test_exact_match_accepts_another_spelling_of_the_gold_entity():
    assert option_exact_match.compute(*build([(0, (1,), ("U.S.", "US"), None)])) == 1.0


def test_option_that_is_only_an_article_has_exact_match_1_and_f1_0():
    """Score as the official script does: "a" is an article, so no token of it is left."""
    rows = [(0, (0,), ("a", "b"), None)]
    assert option_exact_match.compute(*build(rows)) == 1.0
    assert option_f1.compute(*build(rows)) == 0.0


def test_scoring_without_a_gold_option_is_an_error():
    with pytest.raises(BenchError, match="right option of example 0 is hidden"):
        choice_accuracy.compute(*build([(0, None, ("x", "y"), None)]))
