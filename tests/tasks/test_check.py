from dataclasses import replace

import pytest

from benchharness.tasks.examples import (
    ChoiceExample,
    Example,
    Mark,
    PairExample,
    SpanExample,
    TagExample,
)
from benchharness.tasks.suites import TASKS
from benchharness.tasks.task import find_fault

CB, STSB = TASKS["superglue/cb"], TASKS["glue/stsb"]
ONE_MARK = replace(CB, marks=1)
SQUAD_1, SQUAD_2 = TASKS["squad/v1.1"], TASKS["squad/v2.0"]
COPA, NER = TASKS["superglue/copa"], TASKS["conll2003/ner"]


def pair(**words: object) -> PairExample:
    return PairExample(**{"id": "0", "text_a": "abc", "text_b": "de", **words})  # type: ignore[arg-type]


def span(*answers: tuple[str, int]) -> SpanExample:
    return SpanExample(id="0", question="?", context="abc", answers=answers)


def choice(*gold: int, options: tuple[str, ...] = ("x", "y")) -> ChoiceExample:
    return ChoiceExample(id="0", context="", question="", options=options, gold=gold)


def tags(*names: str, words: tuple[str, ...] = ("a", "b")) -> TagExample:
    return TagExample(id="0", words=words, tags=names)


@pytest.mark.parametrize(
    ("task", "example"),
    [
        (ONE_MARK, pair(label="neutral", marks=(Mark(text="b", start=0, end=2),))),
        (CB, pair(label=None, text_b=None)),
        (STSB, pair(label=5.0)),
        (SQUAD_1, span(("bc", 1))),
        (SQUAD_1, span(("xyz", -1))),
        (SQUAD_2, span()),
        (SQUAD_1, SpanExample(id="0", question="?", context="abc")),
        (COPA, choice(0, 1)),
        (COPA, ChoiceExample(id="0", context="", question="", options=("x",))),
        (NER, tags("B-PER", "O")),
        (NER, TagExample(id="0", words=("a",))),
    ],
)
def test_check_accepts_valid_examples(task: object, example: Example) -> None:
    assert find_fault(task, example) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "example", "fault"),
    [
        (CB, pair(label="maybe"), "has the label 'maybe'; expected one of entailment"),
        (CB, pair(label="neutral", text_a=None), "its texts are None and 'de'"),
        (STSB, pair(label=5.1), "has the label 5.1; expected 0 to 5"),
        (STSB, pair(label="3"), "has the label '3'; expected 0 to 5"),
        (ONE_MARK, pair(marks=(Mark(text="b", start=1, end=3),)), "marks the characters 1 to 3 of"),
        (ONE_MARK, pair(text_b=None, marks=(Mark(text="b", start=0, end=1),)), "which has 0"),
        (ONE_MARK, pair(marks=(Mark(text="a", start=2, end=2),)), "marks the characters 2 to 2 of"),
        (ONE_MARK, pair(marks=(Mark(text="a", start=-1, end=2),)), "marks the characters -1 to 2"),
        (CB, pair(marks=(Mark(text="a", start=0, end=1),)), "has 1 marked spans; expected 0"),
        (ONE_MARK, pair(), "has 0 marked spans; expected 1"),
        (SQUAD_1, span(), "has no answer, but every question of squad/v1.1 has one"),
        (SQUAD_2, span(("bc", 0)), "has the answer 'bc', which is not at character 0"),
        (COPA, choice(options=()), "has no options"),
        (COPA, choice(), "has the gold options (); expected one or more indices from 0 to 1"),
        (COPA, choice(2), "has the gold options (2,); expected one or more indices from 0 to 1"),
        (COPA, choice(-1), "has the gold options (-1,)"),
        (NER, tags(words=()), "has no words"),
        (NER, tags("O"), "has 2 words and 1 tags"),
        (NER, tags("O", "I-GEO"), "has the tag 'I-GEO'; expected one of O, B-PER"),
        (NER, pair(), "is a PairExample, which does not fit a tag task"),
    ],
)  # fmt: skip
def test_check_of_an_invalid_example_names_the_cause(
    task: object, example: Example, fault: str
) -> None:
    assert fault in find_fault(task, example)  # type: ignore[arg-type]
