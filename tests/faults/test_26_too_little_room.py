"""Tests of fault 26: questions longer than a window, strides longer than its context."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchharness.errors import ModelError
from benchharness.heads import Limits
from benchharness.heads.span import decode, encode, targets
from tests.helpers.made_tokenizers import KINDS, make_tokenizer
from tests.helpers.span_features import CONTEXT, NASTY, TASK, points, question


def test_26_long_question_is_cut_to_half_of_the_window():
    example = question(CONTEXT, text="why " * 500)
    tokenizer = make_tokenizer("wordpiece")
    for limit, kept in ((16, 16), (64, 28)):
        limits = Limits(max_tokens=60, max_question_tokens=limit)
        features = encode([example], tokenizer, limits)
        assert features.token_types is not None
        types = features.token_types[: features.lengths[0]]
        assert (types == 0).sum() == kept + 2, "[CLS] question [SEP]"
        assert features.lengths[0] == 60


def test_26_window_too_small_for_a_question_is_an_error():
    with pytest.raises(ModelError, match="no room for a question"):
        encode([question("a")], make_tokenizer("wordpiece"), Limits(max_tokens=4))


def check_any(context: str, text: str, kind: str, limits: Limits) -> None:
    example = question(context, context[3:9] or None, text=text)
    features = encode([example], make_tokenizer(kind), limits)
    assert features.lengths.max() <= limits.max_tokens
    places = targets(features, [example], TASK)
    assert ((places >= 0) & (places < features.lengths[:, None])).all()
    (prediction,) = decode(points(features, places), features, [example], TASK)
    assert prediction.text in context
    assert np.isfinite(prediction.no_answer_score)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", NASTY, ids=[ascii(text)[:20] for text in NASTY])
def test_26_unusual_texts_are_encoded_as_question_and_as_context(kind: str, text: str):
    check_any(text, "Who?", kind, Limits(max_tokens=64, stride=500))
    check_any("A storm in Warsaw.", text, kind, Limits(max_tokens=64, stride=500))
    check_any(text, text, kind, Limits(max_tokens=384))


any_text = st.text(st.characters(codec=None), max_size=60)
any_limits = st.builds(
    Limits,
    max_tokens=st.integers(6, 40),
    stride=st.integers(1, 50),
    max_question_tokens=st.integers(1, 50),
)


@given(any_text, any_text, st.sampled_from(KINDS), any_limits)
@settings(deadline=None)
def test_26_any_text_is_encoded_with_any_length_limits(
    context: str, text: str, kind: str, limits: Limits
):
    check_any(context, text, kind, limits)
