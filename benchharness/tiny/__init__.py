"""The packaged vocabulary and shape of `tiny`, a BERT whose weights are drawn from the seed.

Two layers of 128, as BERT-Tiny has (https://github.com/google-research/bert). The vocabulary is
WordPiece's of the embedded data, joined by frequency; another one would be another encoder, with
other results, so it stays as it is.
"""

from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """The folder with config.json, vocab.txt and tokenizer_config.json, and no weights."""
    return Path(__file__).parent
