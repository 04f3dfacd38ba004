"""Technique of the auxiliary language modeling loss, which the head adds; it needs every word."""

from benchharness.worker.technique import Technique


class LanguageModelLoss(Technique):
    """Technique that keeps the whole vocabulary."""

    whole_vocabulary = True


technique = LanguageModelLoss
