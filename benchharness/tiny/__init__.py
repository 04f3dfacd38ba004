"""Config and vocabulary of `tiny`, a built-in BERT with random weights that the seed determines.

It has two layers and a hidden size of 128, like BERT-Tiny (github.com/google-research/bert).
The vocabulary contains WordPiece tokens that were learned from the built-in data. It must not
change, because all results of `tiny` depend on it.
"""

from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """Return the folder with config.json, vocab.txt and tokenizer_config.json, without weights."""
    return Path(__file__).parent
