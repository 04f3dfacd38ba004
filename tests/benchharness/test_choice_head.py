from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from benchharness.encoder import load_encoder
from benchharness.errors import DataError
from benchharness.heads import Limits, choice
from benchharness.heads.choice import decode, encode, loss, network, targets
from benchharness.tasks.examples import ChoiceExample
from benchharness.tasks.task import ChoiceTask
from benchharness.training import batching
from benchharness.training.batching import pad
from benchharness.training.predict import predict
from tests.helpers.made_tokenizers import KINDS, make_tokenizer
from tests.helpers.training import CPU, begin, fit, having
from tests.helpers.training import RECIPE as USUAL

TASK: ChoiceTask = SimpleNamespace(name="race/all")  # type: ignore[assignment]
LIMITS = Limits(max_tokens=64)
RECIPE = having(USUAL, learning_rate=2e-3, epochs=10, batch_size=8, weight_decay=0.0, max_tokens=64)


def example(*options: str, context: str = "A bird sat.", question: str = "Then it", gold: int = 0):
    return ChoiceExample(id="c", context=context, question=question, options=options, gold=(gold,))


def rows(examples: list[ChoiceExample], limits: Limits = LIMITS) -> list[str]:
    tokenizer = make_tokenizer("wordpiece")
    features = encode(examples, tokenizer, limits)
    edges = zip(features.starts, features.starts[1:], strict=False)
    return [tokenizer.decode(features.token_ids[a:b]) for a, b in edges]


# Encoding of the options.


def test_each_answer_option_is_encoded_with_the_context_as_one_row():
    first = "[CLS] a bird sat. [SEP] then it sang [SEP]"
    second = "[CLS] a bird sat. [SEP] then it flew away [SEP]"
    assert rows([example("sang", "flew away")]) == [first, second]


def test_row_of_an_option_equals_the_encoding_of_the_tokenizer():
    for kind in KINDS:
        tokenizer = make_tokenizer(kind)
        features = encode([example("sang")], tokenizer, LIMITS)
        expected = tokenizer("A bird sat.", "Then it sang")
        assert features.token_ids.tolist() == expected["input_ids"]
        if features.token_types is not None:
            assert features.token_types.tolist() == expected["token_type_ids"]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("the _ sang", "the bird sang"),
        ("the @placeholder sang", "the bird sang"),
        ("", "bird"),
        ("who sang?", "who sang? bird"),
    ],
)
def test_answer_option_fills_the_blank_or_follows_the_question(question: str, text: str):
    (row,) = rows([example("bird", question=question)])
    assert row == f"[CLS] a bird sat. [SEP] {text} [SEP]"


def test_each_example_has_one_row_per_answer_option():
    features = encode(
        [example("a", "b"), example("a"), example(*"abcde")], make_tokenizer("bytes"), LIMITS
    )
    assert features.item_starts.tolist() == [0, 2, 3, 8]
    assert features.item_sizes.tolist() == [2, 1, 5]
    assert features.rows_of(np.array([2, 0])).tolist() == [3, 4, 5, 6, 7, 0, 1]


def test_choice_context_is_truncated_before_the_start_of_the_question():
    long = "the tower " * 50
    (row,) = rows([example("storm", context=long)], Limits(max_tokens=16))
    assert row.endswith("[SEP] then it storm [SEP]")
    assert row.startswith("[CLS] the tower")
    (row,) = rows([example("storm", question=long)], Limits(max_tokens=12))
    assert row.startswith("[CLS] [SEP]")
    assert row.endswith("tower storm [SEP]")


def test_answer_option_longer_than_the_maximum_length_is_truncated():
    features = encode(
        [example("the tower " * 99, "b")], make_tokenizer("bytes"), Limits(max_tokens=9)
    )
    assert features.lengths.max() == 9


def test_choice_example_without_options_is_an_error():
    with pytest.raises(DataError, match="c has no options"):
        encode([example()], make_tokenizer("bytes"), LIMITS)


any_text = st.text(st.characters(codec=None), max_size=30)


@given(any_text, any_text, st.lists(any_text, min_size=1, max_size=4), st.sampled_from(KINDS))
@settings(deadline=None)
def test_options_with_any_text_are_encoded_within_the_maximum_length(
    context: str, question: str, options: list[str], kind: str
):
    examples = [example(*options, context=context, question=question)]
    features = encode(examples, make_tokenizer(kind), Limits(max_tokens=12))
    assert len(features) == len(options)
    assert features.lengths.max() <= 12


# Training targets and loss.


def test_training_target_is_the_first_of_several_right_options():
    record = ChoiceExample(id="r", context="", question="", options=("a", "b", "c"), gold=(2, 1))
    assert targets(None, [record, example("a", "b", gold=1)], TASK).tolist() == [2, 1]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (None, "right option of example c in race/all is not published"),
        ((), r"2 options, .* are \(\)"),
        ((2,), "2 options"),
    ],
)
def test_training_example_without_a_right_option_is_an_error(
    gold: tuple[int, ...] | None, message: str
):
    wrong = ChoiceExample(id="c", context="", question="", options=("a", "b"), gold=gold)
    with pytest.raises(DataError, match=message):
        targets(None, [wrong], TASK)  # type: ignore[arg-type]


