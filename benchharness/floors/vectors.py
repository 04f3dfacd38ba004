"""Texts as sparse rows of TF-IDF weights."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["fit_vectors"]

TOKEN = r"\w+|[^\w\s]"  # noqa: S105  (a pattern, no password)
"""Words and single marks, so that only a blank text has none."""


def fit_vectors(texts: Sequence[str], values: Mapping[str, Any]) -> Any:
    """A vectorizer that knows the words of these texts and pairs of them, as `values` say.

    What it makes of a text has the length 1, so that products of two are cosines.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        token_pattern=TOKEN,
        ngram_range=(1, values["ngrams"]),
        max_features=values["max_features"],
        sublinear_tf=True,
    ).fit(texts)
