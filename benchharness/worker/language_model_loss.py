"""The language model's loss, added to the head's own: the head has it, and it needs every word."""

from benchharness.worker.technique import Technique


class LanguageModelLoss(Technique):
    """No word may be left out of the vocabulary."""

    whole_vocabulary = True


technique = LanguageModelLoss
