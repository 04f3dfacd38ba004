import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchharness.encoder import load_encoder
from benchharness.errors import DataError
from benchharness.heads import Limits
from benchharness.heads.pair import MarkPooling, encode, network
from benchharness.tasks.examples import Mark, PairExample
from benchharness.tasks.suites import find_task
from benchharness.training.batching import Features, pad
from tests.helpers.made_tokenizers import KINDS, make_tokenizer

WIC, WSC, RTE = (find_task(f"superglue/{name}") for name in ("wic", "wsc", "rte"))
FIRST = "The old tower stood until the storm of 1846."
SECOND = "Who built the tower, and when?"


def mark(which: str, text: str, word: str) -> Mark:
    start = text.index(word)
    return Mark(text=which, start=start, end=start + len(word))


def example(first: str = FIRST, second: str = SECOND) -> PairExample:
    marks = (mark("a", first, "tower"), mark("b", second, "tower"))
    return PairExample(id="7", text_a=first, text_b=second, marks=marks)


def marked(features: Features, tokenizer: object, row: int = 0) -> list[str]:
    """Return the marked spans of a row as text."""
    assert features.marks is not None
    edges = features.starts[row] + features.marks[row]
    texts = [tokenizer.decode(features.token_ids[a:b]) for a, b in edges]  # type: ignore[attr-defined]
    return [text.strip().lower() for text in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_marked_span_covers_the_tokens_of_its_characters(kind: str):
    tokenizer = make_tokenizer(kind)
    features = encode([example()], tokenizer, Limits(max_tokens=128))
    assert features.token_ids.tolist() == tokenizer(FIRST, SECOND)["input_ids"]
    assert marked(features, tokenizer) == ["tower", "tower"]


@pytest.mark.parametrize("kind", KINDS)
def test_two_marked_spans_in_one_text_are_encoded(kind: str):
    tokenizer = make_tokenizer(kind)
    marks = (mark("a", FIRST, "the storm"), mark("a", FIRST, "old tower"))
    single = PairExample(id="7", text_a=FIRST, marks=marks)
    features = encode([single], tokenizer, Limits(max_tokens=128))
    assert marked(features, tokenizer) == ["the storm", "old tower"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [0, 40, 80])
def test_truncation_keeps_the_marked_spans_of_a_text(kind: str, place: int):
    words = ["storm"] * 80
    words[place:place] = ["tower"]
    long = " ".join(words)
    tokenizer = make_tokenizer(kind)
    for texts in ((long, SECOND), (FIRST, long), (long, long)):
        features = encode([example(*texts)], tokenizer, Limits(max_tokens=60))
        assert features.lengths.tolist() == [60]
        assert marked(features, tokenizer) == ["tower", "tower"]


def test_longer_of_two_texts_with_marked_spans_is_truncated():
    tokenizer = make_tokenizer("wordpiece")
    long = f"the tower {'storm ' * 80}"
    features = encode([example(long, SECOND)], tokenizer, Limits(max_tokens=30))
    assert tokenizer.decode(features.token_ids).endswith(
        "[SEP] who built the tower, and when? [SEP]"
    )


def test_marked_spans_that_are_too_far_apart_are_reported_in_one_sentence():
    far = f"tower {'storm ' * 80} old"
    marks = (mark("a", far, "tower"), mark("a", far, "old"))
    with pytest.raises(DataError, match=r"marked words of example 7 span 8\d tokens"):
        encode(
            [PairExample(id="7", text_a=far, marks=marks)],
            make_tokenizer("wordpiece"),
            Limits(max_tokens=60),
        )


@pytest.mark.parametrize(("start", "end"), [(3, 4), (900, 901), (5, 5)])
def test_marked_span_on_whitespace_or_outside_the_text_is_an_error(start: int, end: int):
    wrong = PairExample(id="7", text_a=FIRST, marks=(Mark(text="a", start=start, end=end),))
    with pytest.raises(DataError, match=f"7 marks characters {start} to {end}"):
        encode([wrong], make_tokenizer("bytes"), Limits(max_tokens=60))


words = st.text(st.characters(codec=None), max_size=40)


@given(words, words, words, st.sampled_from(KINDS), st.integers(12, 40))
@settings(deadline=None)
def test_any_text_with_a_marked_span_is_encoded(
    before: str, after: str, other: str, kind: str, tokens: int
):
    text = f"{before} 1 {after}"
    marks = (Mark(text="a", start=len(before) + 1, end=len(before) + 2),)
    found = PairExample(id="7", text_a=text, text_b=other, marks=marks)
    features = encode([found], make_tokenizer(kind), Limits(max_tokens=tokens))
    assert features.marks is not None
    ((first, last),) = features.marks[0]
    assert 0 <= first < last <= features.lengths[0] <= tokens
    assert marked(features, make_tokenizer(kind))[0].lstrip("#") == "1"


def test_initial_representation_of_a_marked_span_is_the_mean_of_its_tokens():
    hidden, marks = torch.randn(2, 6, 4), torch.tensor([[[1, 3], [5, 6]], [[0, 1], [2, 6]]])
    states = MarkPooling(4)(hidden, marks)
    assert states.shape == (2, 8)
    torch.testing.assert_close(states[0], torch.cat([hidden[0, 1:3].mean(0), hidden[0, 5]]))
    torch.testing.assert_close(states[1], torch.cat([hidden[1, 0], hidden[1, 2:].mean(0)]))


def test_attention_pooling_uses_only_the_tokens_of_the_marked_span():
    hidden, marks = torch.zeros(1, 4, 2), torch.tensor([[[1, 3]]])
    hidden[0, :, 0] = torch.tensor([900.0, 0.0, 50.0, 900.0])
    pooling = MarkPooling(2)
    torch.nn.init.ones_(pooling.attention.weight)
    assert pooling(hidden, marks).tolist() == [[50.0, 0.0]]


def test_logits_depend_on_the_marked_spans():
    encoder = load_encoder("builtin:tiny", None, seed=1)
    features = encode([example(), example()], encoder.tokenizer, Limits(max_tokens=64))
    body = network(encoder, WIC).eval()
    inputs = {name: torch.from_numpy(a) for name, a in pad(features, np.array([0, 1])).items()}
    inputs["marks"][1] = torch.tensor([[1, 2], [2, 3]])
    torch.nn.init.normal_(body.classifier.output.weight)
    logits = body(**inputs)
    assert logits.shape == (2, 2)
    assert not torch.allclose(logits[0], logits[1])
    logits.sum().backward()
    assert body.pooling.attention.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(("task", "marks"), [(WIC, 2), (WSC, 2), (RTE, 0)])
def test_output_layer_reads_the_sentence_state_and_one_representation_per_marked_span(
    task: object, marks: int
):
    encoder = load_encoder("builtin:tiny", None, seed=1)
    size = encoder.config.hidden_size
    assert network(encoder, task).classifier.output.in_features == size * (1 + marks)
