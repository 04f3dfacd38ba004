"""Technique for an auxiliary language-modeling loss, which is computed by the head itself."""

from benchharness.worker.technique import Technique


class LanguageModelLoss(Technique):
    """Technique that keeps the whole vocabulary, because the loss is a softmax over all tokens."""

    whole_vocabulary = True


technique = LanguageModelLoss
