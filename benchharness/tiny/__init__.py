"""The packaged vocabulary and shape of `tiny`, a BERT whose weights are drawn from the seed.

`python -m benchharness.tiny` trains the vocabulary anew, byte for byte.
"""

from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """The folder with config.json, vocab.txt and tokenizer_config.json, and no weights."""
    return Path(__file__).parent
