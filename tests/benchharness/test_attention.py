"""Attention in parts gives what the plain formula gives: outputs, gradients, dropout, masks."""

import math

import pytest
import torch
from checkpoints import make_config
from torch import Tensor
from transformers import AutoModel

from benchharness import attention
from benchharness.attention import NAME, attend, use_cpu_attention
from benchharness.fast_dropout import draw_dropped

ROWS, HEADS, TOKENS, SIZE = 5, 3, 7, 4
SCALE = 1 / math.sqrt(SIZE)
DROPOUT = {"albert": {"attention_probs_dropout_prob": 0.1}}
"""ALBERT has none by default."""


def make_states(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    shape = (ROWS, HEADS, TOKENS, SIZE)
    return [torch.randn(shape).to(dtype).requires_grad_() for _ in range(3)]


def make_mask() -> Tensor:
    lengths = torch.tensor([7, 1, 4, 6, 2])
    return (torch.arange(TOKENS) < lengths[:, None])[:, None, None].expand(-1, 1, TOKENS, -1)


def plain(  # noqa: PLR0917  (as attend)
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropped: Tensor, rate: float
) -> Tensor:
    """The formula, as one reads it."""
    scores = query.float() @ key.float().mT * SCALE
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return (scores.softmax(-1) * (dropped == 0) / (1 - rate)) @ value.float()


@pytest.mark.parametrize("chunk", [1, 2 * HEADS * TOKENS * TOKENS, 1 << 18])
@pytest.mark.parametrize("mask", [None, make_mask()], ids=["all", "padded"])
def test_outputs_and_gradients_are_those_of_the_formula(
    mask: Tensor | None, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "CHUNK_SCORES", chunk)
    rows = max(1, chunk // (HEADS * TOKENS * TOKENS))
    states, same = make_states(), make_states()
    torch.manual_seed(5)
    output = attend(*states, mask, SCALE, 0.25)
    torch.manual_seed(5)
    shapes = [len(part) for part in torch.arange(ROWS).split(rows)]
    drawn = [draw_dropped(torch.Size([n, HEADS, TOKENS, TOKENS]), 0.25) for n in shapes]
    expected = plain(*same, mask, torch.cat(drawn), 0.25)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    weights = torch.randn(output.shape)
    (output * weights).sum().backward()
    (expected * weights).sum().backward()
    for ours, theirs in zip(states, same, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def test_bf16_is_near_fp32() -> None:
    states, exact = make_states(torch.bfloat16), make_states()
    torch.manual_seed(5)
    output = attend(*states, make_mask(), SCALE, 0.25)
    torch.manual_seed(5)
    expected = attend(*exact, make_mask(), SCALE, 0.25)
    output.sum().backward()
    expected.sum().backward()
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), expected, rtol=0.05, atol=0.02)
    for ours, theirs in zip(states, exact, strict=True):
        torch.testing.assert_close(ours.grad.float(), theirs.grad, rtol=0.05, atol=0.06)


def test_a_mask_of_numbers_is_added() -> None:
    states = make_states()
    numbers = torch.zeros(1, 1, TOKENS, TOKENS).masked_fill_(~make_mask()[3], -1e9)
    flags = make_mask()[3:4]
    torch.testing.assert_close(
        attend(*states, numbers, SCALE, 0.0), attend(*states, flags, SCALE, 0.0)
    )


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "albert"])
def test_a_family_trains_with_it(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = AutoModel.from_config(make_config(family, **DROPOUT.get(family, {}))).train()
    use_cpu_attention(network)
    assert network.config._attn_implementation == NAME
    calls = []
    monkeypatch.setattr(attention, "attend", lambda *args: calls.append(args) or attend(*args))
    inputs = {"input_ids": torch.full((2, 9), 5), "attention_mask": torch.ones(2, 9).long()}
    inputs["attention_mask"][1, 4:] = 0
    states = network(**inputs)[0]
    states[:, 0].sum().backward()
    assert len(calls) == 2
    network.eval()
    with torch.inference_mode():
        network(**inputs)
    assert len(calls) == 2


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_hidden_states_stay_what_they_were(family: str) -> None:
    config = make_config(family, attention_probs_dropout_prob=1e-9, hidden_dropout_prob=0.0)
    config.update({"attention_dropout": 1e-9, "dropout": 0.0})
    network = AutoModel.from_config(config).train()
    inputs = {
        "input_ids": torch.randint(5, 90, (3, 11)),
        "attention_mask": torch.ones(3, 11).long(),
    }
    inputs["attention_mask"][1, 6:] = 0
    expected = network(**inputs)[0]
    use_cpu_attention(network)
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(network(**inputs)[0][real], expected[real], rtol=1e-5, atol=1e-6)


def test_a_family_without_the_interface_keeps_its_own() -> None:
    network = AutoModel.from_config(make_config("mpnet"))
    use_cpu_attention(network)
    assert network.config._attn_implementation != NAME
