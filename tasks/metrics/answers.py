"""Texts as answers: SQuAD's normalisation, exact match and token F1, which ReCoRD shares.

The rules are those of SQuAD's evaluate-v1.1.py and evaluate-v2.0.py.
"""

import re
import string
from collections import Counter
from functools import lru_cache

__all__ = ["answer_f1", "exact_match", "normalise", "token_f1"]

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=2**17)  # every metric of a SQuAD run normalises the same 50,000 texts
def normalise(text: str) -> str:
    """The text in lower case without ASCII punctuation, articles and spare white space."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def exact_match(guess: str, gold: str) -> int:
    """1 where both texts are the same once normalised, else 0."""
    return int(normalise(guess) == normalise(gold))


def token_f1(guess: str, gold: str) -> float:
    """F1 of the words that both texts share, counted with repetition; 0 where they share none.

    This is SQuAD 1.1's and ReCoRD's: two texts without any word ("the", "") get 0.
    """
    guess_words, gold_words = normalise(guess).split(), normalise(gold).split()
    shared = (Counter(guess_words) & Counter(gold_words)).total()
    if shared == 0:
        return 0
    precision, recall = shared / len(guess_words), shared / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def answer_f1(guess: str, gold: str) -> float:
    """SQuAD 2.0's F1: where either text has no word it is 1 if the other has none too, else 0."""
    if normalise(guess) and normalise(gold):
        return token_f1(guess, gold)
    return exact_match(guess, gold)
