import json
import os
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchharness.encoder import load_encoder
from benchharness.errors import DataError
from benchharness.heads import Limits
from benchharness.heads.span import SpanFeatures, decode, encode, loss, network, targets
from benchharness.tasks.examples import SpanExample
from benchharness.training.batching import pad
from tests.helpers.made_tokenizers import CORPUS, KINDS, make_tokenizer
from tests.helpers.span_features import CONTEXT, NASTY, TASK, points, question, window_texts

# Windows.


@pytest.mark.parametrize("kind", KINDS)
def test_each_window_has_the_question_and_context_within_the_maximum_length(kind: str):
    tokenizer = make_tokenizer(kind)
    example = question(CONTEXT)
    features = encode([example], tokenizer, Limits(max_tokens=60, stride=20))
    assert features.lengths.max() == 60
    assert len(features) > 3
    whole = tokenizer([example.question], [CONTEXT])["input_ids"][0]
    first = features.token_ids[:50].tolist()
    assert first == whole[:50]
    texts = window_texts(features, CONTEXT)
    assert CONTEXT.startswith(texts[0])
    assert CONTEXT.endswith(texts[-1])
    assert all(text in CONTEXT for text in texts)


def test_each_question_has_its_own_windows():
    examples = [question(CONTEXT), question("A storm."), question(CONTEXT)]
    features = encode(examples, make_tokenizer("bytes"), Limits(max_tokens=64, stride=30))
    counts = np.diff(features.windows)
    assert counts[1] == 1
    assert counts[0] == counts[2] > 2
    assert features.windows[-1] == len(features)


def test_every_context_token_has_exactly_one_window_with_most_context():
    features = encode([question(CONTEXT)], make_tokenizer("bytes"), Limits(max_tokens=50, stride=9))
    inside = features.is_best & features.is_answer
    places = features.places[inside]
    assert len(places) == len(set(places.tolist()))
    assert set(places) == set(features.places[features.is_answer])


# Training targets and loss.


def test_span_targets_are_the_tokens_of_the_first_gold_answer():
    tokenizer = make_tokenizer("wordpiece")
    start = CONTEXT.index("Warsaw")
    example = SpanExample(
        id="q", question="Who?", context=CONTEXT, answers=(("Warsaw", start), ("The old", 0))
    )
    features = encode([example], tokenizer, Limits(max_tokens=384))
    ((first, last),) = targets(features, [example], TASK)
    ids = features.token_ids[first : last + 1]
    assert tokenizer.decode(ids) == "warsaw"


def test_training_a_span_head_on_hidden_answers_is_an_error():
    example = SpanExample(id="7", question="?", context="A storm.")
    features = encode([example], make_tokenizer("bytes"), Limits(max_tokens=64))
    with pytest.raises(DataError, match=r"answer of example 7 in squad/v2.0 is not published"):
        targets(features, [example], TASK)


def test_span_loss_is_the_mean_of_start_and_end_cross_entropy():
    logits = torch.tensor([[[2.0, 0.0], [1.0, 3.0], [-torch.inf, -torch.inf]]])
    first, last = np.log(np.exp([2, 1]).sum()) - 2, np.log(np.exp([0, 3]).sum()) - 3
    rows = loss(logits.bfloat16(), torch.tensor([[0, 1]]))
    assert rows.tolist() == pytest.approx([(first + last) / 2])
    assert rows.dtype == torch.float32


def test_span_logits_of_padding_are_minus_infinity():
    encoder = load_encoder("builtin:tiny", None, seed=1)
    examples = [question("A storm."), question(CONTEXT)]
    features = encode(examples, encoder.tokenizer, Limits(max_tokens=64))
    body = network(encoder, TASK)
    inputs = {name: torch.from_numpy(a) for name, a in pad(features, np.array([0, 1])).items()}
    logits = body(**inputs)
    is_real = inputs["attention_mask"].bool()
    assert logits.shape == (2, 64, 2)
    assert torch.isfinite(logits[is_real]).all()
    assert torch.isneginf(logits[~is_real]).all()
    loss(logits, torch.tensor([[1, 2], [3, 3]])).sum().backward()
    assert all(w.grad is None or w.grad.isfinite().all() for w in body.parameters())
    assert body.classifier.output.weight.grad.abs().sum() > 0


