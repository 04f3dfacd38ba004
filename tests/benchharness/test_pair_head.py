import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from benchharness.encoder import Encoder, load_encoder
from benchharness.errors import BenchError, DataError
from benchharness.heads import Limits, head_for
from benchharness.heads.pair import PAIR, decode, encode, loss, network, targets
from benchharness.tasks.examples import PairExample
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tasks.task import PairTask
from tests.helpers.made_tokenizers import KINDS, make_tokenizer

ANY = None
"""Placeholder for features that the tested function does not use."""
RTE, STSB, COLA = (TASKS[f"glue/{name}"] for name in ("rte", "stsb", "cola"))
PAIRS = [
    PairExample(id="0", text_a="The bird sings.", text_b="A bird sings.", label="entailment"),
    PairExample(id="1", text_a="the " * 30, text_b="no", label="not_entailment"),
]


@pytest.fixture(scope="module")
def tiny() -> Encoder:
    return load_encoder("builtin:tiny", None, seed=1)


def rows_of(features: object, values: np.ndarray) -> list[list[int]]:
    return [part.tolist() for part in np.split(values, features.starts[1:-1])]  # type: ignore[attr-defined]


def test_two_texts_are_encoded_as_one_row_with_token_types(tiny: Encoder):
    features = encode(PAIRS, tiny.tokenizer, Limits(max_tokens=128))
    expected = tiny.tokenizer("The bird sings.", "A bird sings.")
    assert features.token_types is not None
    assert rows_of(features, features.token_ids)[0] == expected["input_ids"]
    assert rows_of(features, features.token_types)[0] == expected["token_type_ids"]
    assert features.pad_id == tiny.tokenizer.pad_token_id


def test_longer_of_two_texts_is_truncated(tiny: Encoder):
    features = encode(PAIRS, tiny.tokenizer, Limits(max_tokens=10))
    assert features.lengths.max() == 10
    text = tiny.tokenizer.decode(rows_of(features, features.token_ids)[1])
    assert text == "[CLS] the the the the the the [SEP] no [SEP]"


def test_single_text_is_truncated_to_the_maximum_length(tiny: Encoder):
    example = PairExample(id="0", text_a="the the the", label="acceptable")
    features = encode([example], tiny.tokenizer, Limits(max_tokens=4))
    assert tiny.tokenizer.decode(features.token_ids) == "[CLS] the the [SEP]"


lengths = st.integers(0, 30)


@given(lengths, lengths | st.none(), st.integers(6, 40), st.sampled_from(KINDS))
@settings(deadline=None)
def test_truncation_of_pairs_equals_longest_first_of_the_tokenizer(
    first: int, second: int | None, tokens: int, kind: str
):
    tokenizer = make_tokenizer(kind)
    a, b = "the tower " * first, None if second is None else "a storm " * second
    expected = tokenizer(
        [a], None if b is None else [b], truncation="longest_first", max_length=tokens
    )
    example = PairExample(id="0", text_a=a, text_b=b)
    features = encode([example], tokenizer, Limits(max_tokens=tokens))
    assert features.token_ids.tolist() == expected["input_ids"][0]
    if features.token_types is not None:
        assert features.token_types.tolist() == expected["token_type_ids"][0]


def test_two_very_long_texts_are_truncated_quickly(tiny: Encoder):
    """The tokenizers library would combine all overflowing pieces of both texts."""
    text = "the tower " * 10_000
    start = time.process_time()
    example = PairExample(id="0", text_a=text, text_b=text)
    assert encode([example], tiny.tokenizer, Limits(max_tokens=64)).lengths.tolist() == [64]
    assert time.process_time() - start < 10


def test_examples_of_several_tokenizer_calls_are_encoded_in_order(tiny: Encoder):
    words = ("the", "the the", "the the the")
    examples = [PairExample(id=str(i), text_a=words[i % 3]) for i in range(2500)]
    features = encode(examples, tiny.tokenizer, Limits(max_tokens=16))
    assert features.lengths.tolist() == [3 + i % 3 for i in range(2500)]


def test_pair_targets_follow_the_label_order_of_the_task():
    assert targets(ANY, PAIRS, RTE).tolist() == [
        RTE.labels.index("entailment"),
        RTE.labels.index("not_entailment"),
    ]
    scores = targets(ANY, [PairExample(id="0", text_a="a", label=2.5)], STSB)
    assert (scores.tolist(), scores.dtype) == ([2.5], np.float32)


def test_training_on_rows_with_hidden_labels_is_an_error():
    with pytest.raises(DataError, match="label of example 7 in glue/rte is not published"):
        targets(ANY, [PairExample(id="7", text_a="a")], RTE)


def test_pair_network_has_one_output_per_label_or_one_for_regression(tiny: Encoder):
    assert network(tiny, RTE).classifier.output.out_features == 2
    assert network(tiny, find_task("mnli")).classifier.output.out_features == 3
    assert network(tiny, STSB).classifier.output.out_features == 1


def test_pair_loss_is_computed_per_row():
    logits = torch.tensor([[2.0, -1.0], [0.5, 0.5]])
    classes = torch.tensor([1, 0])
    rows = loss(logits, classes)
    assert rows.tolist() == pytest.approx([3.0485873, 0.6931472])
    assert rows.mean().item() == pytest.approx(functional.cross_entropy(logits, classes).item())
    assert loss(torch.tensor([[2.0], [0.0]]), torch.tensor([3.5, 1.0])).tolist() == [2.25, 1.0]


def test_pair_loss_is_fp32_under_autocast():
    logits = torch.randn(2, 3).bfloat16()
    assert loss(logits, torch.tensor([0, 1])).dtype == torch.float32
    assert loss(logits[:, :1], torch.tensor([0.5, 1.5])).dtype == torch.float32


def test_predicted_classes_have_probabilities():
    logits = np.array([[0.0, 2.0], [1.0, -1.0]], dtype=np.float32)
    first, second = decode(logits, ANY, PAIRS, RTE)
    assert (first.id, first.label) == ("0", RTE.labels[1])
    assert first.scores == pytest.approx([0.1192029, 0.8807971])
    assert (second.id, second.label) == ("1", RTE.labels[0])
    assert sum(second.scores) == pytest.approx(1.0, abs=1e-12)


def test_regression_output_is_decoded_without_rounding_or_clipping():
    (prediction,) = decode(np.array([[5.5]], dtype=np.float32), ANY, PAIRS[:1], STSB)
    assert (prediction.label, prediction.scores) == (5.5, ())


def test_decoding_pairs_with_fewer_logits_than_examples_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        decode(np.zeros((1, 2), dtype=np.float32), ANY, PAIRS, RTE)


def test_task_of_single_texts_or_pairs_uses_the_pair_head():
    assert head_for(COLA) is PAIR


def test_a_task_with_an_unknown_head_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PairTask, "head", "dance")
    with pytest.raises(BenchError, match="glue/cola needs a dance head"):
        head_for(COLA)
