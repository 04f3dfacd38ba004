"""Tests of attention over packed rows against the formula: outputs, gradients and dropout."""

import math

import pytest
import torch
from torch import Tensor

from benchharness.encoder import cpu as attention
from benchharness.encoder.cpu import RandomBits, attend, predict_attend
from benchharness.encoder.packing import Attention, Packing

HEADS, SIZE = 3, 4
SCALE = 1 / math.sqrt(SIZE)
LENGTHS = {
    "like": [7, 5, 8, 6, 7],
    "far": [1, 17, 9, 2, 30, 8],
    "full": [8, 8, 16],
    "one": [5],
    "dot": [1],
}


def make_states(lengths: list[int], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(sum(lengths), HEADS, SIZE).to(dtype).requires_grad_() for _ in range(3)]


def make_packing(lengths: list[int]) -> Packing:
    return Packing.of((torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long())


def plain(states: list[Tensor], lengths: list[int], window: int = 1000) -> Tensor:
    """Compute the formula one sequence at a time."""
    outputs = []
    for query, key, value in zip(*(s.float().split(lengths) for s in states), strict=True):
        scores = torch.einsum("qhd,khd->hqk", query, key) * SCALE
        places = torch.arange(len(query))
        scores[:, (places[:, None] - places).abs() >= window] = -torch.inf
        outputs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), value))
    return torch.cat(outputs)


@pytest.mark.parametrize("chunk", [1, 500, 1 << 18])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_packed_attention_outputs_and_gradients_match_the_formula(
    lengths: list[int], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "CHUNK_SCORES", chunk)
    states, same = make_states(lengths), make_states(lengths)
    output = attend(*states, Attention(packing=make_packing(lengths), scale=SCALE))
    expected = plain(same, lengths)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    weights = torch.randn(output.shape)
    (output * weights).sum().backward()
    (expected * weights).sum().backward()
    for ours, theirs in zip(states, same, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("window", [1, 3, 8, 100])
def test_sliding_window_attention_ignores_tokens_outside_the_window(window: int) -> None:
    lengths = LENGTHS["far"]
    states, same = make_states(lengths), make_states(lengths)
    packing = make_packing(lengths)
    formula = Attention(packing=packing, scale=SCALE, window=window)
    output, expected = attend(*states, formula), plain(same, lengths, window)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    weights = torch.randn(output.shape)
    (output * weights).sum().backward()
    (expected * weights).sum().backward()
    for ours, theirs in zip(states, same, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)
    with torch.inference_mode():
        predicted = predict_attend(*states, formula)
    torch.testing.assert_close(predicted, expected, rtol=1e-5, atol=1e-6)


def test_attention_dropout_zeroes_probabilities_and_their_gradients() -> None:
    # One group in one part, so dropout draws in the order of the formula below.
    lengths = [16, 16, 16, 16]
    states, same = make_states(lengths), make_states(lengths)
    torch.manual_seed(5)
    output = attend(*states, Attention(packing=make_packing(lengths), scale=SCALE, rate=0.25))
    torch.manual_seed(5)
    kept = RandomBits().draw(torch.Size([4, HEADS, 16, 16]), 0.25) >= 0
    query, key, value = (s.view(4, 16, HEADS, SIZE).transpose(1, 2) for s in same)
    weights = (query @ key.mT * SCALE).softmax(-1) * kept / 0.75
    expected = (weights @ value).transpose(1, 2).reshape(output.shape)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    (output**2).sum().backward()
    (expected**2).sum().backward()
    assert not kept.all()
    for ours, theirs in zip(states, same, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_packed_attention_without_gradients_matches_the_formula(lengths: list[int]) -> None:
    states = [state.detach() for state in make_states(lengths)]
    output = predict_attend(*states, Attention(packing=make_packing(lengths), scale=SCALE))
    torch.testing.assert_close(output, plain(states, lengths), rtol=1e-5, atol=1e-6)


def test_packed_attention_in_bf16_is_close_to_fp32() -> None:
    lengths = LENGTHS["far"]
    states, exact = make_states(lengths, torch.bfloat16), make_states(lengths)
    outputs = []
    for each in (states, exact):
        torch.manual_seed(5)
        formula = Attention(packing=make_packing(lengths), scale=SCALE, rate=0.25)
        outputs.append(attend(*each, formula))
        outputs[-1].sum().backward()
    assert outputs[0].dtype == torch.bfloat16
    torch.testing.assert_close(outputs[0].float(), outputs[1], rtol=0.05, atol=0.03)
    for ours, theirs in zip(states, exact, strict=True):
        torch.testing.assert_close(ours.grad.float(), theirs.grad, rtol=0.05, atol=0.06)
