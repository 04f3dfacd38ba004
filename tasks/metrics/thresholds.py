"""No-answer thresholds: where a question's answer gives way to "no answer".

A question is left unanswered where its no-answer score exceeds the threshold. Three thresholds are
in use: a fixed one, the best on the very questions that are scored (the published convention for
SQuAD 2.0, which flatters), and cross-fitted ones, each fitted on other articles (honest).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ScoredAnswer", "best_threshold", "cross_fitted_points"]

FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class ScoredAnswer:
    """A question's points (0..1) for its answer as it stands, and what a threshold needs to know.

    `group` names what must not be split between fitting and scoring (the article).
    """

    points: float
    is_answered: bool
    has_answer: bool
    no_answer_score: float
    group: str = ""

    def points_at(self, threshold: float) -> float:
        """The points once the threshold is applied."""
        if self.no_answer_score > threshold:
            return float(not self.has_answer)
        return self.points


def best_threshold(answers: Sequence[ScoredAnswer]) -> tuple[float, float | None]:
    """The most points in sum that a threshold can win, and that threshold.

    The threshold is None where no threshold beats answering nothing. As evaluate-v2.0.py does it:
    one sweep from answering nothing, question by question in the order of the no-answer scores,
    ties in the order given. So within a tie the best may lie between two equal scores, which no
    threshold reaches.
    """
    points: float = sum(not answer.has_answer for answer in answers)
    best, threshold = points, None
    for answer in sorted(answers, key=lambda answer: answer.no_answer_score):
        points += answer.points if answer.has_answer else -answer.is_answered
        if points > best:
            best, threshold = points, answer.no_answer_score
    return best, threshold


def cross_fitted_points(answers: Sequence[ScoredAnswer]) -> float | None:
    """The points in sum where each fold's threshold is the best one of the other folds.

    Groups are dealt to five folds in turn. None where there is one group only, which leaves
    nothing to fit on.
    """
    groups = sorted({answer.group for answer in answers})
    if len(groups) < 2:
        return None
    fold_of = {group: index % FOLDS for index, group in enumerate(groups)}
    points = 0.0
    for fold in sorted(set(fold_of.values())):
        _, fitted = best_threshold([a for a in answers if fold_of[a.group] != fold])
        threshold = -math.inf if fitted is None else fitted
        points += sum(a.points_at(threshold) for a in answers if fold_of[a.group] == fold)
    return points
