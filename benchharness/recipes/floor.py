"""The values that the floors are learned with; `--recipe` and `--set` do not change them."""

from collections.abc import Mapping

from leaderboard.job import Setting

__all__ = ["FLOOR", "floor_settings"]

FLOOR = "floor"
"""The recipe's name on a board."""

_VECTORS = {
    "ngrams": Setting(value=2, source="ours: words and pairs of words"),
    "max_features": Setting(value=100_000, source="ours: the most frequent are enough for a floor"),
    "max_examples": Setting(value=50_000, source="ours: a minute on the largest train splits"),
}
_CLASSIFIER = {"regularization": Setting(value=1.0, source="scikit-learn's default, C or alpha")}

_BAG_OF_WORDS: Mapping[str, Mapping[str, Setting]] = {
    "pair": {**_VECTORS, **_CLASSIFIER},
    "choice": {**_VECTORS, **_CLASSIFIER},
    "span": _VECTORS,
    "tag": {},
}
"""By head type. A tagger counts the tags of each word, which takes no value."""


def floor_settings(name: str, head: str) -> Mapping[str, Setting]:
    """The settings of a floor on tasks of a head type; the majority has none."""
    return _BAG_OF_WORDS[head] if name == "bag-of-words" else {}