# Decoding of predictions.


def oracle(
    logits: np.ndarray, features: SpanFeatures, example: int, longest: int = 30
) -> tuple[float, set[tuple[int, int]]]:
    """Return the best score and the character spans of all answers with it, by brute force."""
    found: dict[tuple[int, int], float] = {}
    for row in range(features.windows[example], features.windows[example + 1]):
        tokens = range(features.starts[row], features.starts[row + 1])
        for first, last in product(tokens, tokens):
            usable = features.is_best[first] and features.is_answer[[first, last]].all()
            if usable and first <= last < first + longest:
                place = (int(features.char_starts[first]), int(features.char_ends[last]))
                score = float(logits[first, 0]) + float(logits[last, 1])
                found[place] = max(found.get(place, score), score)
    best = max(found.values())
    return best, {place for place, score in found.items() if score == best}


@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from(KINDS))
@settings(max_examples=25, deadline=None)
def test_decoded_answer_is_the_highest_scoring_valid_span(seed: int, stride: int, kind: str):
    examples = [question(CONTEXT[:200]), question("A storm."), question(CONTEXT[100:260])]
    limits = Limits(max_tokens=48, stride=stride, max_question_tokens=2)
    features = encode(examples, make_tokenizer(kind), limits)
    logits = np.random.default_rng(seed).normal(size=(len(features.token_ids), 2))
    logits = logits.astype(np.float32)
    for number, prediction in enumerate(decode(logits, features, examples, TASK)):
        best, places = oracle(logits, features, number)
        assert prediction.text in {examples[number].context[a:b] for a, b in places}
        rows = slice(features.windows[number], features.windows[number + 1])
        nulls = logits[features.starts[:-1][rows] + features.nulls[rows]].astype(float).sum(1)
        assert prediction.no_answer_score == pytest.approx(nulls.min() - best, abs=1e-6)


def test_predicted_span_has_at_most_30_tokens_and_ends_after_its_start():
    example = question("one two " * 40)
    features = encode([example], make_tokenizer("wordpiece"), Limits(max_tokens=384))
    words = np.flatnonzero(features.is_answer)

    def margin(first: int, last: int) -> float:
        logits = np.zeros((len(features.token_ids), 2), dtype=np.float32)
        logits[words[first], 0] = logits[words[last], 1] = 9
        (prediction,) = decode(logits, features, [example], TASK)
        return prediction.no_answer_score

    assert margin(20, 50) == -9.0, "31 tokens: one end alone"
    assert margin(21, 20) == -9.0, "the wrong way round"
    assert margin(21, 50) == margin(20, 20) == -18.0


def test_predicted_span_does_not_cross_windows_or_questions():
    examples = [question("one two"), question("one two")]
    features = encode(examples, make_tokenizer("wordpiece"), Limits(max_tokens=64))
    words = np.flatnonzero(features.is_answer)
    logits = np.zeros((len(features.token_ids), 2), dtype=np.float32)
    logits[words[0], 0] = logits[words[-1], 1] = 9
    first, second = decode(logits, features, examples, TASK)
    assert (first.no_answer_score, second.no_answer_score) == (-9.0, -9.0)


def test_the_no_answer_score_is_the_minimum_over_the_windows():
    example = question(CONTEXT)
    features = encode([example], make_tokenizer("unigram"), Limits(max_tokens=64, stride=20))
    logits = np.zeros((len(features.token_ids), 2), dtype=np.float32)
    nulls = features.starts[:-1] + features.nulls
    logits[nulls] = np.arange(3, 3 + len(nulls))[:, None]
    (prediction,) = decode(logits, features, [example], TASK)
    assert prediction.no_answer_score == 6.0


def test_predicted_answer_of_an_empty_context_is_empty():
    examples = [question("A storm."), question(""), question(" ")]
    features = encode(examples, make_tokenizer("bytes"), Limits(max_tokens=64))
    logits = np.ones((len(features.token_ids), 2), dtype=np.float32)
    first, *empty = decode(logits, features, examples, TASK)
    assert first.text
    assert [(p.text, p.no_answer_score) for p in empty] == [("", 2.0)] * 2


# Gold answers are recovered by encoding and decoding.


