"""The bag-of-words floor: TF-IDF of words and pairs of words under a linear model."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchharness.floors.floor import Predictor
from benchharness.floors.learners import learn_majority
from benchharness.floors.options import learn_options
from benchharness.floors.sentences import learn_sentences
from benchharness.floors.texts import learn_labels, learn_numbers
from benchharness.floors.words import learn_words
from tasks.subset import subset
from tasks.task import ChoiceTask, PairTask, SpanTask, TagTask, Task

__all__ = ["learn_bag_of_words"]


def learn_bag_of_words(task: Task, examples: Sequence[Any], values: Mapping[str, Any]) -> Predictor:
    """The floor of a task, learned from at most `max_examples` of its training examples.

    A train split with a single label has nothing to tell apart: it gets the majority's answers.
    """
    if isinstance(task, TagTask):
        return learn_words(examples)
    kept: Sequence[Any] = subset(examples, values["max_examples"])
    match task:
        case SpanTask():
            return learn_sentences(kept, values)
        case ChoiceTask():
            return learn_options(kept, values)
        case PairTask(is_regression=True):
            return learn_numbers(kept, values)
        case PairTask() if len({example.label for example in kept}) > 1:
            return learn_labels(task, kept, values)
    return learn_majority(task, kept, values)
