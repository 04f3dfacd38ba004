"""Rows that stand in a split twice, or in train and in a split that is scored."""

from collections.abc import Hashable, Iterable, Mapping

from tasks.examples import ChoiceExample, Example, PairExample, SpanExample, TagExample
from tasks.read import SplitRows

__all__ = ["count_repeats"]


def count_repeats(splits: Mapping[str, SplitRows]) -> dict[str, dict[str, int]]:
    """How many rows of each split repeat others: {"glue/qqp:dev": {"repeated": 3, "in_train": 1}}.

    `repeated` are those whose texts stand in the split before them, `in_train` those of any other
    split whose texts stand in a train split. What is 0 is left out. The benchmarks have such rows
    (QQP, SST-2, SNLI), so that none is dropped; a reader of a score should know how many there are.
    """
    texts = {name: _texts(rows.examples) for name, rows in splits.items()}
    trained = {text for name, found in texts.items() if _is_train(name) for text in found}
    counts = {}
    for name, found in texts.items():
        in_train = 0 if _is_train(name) else sum(text in trained for text in found)
        both = {"repeated": len(found) - len(set(found)), "in_train": in_train}
        counts[name] = {word: count for word, count in both.items() if count}
    return counts


def _is_train(name: str) -> bool:
    return name.endswith(":train")


def _texts(examples: Iterable[Example]) -> list[Hashable]:
    """Of each example what a model reads of it."""
    return [_text(example) for example in examples]


def _text(example: Example) -> Hashable:
    match example:
        case PairExample():
            return example.text_a, example.text_b, example.marks
        case SpanExample():
            return example.question, example.context
        case ChoiceExample():
            return example.context, example.question, example.options
        case TagExample():
            return example.words
