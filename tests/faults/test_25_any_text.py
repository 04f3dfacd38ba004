"""Tests of fault 25: every head trains on and predicts any text, however odd."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from benchharness.encoder import load_encoder
from benchharness.heads import Limits, head_for
from benchharness.tasks.examples import ChoiceExample, Mark, PairExample, SpanExample, TagExample
from benchharness.tasks.suites import find_task
from benchharness.training.predict import predict
from tests.helpers.made_tokenizers import KINDS, make_tokenizer
from tests.helpers.soak import in_part
from tests.helpers.training import CPU, begin_task, fit, having
from tests.helpers.training import RECIPE as USUAL

NASTY = {
    "empty": "",
    "blank": " \t\n ",
    "no break": "\u00a0\u2003\u3000",
    "NUL": "\x00",
    "NUL inside": "a\x00b \x00",
    "control": "\x01\x1b[31m\x7f\x85",
    "zero width": "\ufeff\u200b\u200d",
    "half a pair": "\ud83d half \udc26",
    "emoji": "🐦🐦 👩‍👩‍👧 🇪🇺 🐦",
    "right to left": "\u202eשלום עולם سلام\u202c",
    "combining": "e\u0301\u0300\u0316 ﷽ Z̷̢̨a̸l̶g̵o",
    "no spaces": "東京北京" * 50,
    "one long word": "x" * 5_000,
    "special tokens": "[CLS] [SEP] <s> </s> [MASK] @placeholder _",
    "ten thousand words": "tower " * 10_000,
}
LIMITS = (
    Limits(max_tokens=64, stride=500, max_question_tokens=64),
    Limits(max_tokens=24, stride=500, max_question_tokens=2),
)
"""A stride and a question limit above the window, and a very small window."""

Make = Callable[[str, str], Any]
"""A function that builds an example from its id and a text."""


def one_text(name: str, text: str) -> PairExample:
    return PairExample(id=name, text_a=text, label="acceptable")


def two_texts(name: str, text: str) -> PairExample:
    return PairExample(id=name, text_a=text, text_b=text, label="entailment")


def a_number(name: str, text: str) -> PairExample:
    return PairExample(id=name, text_a=text, text_b="A storm.", label=2.5)


def marked(name: str, text: str) -> PairExample:
    marks = tuple(Mark(text=which, start=len(text) + 1, end=len(text) + 6) for which in "ab")
    around = f"{text} storm {text}"
    return PairExample(id=name, text_a=around, text_b=around, label="True", marks=marks)


def nasty_context(name: str, text: str) -> SpanExample:
    start = len(text) - len(text.lstrip())
    answer = text[start : start + 1]
    answers = ((answer, start),) if answer else ()
    return SpanExample(id=name, question="Who?", context=text, answers=answers)


def nasty_question(name: str, text: str) -> SpanExample:
    return SpanExample(id=name, question=text, context="In Warsaw.", answers=(("Warsaw", 3),))


def options(name: str, text: str) -> ChoiceExample:
    found = (text, "a storm", text[:9])
    return ChoiceExample(id=name, context=text, question=text, options=found, gold=(1,))


def words(name: str, text: str) -> TagExample:
    found = ("Warsaw", *text.split(" "))
    return TagExample(id=name, words=found, tags=("B-LOC", *["O"] * (len(found) - 1)))


ROADS: dict[str, tuple[str, Make]] = {
    "one text": ("glue/cola", one_text),
    "two texts": ("glue/rte", two_texts),
    "a number": ("glue/stsb", a_number),
    "marks": ("superglue/wic", marked),
    "context": ("squad/v2.0", nasty_context),
    "question": ("squad/v1.1", nasty_question),
    "options": ("race/all", options),
    "words": ("conll2003/ner", words),
}

every_road = pytest.mark.parametrize("road", ROADS)


def make(road: str) -> tuple[Any, Any, list[Any]]:
    """Return the head, the task and one example per odd text."""
    task = find_task(ROADS[road][0])
    return head_for(task), task, [ROADS[road][1](name, text) for name, text in NASTY.items()]


def check(predictions: Sequence[Any], examples: Sequence[Any]) -> None:
    """Check that each example has one prediction that can be scored and stored."""
    assert [p.id for p in predictions] == [e.id for e in examples]
    for prediction, example in zip(predictions, examples, strict=True):
        match example:
            case PairExample():
                assert isinstance(prediction.label, str) or math.isfinite(prediction.label)
            case SpanExample():
                assert prediction.text in example.context
                assert math.isfinite(prediction.no_answer_score)
            case ChoiceExample():
                assert sum(prediction.scores) == pytest.approx(1.0)
            case TagExample():
                assert len(prediction.tags) == len(example.words)


@pytest.mark.parametrize(
    ("limits", "road"),
    [
        *in_part(
            [(limits, road) for limits in (LIMITS[1], LIMITS[0]) for road in ROADS],
            [(LIMITS[1], road) for road in ("two texts", "context", "options")],
        )
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.max_tokens} tokens",
)
def test_25_every_head_trains_on_and_predicts_any_text(road: str, limits: Limits) -> None:
    head, task, examples = make(road)
    encoder = load_encoder("builtin:tiny", None, seed=1)
    features = head.encode(examples, encoder.tokenizer, limits)
    assert features.lengths.max() <= limits.max_tokens
    network = head.network(encoder, task)
    recipe = having(
        USUAL,
        epochs=1 if len(features) < 100 else 0.02,
        batch_size=4,
        weight_decay=0.0,
        max_tokens=limits.max_tokens,
    )
    fit(begin_task(task, network, features, examples, recipe), dict)
    logits = predict(network, features, CPU, lambda _: None)
    check(head.decode(logits, features, examples, task), examples)


@every_road
@pytest.mark.parametrize("kind", KINDS)
def test_25_every_tokenizer_encodes_any_text_for_every_head(road: str, kind: str) -> None:
    head, task, examples = make(road)
    features = head.encode(examples, make_tokenizer(kind), LIMITS[0])
    assert features.lengths.max() <= LIMITS[0].max_tokens
    goals = head.targets(features, examples, task)
    assert len(goals) == len(features.item_starts) - 1
