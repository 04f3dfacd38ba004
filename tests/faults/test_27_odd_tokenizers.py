"""Tests of fault 27: tokenizers without padding token, offsets, unknown or special tokens."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from benchharness.encoder import load_encoder
from benchharness.errors import ModelError
from benchharness.heads import Limits, pair, span
from benchharness.tasks.examples import PairExample
from benchharness.tasks.suites import find_task
from benchharness.training.batching import pad
from tests.helpers.made_tokenizers import make_tokenizer
from tests.helpers.span_features import TASK, points, question

PAIRS = [
    PairExample(id="0", text_a="The bird sings.", text_b="A bird sings.", label="entailment"),
    PairExample(id="1", text_a="the " * 30, text_b="no", label="not_entailment"),
]


def test_27_tokenizer_without_a_padding_token_pads_with_zero():
    tiny = load_encoder("builtin:tiny", None, seed=1)
    tiny.tokenizer.pad_token = None
    features = pair.encode(PAIRS, tiny.tokenizer, Limits(max_tokens=16))
    body = pair.network(tiny, find_task("glue/rte")).eval()
    inputs = {name: torch.from_numpy(a) for name, a in pad(features, np.array([0, 1])).items()}
    assert features.pad_id == 0
    with torch.inference_mode():
        padded = body(**inputs)[0]
        alone = body(**{name: a[:1, : features.lengths[0]] for name, a in inputs.items()})[0]
    torch.testing.assert_close(padded, alone, atol=1e-5, rtol=0)


def test_27_tokenizer_without_offsets_is_refused_for_spans():
    class SlowTokenizer:
        is_fast = False
        cls_token_id = pad_token_id = None

        def __call__(self, *texts: Any, **options: Any) -> Any:
            return make_tokenizer("bytes")(*texts, **options)

    with pytest.raises(ModelError, match="does not return the characters"):
        span.encode([question("a")], SlowTokenizer(), Limits(max_tokens=64))


def test_27_vocabulary_without_its_unknown_token_is_an_error():
    tokenizer = make_tokenizer("wordpiece", ("a bird",), 20)
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.backend_tokenizer.model.unk_token = "[NONE]"
    with pytest.raises(ModelError, match=r"cannot tokenize a text .* its vocabulary is incomplete"):
        pair.encode(PAIRS, tokenizer, Limits(max_tokens=16))


def test_27_predicted_span_is_decoded_with_a_tokenizer_without_special_tokens():
    tokenizer = make_tokenizer("bare")
    example = question("A storm in Warsaw.", "Warsaw")
    features = span.encode([example], tokenizer, Limits(max_tokens=64))
    (prediction,) = span.decode(
        points(features, span.targets(features, [example], TASK)), features, [example], TASK
    )
    assert (prediction.text, features.pad_id) == ("Warsaw", 0)
