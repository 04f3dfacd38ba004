"""Independent reimplementation of SQuAD's two scripts.

It works on the scripts' own inputs (plain dictionaries in the official layouts), shares no code
with the metrics, and adds in the scripts' order, so that its numbers are equal to the last digit.
"""

import string
from collections.abc import Iterable
from itertools import accumulate
from random import Random
from typing import Any

from benchharness.tasks.examples import SpanExample, SpanPrediction

ARTICLES = ("a", "an", "the")


def added(values: Iterable[float]) -> float:
    """Return the sum in order, as Python's sum() did when the scripts were written."""
    result = 0.0
    for value in values:
        result += value
    return result


def words(text: str) -> list[str]:
    """Return the words of a normalised answer."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return _without_articles(kept).split()


def _without_articles(text: str) -> str:
    """Remove articles that no letter, digit or underscore touches."""
    result, index = "", 0
    while index < len(text):
        end = index
        while end < len(text) and _is_word(text[end]):
            end += 1
        if end == index:
            result, index = result + text[index], index + 1
            continue
        word = text[index:end]
        result, index = result + (" " if word in ARTICLES else word), end
    return result


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def f1(guess: str, gold: str, both_empty: float) -> float:
    guess_words, gold_words = words(guess), words(gold)
    if not guess_words and not gold_words:
        return both_empty
    left, shared = list(gold_words), 0
    for word in guess_words:
        if word in left:
            left.remove(word)
            shared += 1
    if not shared:
        return 0.0
    precision, recall = 1.0 * shared / len(guess_words), 1.0 * shared / len(gold_words)
    return (2 * precision * recall) / (precision + recall)


def evaluate_v1(data: list[dict[str, Any]], answers: dict[str, str]) -> dict[str, float]:
    exact = points = 0.0
    for question in data:
        # The official script prints that the question "will receive score 0".
        if question["id"] not in answers:
            continue
        guess, golds = answers[question["id"]], question["answers"]
        exact += any(words(guess) == words(gold) for gold in golds)
        points += max(f1(guess, gold, 0.0) for gold in golds)
    return {"exact_match": 100.0 * exact / len(data), "f1": 100.0 * points / len(data)}


def evaluate_v2(
    data: list[dict[str, Any]],
    answers: dict[str, str],
    no_answer: dict[str, float] | None,
    threshold: float,
) -> dict[str, float]:
    raw: dict[str, dict[str, float]] = {"exact": {}, "f1": {}}
    for question in data:
        name, guess = question["id"], answers[question["id"]]
        golds = [gold for gold in question["answers"] if words(gold)] or [""]
        raw["exact"][name] = max(float(words(guess) == words(gold)) for gold in golds)
        raw["f1"][name] = max(f1(guess, gold, 1.0) for gold in golds)
    has_answer = {question["id"]: len(question["answers"]) > 0 for question in data}
    result = _averages(raw, has_answer, no_answer or dict.fromkeys(answers, 0.0), threshold)
    if no_answer is not None:
        for kind, scores in raw.items():
            best, found = sweep(answers, scores, no_answer, has_answer)
            result[f"best_{kind}"], result[f"best_{kind}_thresh"] = best, found
    return result


def _averages(
    raw: dict[str, dict[str, float]],
    has_answer: dict[str, bool],
    no_answer: dict[str, float],
    threshold: float,
) -> dict[str, float]:
    slices = {
        "": list(has_answer),
        "HasAns_": [name for name in has_answer if has_answer[name]],
        "NoAns_": [name for name in has_answer if not has_answer[name]],
    }
    result: dict[str, float] = {}
    for prefix, names in slices.items():
        if not names:
            continue
        for kind, scores in raw.items():
            final = [
                (0.0 if has_answer[name] else 1.0) if no_answer[name] > threshold else scores[name]
                for name in names
            ]
            result[prefix + kind] = 100.0 * added(final) / len(names)
        result[prefix + "total"] = len(names)
    return result


def sweep(
    answers: dict[str, str],
    scores: dict[str, float],
    no_answer: dict[str, float],
    has_answer: dict[str, bool],
) -> tuple[float, float]:
    """Try every threshold of the questions sorted by score; the first of the best ones wins."""
    order = sorted(no_answer, key=lambda name: no_answer[name])
    changes = [scores[name] if has_answer[name] else -float(answers[name] != "") for name in order]
    unanswerable = float(sum(not known for known in has_answer.values()))
    totals = list(accumulate(changes, initial=unanswerable))
    cut = totals.index(max(totals))
    return 100.0 * totals[cut] / len(scores), 0.0 if cut == 0 else no_answer[order[cut - 1]]


WORDS = (
    *("the", "The", "a", "an", "An", "A", "Paris", "paris", "PARIS.", "1,000", "1000", "U.S."),
    *("us", "theory", "-", "...", "«là»", "naïve", "l'an", "the-", "a_b", "İstanbul", "ß", "東京"),
)


def random_text(random: Random, most: int = 4) -> str:
    return random.choice([" ", "  ", "\t"]).join(random.choices(WORDS, k=random.randint(0, most)))


def random_set(random: Random, *, every_has_answer: bool):
    """Return official questions, answers to them, and no-answer scores in another order."""
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
    """Return the predictions and examples in order; questions not in `answers` are missing."""
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