def test_choice_loss_is_the_cross_entropy_over_the_options_of_each_example():
    logits = torch.tensor([[1.0, 2.0, -torch.inf], [0.0, 1.0, 2.0]])
    losses = loss(logits.bfloat16(), torch.tensor([1, 0]))
    expected = [
        functional.cross_entropy(torch.tensor([[1.0, 2.0]]), torch.tensor([1])),
        functional.cross_entropy(torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([0])),
    ]
    torch.testing.assert_close(losses, torch.stack(expected))


def test_choice_network_learns_to_choose_among_any_number_of_options():
    encoder = load_encoder("builtin:tiny", None, seed=1)
    kinds = [("the", "not"), ("a", "not", "on"), ("not",), ("not", "the", "a", "on")]
    examples = [
        example(*options, context="it", question="", gold=options.index("not"))
        for options in kinds * 10
    ]
    features = encode(examples, encoder.tokenizer, LIMITS)
    body = network(encoder, TASK)
    data = features, targets(features, examples, TASK)
    fitted = fit(begin(body, RECIPE, data, loss=loss), dict)
    assert (fitted.step, fitted.examples) == (50, 400)
    assert fitted.curve[-1].loss < 0.1 < fitted.curve[0].loss
    predictions = decode(predict(body, features, CPU, lambda _: None), features, examples, TASK)
    assert [p.option for p in predictions] == [e.gold[0] for e in examples if e.gold]


# Computation of many options within limited memory.


def gradients(monkeypatch: pytest.MonkeyPatch, bound: int) -> tuple[torch.Tensor, list[int]]:
    """Return the gradients of one example with many options, and the rows per pass."""
    encoder = load_encoder("builtin:tiny", None, seed=1)
    body = network(encoder, TASK).train()
    passes: list[int] = []
    encoder.network.register_forward_pre_hook(
        lambda _module, _args, inputs: passes.append(len(inputs["input_ids"])), with_kwargs=True
    )
    monkeypatch.setattr(choice, "MICRO_BATCH_TOKENS", bound)
    features = encode([example(*"abcdefghij")], encoder.tokenizer, LIMITS)
    inputs = {name: torch.from_numpy(a) for name, a in pad(features, np.arange(10)).items()}
    for layer in body.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    loss(body(**inputs)[None], torch.tensor([3])).sum().backward()
    return torch.cat([weight.grad.ravel() for weight in body.parameters()]), passes


def test_many_answer_options_are_computed_in_parts_with_equal_gradients(
    monkeypatch: pytest.MonkeyPatch,
):
    whole, once = gradients(monkeypatch, 10**9)
    parts, passes = gradients(monkeypatch, 4 * 16)
    assert once == [10]
    assert sorted(passes) == [2, 2, 4, 4, 4, 4], "each part once, and again on the way back"
    torch.testing.assert_close(parts, whole, atol=1e-6, rtol=1e-4)


def test_answer_options_recomputed_in_the_backward_pass_have_equal_dropout(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(choice, "MICRO_BATCH_TOKENS", 32)
    encoder = load_encoder("builtin:tiny", None, seed=1)
    body = network(encoder, TASK).train()
    features = encode([example(*"abcd")], encoder.tokenizer, LIMITS)
    inputs = {name: torch.from_numpy(a) for name, a in pad(features, np.arange(4)).items()}
    states: list[torch.Tensor] = []
    body.classifier.register_forward_pre_hook(lambda _module, args: states.append(args[0].detach()))
    body(**inputs).sum().backward()
    forward, backward = states[: len(states) // 2], states[len(states) // 2 :]
    for state in forward:
        assert any(torch.equal(state, again) for again in backward)


def test_all_options_of_an_example_are_in_one_micro_batch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batching, "MICRO_BATCH_TOKENS", 100)
    lengths, sizes = np.array([16, 16, 30, 8, 8]), np.array([2, 9, 4, 1, 3])
    parts = batching.cut_by_length(np.arange(5), lengths, 1, 10**6, sizes)
    assert sorted(np.concatenate(parts)) == [0, 1, 2, 3, 4]
    assert len(parts) == 5, "19 rows of 32 tokens are six times the bound"


# Decoding of predictions.


def test_predicted_probabilities_are_over_the_options_of_each_example():
    examples = [example("a", "b"), example("c"), example("d", "e", "f")]
    features = encode(examples, make_tokenizer("bytes"), LIMITS)
    logits = np.array([1000.0, 1000.0, -5.0, 0.0, 2.0, 1.0], dtype=np.float32)
    first, second, third = decode(logits, features, examples, TASK)
    assert (first.option, first.scores) == (0, (0.5, 0.5))
    assert (second.option, second.scores) == (0, (1.0,))
    assert third.option == 1
    assert third.scores == pytest.approx((0.0900306, 0.6652410, 0.2447285))
