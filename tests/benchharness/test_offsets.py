"""Tests that perfect logits decode to gold answers with tokenizers that change letters."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from benchharness.encoder import load_encoder
from benchharness.extensions.conll2012 import head as coref
from benchharness.extensions.conll2012.task import DocumentExample
from benchharness.heads import Limits, pair, span, tag
from benchharness.heads.tokens import edges_of, tokenize
from benchharness.tasks.examples import Mark, PairExample, RoleExample, SpanExample, TagExample
from benchharness.tasks.suites import find_task
from tests.helpers.families import FAMILIES
from tests.helpers.family_tokenizers import make_family_tokenizer
from tests.helpers.gold_spans import SPANS
from tests.helpers.odd_tokenizers import ODD, odd_tokenizer
from tests.helpers.span_features import TASK, points

LIMITS = Limits(max_tokens=256)
NER = find_task("conll2003/ner")


@cache
def make(name: str) -> Any:
    return odd_tokenizer(name) if name in ODD else make_family_tokenizer(name)


def is_inside(tokenizer: Any, text: str, start: int, end: int) -> bool:
    """Return whether a token crosses an edge of the answer, or its first or last word has none."""
    found = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    # Exclude the space that many tokenizers include in the first token of a word.
    stretches = [
        (begin + len(text[begin:stop]) - len(text[begin:stop].lstrip()), stop)
        for begin, stop in found.offsets
    ]
    edges = (start, end)
    words = text[start:end].split()
    has_tokens = all(
        any(
            begin < at + len(word) and stop > at and any(map(str.isalnum, text[begin:stop]))
            for begin, stop in stretches
        )
        for word in (words[0], words[-1])
        for at in [text.index(word, start)]
    )
    is_within = any(b < edge < s for b, s in stretches for edge in edges)
    return is_within or not has_tokens


def answer_of(tokenizer: Any, text: str, answer: str, start: int, limits: Limits) -> str:
    example = SpanExample(id="q", question="Where?", context=text, answers=((answer, start),))
    features = span.encode([example], tokenizer, limits)
    places = span.targets(features, [example], TASK)
    (found,) = span.decode(points(features, places), features, [example], TASK, 400)
    return found.text


@pytest.mark.parametrize("name", [*FAMILIES, *ODD])
def test_decoded_answer_equals_the_complete_gold_answer(name: str):
    tokenizer, missed = make(name), 0
    for text, answer, start in SPANS:
        if is_inside(tokenizer, text, start, start + len(answer)):
            missed += 1
            continue
        assert answer_of(tokenizer, text, answer, start, LIMITS) == answer, text
    assert missed < len(SPANS) * 2 / 3


@pytest.mark.parametrize("name", [*FAMILIES, *ODD])
def test_answer_in_one_of_several_windows_is_decoded_completely(name: str):
    tokenizer = make(name)
    for text, answer, start in SPANS[::5]:
        if not is_inside(tokenizer, text, start, start + len(answer)):
            long, before = f"{text} " * 4, 2 * (len(text) + 1)
            found = answer_of(
                tokenizer, long, answer, start + before, Limits(max_tokens=200, stride=40)
            )
            assert found == answer


@pytest.mark.parametrize("name", [*FAMILIES, *ODD])
def test_marked_span_covers_exactly_its_characters_after_tokenization(name: str):
    tokenizer = make(name)
    for text, answer, start in SPANS:
        end = start + len(answer)
        if is_inside(tokenizer, text, start, end):
            continue
        mark = Mark(text="a", start=start, end=end)
        example = PairExample(id="1", text_a=text, text_b="x", marks=(mark,))
        features = pair.encode([example], tokenizer, LIMITS)
        assert features.marks is not None
        tokens = tokenize([text], tokenizer)[text]
        first = features.marks[0, 0, 0] - tokens.covering(start, end)[0]  # type: ignore[index]
        low, high = features.marks[0, 0] - first
        kept = tokens[np.arange(low, high)]
        assert (kept.starts.min(), kept.ends.max()) == (start, end)


@pytest.mark.parametrize("name", [*FAMILIES, *ODD])
def test_words_are_decoded_with_their_gold_tags(name: str):
    tokenizer = make(name)
    sentences = [text.split() for text, _, _ in SPANS]
    examples = [
        TagExample(
            id=str(n),
            words=tuple(words),
            tags=tuple(f"B-{('PER', 'LOC', 'ORG')[i % 3]}" for i in range(len(words))),
        )
        for n, words in enumerate(sentences)
    ]
    features = tag.encode(examples, tokenizer, LIMITS)
    wanted = tag.targets(features, examples, NER)
    logits = np.zeros((len(features.token_ids), len(NER.tags)), dtype=np.float32)
    flat = wanted[np.arange(wanted.shape[1]) < features.lengths[:, None]]
    carriers = np.flatnonzero(flat != tag.IGNORED)
    logits[carriers, flat[carriers]] = 9.0
    found = tag.decode(logits, features, examples, NER)
    silent = 0
    for example, prediction in zip(examples, found, strict=True):
        for word, gold, said in zip(example.words, example.tags, prediction.tags, strict=True):  # type: ignore[arg-type]
            ids = tokenizer(word, add_special_tokens=False)["input_ids"]
            if said == "O" and gold != "O":
                silent += 1
                assert not tokenizer.decode(ids).strip(" \u2581") or not ids
            else:
                assert said == gold
    assert silent == 0 or name in ("latin letters alone", "marks of punctuation taken out")


def test_predicate_is_marked_even_if_the_tokenizer_drops_its_accent():
    words = ("Il", "e\u0301tait", "la\u0300", ".")
    example = RoleExample(id="1", words=words, tags=("O",) * 4, predicate=1)
    features = tag.encode([example], odd_tokenizer("marks off, letters kept"), LIMITS)
    assert features.marks is not None
    start, end = features.marks[0, 0]
    tokenizer = odd_tokenizer("marks off, letters kept")
    tokens = tokenizer.convert_ids_to_tokens(features.token_ids[start:end])
    assert "".join(tokens).replace("##", "") == "etait"


def test_words_of_mentions_are_kept_if_the_tokenizer_drops_accents():
    words = ("E\u0301lan", "rode", ";", "e\u0301lan", "\u0301", "won")
    example = DocumentExample(
        id="d", sentences=(words,), speakers=("-",), genre="nw", clusters=(((0, 1), (3, 4)),)
    )
    for name in ("accents off", "as ALBERT", "bytes"):
        features = coref.encode([example], odd_tokenizer(name), LIMITS)
        assert set(features.words.tolist()) >= {0, 1, 2, 3, 4, 6}


DROPPED = {
    "the first letter": ("Émile came", "Émile", "mile"),
    "the last letter": ("the Café.", "Café", "Caf"),
    "a mark behind a letter": ("the cafe\u0301.", "cafe\u0301", "cafe"),
    "two marks": ("the Ha\u0323\u0302, of", "Ha\u0323\u0302", "Ha"),
    "an amount": ("for 5€, of", "5€", "5"),
    "a joiner": ("a na\u200d, of", "na\u200d", "na"),
}


@pytest.mark.parametrize("case", DROPPED)
def test_token_offsets_extend_over_letters_that_the_tokenizer_drops(case: str):
    text, answer, left = DROPPED[case]
    start = text.index(answer)
    shown = text.index(left)
    spans = [(0, 0), (shown, shown + len(left))]

    class Dropping:
        is_fast = True

        def __call__(self, texts: list[str], **_: Any) -> dict[str, Any]:
            return {"input_ids": [[1, 2]] * len(texts), "offset_mapping": [spans] * len(texts)}

    tokens = tokenize([text], Dropping())[text]
    assert text[tokens.starts[1] : tokens.ends[1]] == answer
    assert tokens.covering(start, start + len(answer)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "left"), [("«Rome» fell", "Rome"), ("(Rome) fell", "Rome"), ("x\u200b Rome", "Rome")]
)
def test_token_offsets_do_not_extend_over_dropped_non_letters(text: str, left: str):
    shown = text.index(left)

    class Dropping:
        is_fast = True

        def __call__(self, texts: list[str], **_: Any) -> dict[str, Any]:
            spans = [(shown, shown + len(left))]
            return {"input_ids": [[1]] * len(texts), "offset_mapping": [spans] * len(texts)}

    tokens = tokenize([text], Dropping())[text]
    assert text[tokens.starts[0] : tokens.ends[0]] == left


def test_letters_after_a_dropped_letter_keep_their_offsets():
    tokenizer, text = odd_tokenizer("some letters dropped"), "他住在北京大学附近。"
    tokens = tokenize([text], tokenizer)[text]
    raw = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    assert tokens.ids.tolist() == raw.ids
    shown = [text[a:b] for a, b in zip(tokens.starts, tokens.ends, strict=True)]
    # The tokenizer drops the two characters between 北 and 学, so both neighbouring tokens cover
    # them.
    assert shown == ["他", "住", "在", "北京大", "京大学", "附", "近", "。"]
    assert answer_of(tokenizer, text, "北京大学", 3, LIMITS) == "北京大学"


def test_span_inside_one_of_two_overlapping_tokens_covers_only_that_token():
    starts, ends = np.array([0, 1], np.int32), np.array([2, 3], np.int32)
    assert edges_of(starts, ends, 0, 2) == (0, 0)
    assert edges_of(starts, ends, 1, 3) == (1, 1)
    assert edges_of(starts, ends, 0, 3) == (0, 1)


def test_the_packaged_tokenizer_keeps_a_combining_accent():
    tokenizer = load_encoder("builtin:tiny", None, seed=1).tokenizer
    text = "Anna went to the cafe\u0301 by train."
    assert answer_of(tokenizer, text, "cafe\u0301", text.index("cafe"), LIMITS) == "cafe\u0301"
