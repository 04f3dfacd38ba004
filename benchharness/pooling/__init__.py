"""From an encoder's hidden states to logits, by the way each family was published with.

The layers are ours, so that every family has every head; a test copies the weights of transformers'
own classes and gets their logits.
"""

from benchharness.heads.classifiers import TextClassifier
from benchharness.heads.families import DEFAULT, POOLINGS, Pooling, find_pooling
from benchharness.pooling.body import attend_globally, trim
from benchharness.pooling.token_classifier import TokenClassifier

__all__ = [
    "DEFAULT",
    "POOLINGS",
    "Pooling",
    "TextClassifier",
    "TokenClassifier",
    "attend_globally",
    "find_pooling",
    "trim",
]
