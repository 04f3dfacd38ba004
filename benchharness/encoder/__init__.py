"""An encoder with its tokenizer, whole and checked, or one sentence on why it cannot be used."""

from benchharness.encoder.load import Encoder, load_encoder

__all__ = ["Encoder", "load_encoder"]
