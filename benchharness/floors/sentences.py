"""The sentence of a context that is most like the question."""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from benchharness.floors.floor import Predictor
from benchharness.floors.vectors import fit_vectors
from tasks.examples import SpanExample, SpanPrediction

__all__ = ["learn_sentences", "split_sentences"]


def split_sentences(text: str) -> list[str]:
    """The text cut after full stops, question and exclamation marks; the whole where none is."""
    parts = re.split(r"(?<=[.!?])\s+", text.strip())
    return [part for part in parts if part] or [text]


def learn_sentences(examples: Sequence[SpanExample], values: Mapping[str, Any]) -> Predictor:
    """The sentence with the largest cosine to the question, the first of several.

    What is learned is how rare each word is. The less alike the two are, the higher is the score of
    "no answer"; yet every question gets one, because only dev could say where the threshold lies.
    """
    contexts = dict.fromkeys(example.context for example in examples)
    vectors = fit_vectors([*contexts, *(example.question for example in examples)], values)

    def predict(asked: Sequence[SpanExample]) -> tuple[SpanPrediction, ...]:
        cut = {example.context: split_sentences(example.context) for example in asked}
        rows = vectors.transform([sentence for parts in cut.values() for sentence in parts])
        ends = accumulate((len(parts) for parts in cut.values()), initial=0)
        places = dict(zip(cut, pairwise(ends), strict=True))
        questions = vectors.transform([example.question for example in asked])
        predictions = []
        for number, example in enumerate(asked):
            start, end = places[example.context]
            cosines = (rows[start:end] @ questions[number].T).toarray()[:, 0]
            best = int(cosines.argmax())
            predictions.append(
                SpanPrediction(
                    id=example.id,
                    text=cut[example.context][best],
                    no_answer_score=-float(cosines[best]),
                )
            )
        return tuple(predictions)

    return predict
