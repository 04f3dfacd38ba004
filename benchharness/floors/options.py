"""The right one of several options, by their own words and those they share with the context."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from benchharness.floors.floor import Predictor
from benchharness.floors.vectors import fit_vectors
from tasks.examples import ChoiceExample, ChoicePrediction

__all__ = ["learn_options"]


def learn_options(examples: Sequence[ChoiceExample], values: Mapping[str, Any]) -> Predictor:
    """Logistic regression over options that are right or wrong; the likeliest one is chosen."""
    from sklearn.linear_model import LogisticRegression

    texts = [text for e in examples for text in (_question(e), *e.options)]
    vectors = fit_vectors(texts, values)
    model = LogisticRegression(C=values["regularization"], max_iter=1000)
    right = [place in (example.gold or ()) for example, place in _options(examples)]
    model.fit(_rows(vectors, examples), right)

    def predict(asked: Sequence[ChoiceExample]) -> tuple[ChoicePrediction, ...]:
        logits = model.decision_function(_rows(vectors, asked))
        ends = accumulate((len(example.options) for example in asked), initial=0)
        return tuple(
            _choice(example, logits[start:end])
            for example, (start, end) in zip(asked, pairwise(ends), strict=True)
        )

    return predict


def _question(example: ChoiceExample) -> str:
    return f"{example.context} {example.question}"


def _options(examples: Sequence[ChoiceExample]) -> list[tuple[ChoiceExample, int]]:
    return [(example, place) for example in examples for place in range(len(example.options))]


def _rows(vectors: Any, examples: Sequence[ChoiceExample]) -> Any:
    """A row for each option: its vector, and what it shares with context and question."""
    from scipy.sparse import hstack

    options = vectors.transform([e.options[place] for e, place in _options(examples)])
    questions = vectors.transform([_question(example) for example in examples])
    repeated = questions[np.repeat(np.arange(len(examples)), [len(e.options) for e in examples])]
    return hstack([options, repeated.multiply(options)], format="csr")


def _choice(example: ChoiceExample, logits: Any) -> ChoicePrediction:
    weights = np.exp(logits - logits.max())
    scores = tuple((weights / weights.sum()).tolist())
    return ChoicePrediction(id=example.id, option=int(logits.argmax()), scores=scores)
