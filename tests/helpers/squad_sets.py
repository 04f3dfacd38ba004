"""Random questions, answers and no-answer scores in the terms of SQuAD's scripts."""

from random import Random

from benchharness.tasks.examples import SpanExample, SpanPrediction

WORDS = (
    *("the", "The", "a", "an", "An", "A", "Paris", "paris", "PARIS.", "1,000", "1000", "U.S."),
    *("us", "theory", "-", "...", "«là»", "naïve", "l'an", "the-", "a_b", "İstanbul", "ß", "東京"),
)


def random_text(random: Random, most: int = 4) -> str:
    return random.choice([" ", "  ", "\t"]).join(random.choices(WORDS, k=random.randint(0, most)))


def random_set(random: Random, *, every_has_answer: bool):
    """Questions in the official terms, answers to them, and no-answer scores in another order."""
    data = [
        {
            "id": f"q{index}",
            "answers": [random_text(random) for _ in range(random.randint(1, 3))]
            if every_has_answer or random.random() < 0.5
            else [],
        }
        for index in range(random.randint(1, 25))
    ]
    answers = {q["id"]: _answer(random, q["answers"]) for q in data}
    draw = random.choice([random.random, lambda: random.choice([-1.0, 0.0, 0.5, 2.0])])
    names = random.sample(list(answers), len(answers))
    return data, answers, {name: draw() for name in names}


def _answer(random: Random, golds: list[str]) -> str:
    if golds and random.random() < 0.5:
        return random.choice(golds).upper()
    return random_text(random)


def examples_of(data, answers, no_answer, threshold=0.0):
    """What is in `answers` is predicted, in the order of the questions; the rest is missing."""
    predictions = [
        SpanPrediction(
            id=q["id"],
            text=answers.get(q["id"], ""),
            no_answer_score=no_answer[q["id"]],
            threshold=threshold,
            missing=q["id"] not in answers,
        )
        for q in data
    ]
    examples = [
        SpanExample(
            id=q["id"], question="?", context="", answers=tuple((a, 0) for a in q["answers"])
        )
        for q in data
    ]
    return predictions, examples
