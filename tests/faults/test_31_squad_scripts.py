"""Tests of fault 31: SQuAD scores equal those of the official scripts on 1,000 random sets."""

from random import Random

from tests.helpers.scripts import official_v1, official_v2
from tests.helpers.squad_oracle import evaluate_v1, evaluate_v2, examples_of, random_set


def test_31_squad_v1_scores_equal_the_official_script_on_1000_random_sets():
    for seed in range(1000):
        random = Random(seed)
        data, answers, no_answer = random_set(random, every_has_answer=True)
        if seed % 2:  # in every second set, some answers are missing
            answers = {name: text for name, text in answers.items() if random.random() < 0.8}
        found = official_v1(*examples_of(data, answers, no_answer))
        assert found == evaluate_v1(data, answers), seed


def test_31_squad_v2_scores_equal_the_official_script_on_1000_random_sets():
    for seed in range(1000):
        random = Random(seed)
        data, answers, no_answer = random_set(random, every_has_answer=False)
        threshold = random.choice([-1.0, 0.0, 0.4, 1.0])
        built = examples_of(data, answers, no_answer, threshold)
        found = official_v2(*built, sweep_order=list(no_answer))
        assert found == evaluate_v2(data, answers, no_answer, threshold), seed
