"""Technique for an auxiliary language-modeling loss: keep the whole vocabulary.

The head computes the loss itself.
"""

from benchharness.worker.technique import Technique


class LanguageModelLoss(Technique):
    """Technique that keeps the whole vocabulary."""

    whole_vocabulary = True


technique = LanguageModelLoss
