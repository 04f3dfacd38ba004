from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchharness.encoder import load_encoder
from benchharness.errors import DataError
from benchharness.heads import Limits
from benchharness.heads.tag import (
    TagFeatures,
    both_ways,
    decode,
    encode,
    loss,
    network,
    targets,
)
from benchharness.tasks.examples import TagExample
from benchharness.tasks.task import TagTask
from benchharness.training.predict import predict
from tests.helpers.made_tokenizers import KINDS, make_tokenizer
from tests.helpers.training import CPU, begin, fit, having
from tests.helpers.training import RECIPE as USUAL

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
TASK: TagTask = SimpleNamespace(name="conll2003/ner", tags=TAGS)  # type: ignore[assignment]
WORDS = ("Marie", "Skłodowska-Curie", "was", "born", "in", "Warsaw", ".")
GOLD = ("B-PER", "I-PER", "O", "O", "O", "B-LOC", "O")


def sentence(words: tuple[str, ...], tags: tuple[str, ...] | None = None) -> TagExample:
    return TagExample(id="s", words=words, tags=tags)


def carried(features: TagFeatures) -> list[int]:
    """Return the words that are trained on and predicted, in the order of the rows."""
    return features.words[features.words >= 0].tolist()


def answer(features: TagFeatures, examples: list[TagExample]) -> tuple[tuple[str, ...], ...]:
    """Return the predictions for logits that equal the targets."""
    table = targets(features, examples, TASK)
    flat = np.concatenate([row[:n] for row, n in zip(table, features.lengths, strict=True)])
    logits = np.eye(len(TAGS), dtype=np.float32)[np.maximum(flat, 0)]
    # Tokens without a tag get wrong logits, which must be ignored.
    logits[flat < 0] = np.eye(len(TAGS))[4]
    return tuple(prediction.tags for prediction in decode(logits, features, examples, TASK))


# Encoding of sentences.


