"""Hyperparameters of distillation."""

from dataclasses import dataclass
from typing import ClassVar

from benchharness.hyperparameter import FLAG, NOT_NEGATIVE, POSITIVE, SHARE, hyperparameter
from benchharness.leaderboard.job import TEACHER


@dataclass(frozen=True, kw_only=True)
class StudentOptions:
    """Hyperparameters of distillation, in which a student learns from a teacher.

    The loss of the student is (1 - `teacher_weight`) times the loss on the labels, plus
    `teacher_weight` times the loss on the teacher's outputs, plus `layer_weight` times the loss on
    the teacher's hidden states and attention (see teacher.py).

    Attributes:
        teacher_weight: Weight of the loss on the teacher's outputs.
        temperature: Temperature of the softmax of both models' outputs in this loss.
        layer_weight: Weight of the loss on hidden states and attention.
        layer_epochs: Number of epochs of an additional first stage, which uses only the loss on
            hidden states and attention. The second stage then uses only the other losses, for
            `epochs`, with new optimizer moments. 0 for a single stage with all losses.
        layer_learning_rate: Constant learning rate of the first stage; None for `learning_rate`.
        from_teacher: True if the student begins with the weights of the teacher.
    """

    needs: ClassVar = TEACHER
    teacher_weight: float | None = hyperparameter(SHARE, None, aliases="alpha_ce")
    temperature: float | None = hyperparameter(POSITIVE, None)
    layer_weight: float = hyperparameter(NOT_NEGATIVE, 0.0)
    layer_epochs: float = hyperparameter(NOT_NEGATIVE, 0.0)
    layer_learning_rate: float | None = hyperparameter(POSITIVE, None)
    from_teacher: bool = hyperparameter(FLAG, False)

    @property
    def first_stage(self) -> tuple[float, float | None]:
        """Epochs and learning rate of the first stage, which has only the loss on layers."""
        return self.layer_epochs, self.layer_learning_rate
