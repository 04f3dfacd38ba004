"""Independent reimplementation of XTREME's scorers: MLQA, and the average of evaluate.py.

It shares no code with the metrics. seqeval itself scores tags, and squad_oracle scores SQuAD's
answers.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.helpers.squad_oracle import added

ARTICLES = {
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "de": "ein eine einen einem eines einer der die das den dem des",
    "vi": "của là cái chiếc những",
}


def mlqa_words(text: str, language: str) -> list[str]:
    kept = ""
    for character in text.lower():
        is_mark = unicodedata.category(character)[0] == "P" or character in string.punctuation
        kept += "" if is_mark else character
    if language in ARTICLES:
        chosen = "|".join(ARTICLES[language].split())
        kept = re.sub(rf"\b({chosen})\b", " ", kept)
    if language == "ar":
        kept = re.sub("\\sال^|ال", " ", kept)
    if language != "zh":
        return kept.split()
    found, pending = [], ""
    for character in kept:
        if "\u4e00" <= character <= "\u9fa5":
            found += [*pending.split(), character]
            pending = ""
        else:
            pending += character
    return found + pending.split()


def evaluate_mlqa(
    golds: Mapping[str, Sequence[str]], answers: Mapping[str, str], language: str
) -> dict[str, float]:
    """Return the scores in percent; a question without an answer gets 0."""
    exact, points = [], []
    for name, texts in golds.items():
        if name not in answers:
            continue
        guess = mlqa_words(answers[name], language)
        exact.append(float(any(guess == mlqa_words(text, language) for text in texts)))
        points.append(max(_f1(guess, mlqa_words(text, language)) for text in texts))
    count = len(golds)
    return {"exact_match": 100.0 * sum(exact) / count, "f1": 100.0 * added(points) / count}


def _f1(guess: list[str], gold: list[str]) -> float:
    shared = sum((Counter(guess) & Counter(gold)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(guess), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def average(scores: Mapping[str, Mapping[str, Sequence[float]]]) -> float:
    """Average the metrics of each task, with one number per language, as evaluate.py does."""
    tasks = []
    for metrics in scores.values():
        means = [sum(values) / len(values) for values in metrics.values()]
        both = {"em", "f1"} <= metrics.keys()
        tasks.append((means[0] + means[1]) / 2 if both else means[0])
    return sum(tasks) / len(tasks)