@pytest.mark.parametrize("kind", KINDS)
def test_first_token_of_a_word_has_its_tag(kind: str):
    tokenizer = make_tokenizer(kind)
    features = encode([sentence(WORDS)], tokenizer, Limits(max_tokens=64))
    assert features.token_ids.tolist() == tokenizer(" ".join(WORDS))["input_ids"]
    assert carried(features) == list(range(7))
    assert features.terms is not None
    assert features.terms.tolist() == [7]
    tokens = np.flatnonzero(features.words >= 0)
    pieces = [tokenizer.decode(features.token_ids[[place]]) for place in tokens]
    for word, piece in zip(WORDS, pieces, strict=True):
        assert word.lower().startswith(piece.strip().strip("▁").lower()[:1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_tokens", [6, 9, 16, 40])
def test_every_word_of_a_long_sentence_is_tagged(kind: str, max_tokens: int):
    examples = [sentence(WORDS * 9, GOLD * 9), sentence(WORDS, GOLD)]
    features = encode(examples, make_tokenizer(kind), Limits(max_tokens=max_tokens))
    assert features.lengths.max() <= max_tokens
    assert sorted(carried(features)) == list(range(70))
    assert answer(features, examples) == (GOLD * 9, GOLD)


def test_word_is_tagged_in_the_window_with_the_most_context():
    features = encode([sentence(WORDS * 9)], make_tokenizer("bytes"), Limits(max_tokens=42))
    for row, start in enumerate(features.starts[1:-2], start=1):
        places = np.flatnonzero(features.words[start : features.starts[row + 1]] >= 0)
        assert places.min() > 42 // 5, "the beginning is read in the window before"
        assert places.max() < 42 - 42 // 5, "the end is read in the window after"


@pytest.mark.parametrize("nothing", ["", " ", "\u200b", "\x00", "\ufeff"])
def test_word_without_tokens_gets_the_outside_tag(nothing: str):
    example = sentence(("in", nothing, "Warsaw"), ("O", "B-PER", "B-LOC"))
    features = encode([example], make_tokenizer("wordpiece"), Limits(max_tokens=64))
    assert carried(features) == [0, 2]
    assert answer(features, [example]) == (("O", "O", "B-LOC"),)


def test_a_sentence_without_words_has_no_tags():
    examples = [sentence((), ()), sentence(WORDS, GOLD), sentence(("",), ("O",))]
    features = encode(examples, make_tokenizer("bytes"), Limits(max_tokens=64))
    assert answer(features, examples) == ((), GOLD, ("O",))


any_words = st.lists(st.text(st.characters(codec=None), max_size=12), max_size=12).map(tuple)


@given(st.lists(any_words, min_size=1, max_size=3), st.sampled_from(KINDS), st.integers(6, 30))
@settings(deadline=None)
def test_every_word_of_any_text_gets_one_tag(
    sentences: list[tuple[str, ...]], kind: str, tokens: int
):
    examples = [sentence(words, ("B-LOC",) * len(words)) for words in sentences]
    features = encode(examples, make_tokenizer(kind), Limits(max_tokens=tokens))
    assert len(carried(features)) == len(set(carried(features)))
    tags = answer(features, examples)
    assert [len(found) for found in tags] == [len(words) for words in sentences]
    flat = [tag for found in tags for tag in found]
    assert all(flat[word] == "B-LOC" for word in carried(features))


# Training targets and loss.


def test_tag_targets_are_at_the_first_tokens_of_words():
    example = sentence(WORDS, GOLD)
    features = encode([example], make_tokenizer("wordpiece"), Limits(max_tokens=64))
    (row,) = targets(features, [example], TASK)
    assert (row >= 0).tolist() == (features.words >= 0).tolist()
    assert [TAGS[number] for number in row[row >= 0]] == list(GOLD)
    assert set(row[row < 0].tolist()) == {-100}


def test_training_on_hidden_or_missing_tags_is_an_error():
    features = encode([sentence(WORDS)], make_tokenizer("bytes"), Limits(max_tokens=64))
    with pytest.raises(DataError, match="tags of example s in conll2003/ner are not published"):
        targets(features, [sentence(WORDS)], TASK)
    with pytest.raises(DataError, match="s has 7 words and 6 tags"):
        targets(features, [sentence(WORDS, GOLD[1:])], TASK)


@pytest.mark.parametrize("width", [3, 8])
def test_tagging_loss_of_a_batch_is_the_mean_over_its_words(width: int):
    """Pad the logits or the targets further."""
    torch.manual_seed(1)
    logits, goals = torch.randn(2, 5, 4), torch.tensor([[-100, 3, 1, 0, -100], [2, -100, 0, 0, 0]])
    goals[:, 3:] = -100
    padded = functional.pad(goals, (0, 3), value=-100)[:, :width]
    expected = functional.cross_entropy(logits.flatten(0, 1), goals.flatten())
    assert loss(logits, padded).sum().item() / 4 == pytest.approx(expected.item())
    assert loss(logits.bfloat16(), padded).dtype == torch.float32


def test_tagging_network_learns_its_training_data():
    encoder = load_encoder("builtin:tiny", None, seed=1)
    words = ("the", "bird", "not", "a")
    tags = {"the": "O", "bird": "B-PER", "not": "B-LOC", "a": "O"}
    rng = np.random.default_rng(1)
    examples = [
        sentence(found, tuple(tags[word] for word in found))
        for size in [1, 2, 5, 9] * 8
        for found in [tuple(str(w) for w in rng.choice(words, size))]
    ]
    features = encode(examples, encoder.tokenizer, Limits(max_tokens=10))
    body = network(encoder, TASK)
    recipe = having(
        USUAL,
        learning_rate=3e-3,
        epochs=8,
        batch_size=8,
        accumulation=2,
        weight_decay=0.0,
        max_tokens=10,
    )
    data = features, targets(features, examples, TASK)
    fit(begin(body, recipe, data, loss=loss), dict)
    logits = predict(body, features, CPU, lambda _: None)
    assert logits.shape == (len(features.token_ids), len(TAGS))
    predictions = decode(logits, features, examples, TASK)
    assert [prediction.tags for prediction in predictions] == [example.tags for example in examples]


# Decoding of predictions.


@pytest.mark.parametrize(
    ("predicted", "repaired"),
    [
        (("I-PER", "I-PER", "O"), ("B-PER", "I-PER", "O")),
        (("B-PER", "I-LOC", "I-LOC"), ("B-PER", "B-LOC", "I-LOC")),
        (("B-PER", "I-PER", "B-PER"), ("B-PER", "I-PER", "B-PER")),
        (("O", "I-LOC", "O"), ("O", "B-LOC", "O")),
    ],
)
def test_predicted_tags_are_repaired_to_iob2(predicted: tuple[str, ...], repaired: tuple[str, ...]):
    example = sentence(("in", "old", "Warsaw"), predicted)
    features = encode([example], make_tokenizer("bytes"), Limits(max_tokens=64))
    assert answer(features, [example]) == (repaired,)


def test_word_without_tokens_gets_the_first_tag_if_the_task_has_no_outside_tag():
    task: TagTask = SimpleNamespace(name="x/pos", tags=("NOUN", "VERB"))  # type: ignore[assignment]
    example = sentence(("", "in"))
    features = encode([example], make_tokenizer("bytes"), Limits(max_tokens=64))
    logits = np.tile(np.array([0, 1], dtype=np.float32), (len(features.token_ids), 1))
    (prediction,) = decode(logits, features, [example], task)
    assert prediction.tags == ("NOUN", "VERB")


@pytest.mark.parametrize("lengths", [[3, 9, 1, 9, 4], [5], [2, 2, 2]])
def test_lstm_over_states_equals_torch_lstm_on_packed_sequences(lengths: list[int]):
    """Compare outputs and gradients bit for bit. For GPUs see test_pretended_gpu.py."""
    torch.manual_seed(2)
    lstm, counts = nn.LSTM(6, 4, batch_first=True, bidirectional=True), torch.tensor(lengths)
    found = []
    for is_ours in (True, False):
        lstm.zero_grad()
        generator = torch.Generator().manual_seed(1)
        states = torch.randn(len(lengths), 12, 6, generator=generator, requires_grad=True)
        if is_ours:
            read = both_ways(lstm, states, counts)
        else:
            packed = pack_padded_sequence(states, counts, batch_first=True, enforce_sorted=False)
            read, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=12)
        read.square().sum().backward()
        found.append([read, states.grad, *(weight.grad for weight in lstm.parameters())])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*found, strict=True))
