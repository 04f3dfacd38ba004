"""Answers that are one of several ordered levels."""

from collections import Counter

from bench_ordinal.task import OrdinalPrediction
from benchharness.tasks.answers.base import AnswerType, Passage, mean_scores, sure_of


class Levels(AnswerType):
    """Answer type for levels; the average of several answers is the level in the middle."""

    prediction = OrdinalPrediction
    noun = "level"
    matrix = ("texts", "Levels")

    def from_python(self, example, answer):
        """Convert a level, as text or number, to a prediction."""
        if str(answer) not in self.task.levels:
            raise self.refuse(example, answer, f"expected one of {', '.join(self.task.levels)}")
        return OrdinalPrediction(id=example.id, level=str(answer))

    def key(self, prediction):
        """Return the level."""
        return prediction.level

    def place(self, prediction):
        """Return the index of the level."""
        return self.task.levels.index(prediction.level)

    def fits(self, prediction, example):
        """Return whether the level is one of the task's."""
        return prediction.level in self.task.levels and super().fits(prediction, example)

    def cells(self, prediction, example, judged):
        """Return the cell of the gold and the predicted level."""
        return [(example.level, prediction.level)]

    def rows(self):
        """Return all levels, in order."""
        return self.task.levels

    def average(self, predictions):
        """Return the level at which half of the mean probability is reached."""
        levels = self.task.levels
        rows = [p.scores or sure_of(levels.index(p.level), len(levels)) for p in predictions]
        scores = mean_scores(rows)
        total, middle = 0.0, levels[-1]
        for level, score in zip(levels, scores, strict=True):
            total += score
            if total >= 0.5:
                middle = level
                break
        return OrdinalPrediction(id=predictions[0].id, level=middle, scores=scores)

    def majority(self, examples):
        """Return a function that predicts the most frequent level."""
        counts = Counter(example.level for example in examples)
        scores = tuple(counts[level] / len(examples) for level in self.task.levels)
        level = self.task.levels[scores.index(max(scores))]
        return lambda asked: OrdinalPrediction(id=asked.id, level=level, scores=scores)

    def said(self, prediction, example=None, *, texts=True):
        """Return the level."""
        return prediction.level

    def written(self, prediction, *, texts=True):
        """Return the level."""
        return prediction.level

    def facts(self, prediction, example):
        """Return the level and its probability."""
        return {"level": prediction.level, "score": max(prediction.scores, default=1.0)}

    def choices(self, example):
        """Return all levels."""
        return self.task.levels

    def passages(self, example):
        """Yield the text."""
        yield Passage("text", example.text)
