"""One text or two to a class or a number, by a linear model over their words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchharness.floors.floor import Predictor
from benchharness.floors.vectors import fit_vectors
from tasks.examples import PairExample, PairPrediction
from tasks.task import PairTask

__all__ = ["learn_labels", "learn_numbers"]


def learn_labels(
    task: PairTask, examples: Sequence[PairExample], values: Mapping[str, Any]
) -> Predictor:
    """Logistic regression; a label that no training example has gets the probability 0."""
    from sklearn.linear_model import LogisticRegression

    vectors = fit_vectors(_texts(examples), values)
    # 1,000 steps are more than it ever took; scikit-learn's 100 are too few for QNLI.
    model = LogisticRegression(C=values["regularization"], max_iter=1000)
    model.fit(_rows(vectors, examples), [example.label for example in examples])
    places = [task.labels.index(label) for label in model.classes_]

    def predict(asked: Sequence[PairExample]) -> tuple[PairPrediction, ...]:
        scores = np.zeros((len(asked), len(task.labels)))
        scores[:, places] = model.predict_proba(_rows(vectors, asked))
        winners = scores.argmax(axis=1)
        return tuple(
            PairPrediction(id=example.id, label=task.labels[winner], scores=tuple(row))
            for example, winner, row in zip(asked, winners, scores.tolist(), strict=True)
        )

    return predict


def learn_numbers(examples: Sequence[PairExample], values: Mapping[str, Any]) -> Predictor:
    """Ridge regression."""
    from sklearn.linear_model import Ridge

    vectors = fit_vectors(_texts(examples), values)
    model = Ridge(alpha=values["regularization"])
    model.fit(_rows(vectors, examples), [example.label for example in examples])

    def predict(asked: Sequence[PairExample]) -> tuple[PairPrediction, ...]:
        found = model.predict(_rows(vectors, asked)).tolist()
        return tuple(
            PairPrediction(id=example.id, label=number)
            for example, number in zip(asked, found, strict=True)
        )

    return predict


def _texts(examples: Sequence[PairExample]) -> list[str]:
    return [t for e in examples for t in (e.text_a, e.text_b) if t is not None]


def _rows(vectors: Any, examples: Sequence[PairExample]) -> Any:
    """One text's vector; of two texts both, how they differ and what they share.

    These four are what the CBoW baseline of GLUE's paper gives its classifier.
    """
    from scipy.sparse import hstack

    one = vectors.transform([example.text_a for example in examples])
    if examples[0].text_b is None:
        return one
    other = vectors.transform([example.text_b or "" for example in examples])
    return hstack([one, other, abs(one - other), one.multiply(other)], format="csr")