def words_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans of one to three words."""
    edges, place = [], 0
    for word in text.split():
        place = text.index(word, place)
        edges.append((place, place + len(word)))
        place += len(word)
    for size in (1, 2, 3):
        for (start, _), (_, end) in zip(edges, edges[size - 1 :], strict=False):
            yield start, end


def assert_golds_come_back(examples: list[SpanExample], tokenizer: Any, limits: Limits) -> float:
    """Check that every gold answer is decoded; return the share with exactly the same text."""
    survivors = 0
    features = encode(examples, tokenizer, limits)
    places = targets(features, examples, TASK)
    predictions = decode(points(features, places), features, examples, TASK)
    is_found = (places != features.nulls[:, None]).any(1)
    for number, (example, prediction) in enumerate(zip(examples, predictions, strict=True)):
        rows = np.arange(features.windows[number], features.windows[number + 1])
        kept = rows[is_found[rows]]
        if not len(kept) or not example.answers:
            continue
        firsts = features.starts[kept] + places[kept, 0]
        lasts = features.starts[kept] + places[kept, 1]
        if (lasts - firsts >= 30).any() or not features.is_best[firsts].any():
            continue
        text, start = example.answers[0]
        edges = (int(features.char_starts[firsts[0]]), int(features.char_ends[lasts[0]]))
        stripped = start + len(text) - len(text.lstrip())
        is_whole = edges == (stripped, stripped + len(text.strip()))
        survivors += is_whole
        # Other answers end inside a token, which is predicted as a whole, or in characters without
        # a token.
        whole = text.strip() if is_whole else example.context[slice(*edges)]
        assert prediction.text == whole, example.id
    return survivors / sum(bool(example.answers) for example in examples)


MADE = [*CORPUS[:5], *NASTY[5:8], CONTEXT]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("max_tokens", "stride"), [(384, 128), (70, 25), (48, 100)])
def test_gold_answers_are_decoded_with_their_original_text(kind: str, max_tokens: int, stride: int):
    examples = [
        SpanExample(
            id=f"{number}:{start}", question="?", context=text, answers=((text[start:end], start),)
        )
        for number, text in enumerate(MADE)
        for start, end in words_of(text)
    ]
    limits = Limits(max_tokens=max_tokens, stride=stride)
    share = assert_golds_come_back(examples, make_tokenizer(kind), limits)
    assert share > (0.9 if max_tokens == 384 else 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_gold_answers_of_the_real_squad_dev_sets_are_decoded(kind: str, version: str):
    folder = os.environ.get("BENCH_TEST_DATA")
    if not folder:
        pytest.skip("BENCH_TEST_DATA is not set")
    articles = json.loads((Path(folder) / f"squad/dev-{version}.json").read_text())["data"]
    examples = [
        SpanExample(
            id=q["id"],
            question=q["question"],
            context=paragraph["context"],
            answers=tuple((a["text"], a["answer_start"]) for a in q["answers"]),
        )
        for article in articles
        for paragraph in article["paragraphs"]
        for q in paragraph["qas"]
    ]
    contexts = tuple(dict.fromkeys(example.context for example in examples))
    tokenizer = make_tokenizer(kind, contexts, 8000)
    assert assert_golds_come_back(examples, tokenizer, Limits(max_tokens=384)) > 0.9


# Answers at unusual positions.


@pytest.mark.soak
def test_decoding_10000_questions_takes_under_20_seconds():
    count, tokens = 20_000, 300
    examples = [question("x" * 600)] * (count // 2)
    chars = np.tile(np.arange(tokens, dtype=np.int32), count) * 2
    features = SpanFeatures(
        token_ids=np.zeros(count * tokens, dtype=np.int32),
        token_types=None,
        starts=np.arange(count + 1) * tokens,
        pad_id=0,
        max_tokens=tokens,
        windows=np.arange(0, count + 1, 2),
        nulls=np.zeros(count, dtype=np.int64),
        char_starts=chars,
        char_ends=chars + np.int32(1),
        places=chars,
        is_best=np.ones(count * tokens, dtype=bool),
    )
    logits = np.random.default_rng(1).normal(size=(count * tokens, 2)).astype(np.float32)
    start = time.process_time()
    assert len(decode(logits, features, examples, TASK)) == count // 2
    assert time.process_time() - start < 20
