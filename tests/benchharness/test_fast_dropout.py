"""Dropout for CPUs drops as often as it should, repeats with a seed, and scales what is kept."""

import pytest
import torch
from torch import nn

from benchharness.encoder.cpu import FastDropout, RandomBits, use_fast_dropout


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.15, 0.5])
def test_drops_with_its_probability(rate: float) -> None:
    torch.manual_seed(1)
    dropped = RandomBits().draw(torch.Size([1000, 1001]), rate) < 0
    spread = (rate * (1 - rate) / dropped.numel()) ** 0.5
    assert dropped.float().mean().item() == pytest.approx(rate, abs=5 * spread + 1 / 65536)


def test_neighbours_and_the_four_of_a_word_are_independent() -> None:
    torch.manual_seed(1)
    dropped = (RandomBits().draw(torch.Size([100_000, 4]), 0.5) < 0).double()
    correlations = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlations.abs().max() < 0.02
    following = torch.corrcoef(torch.stack([dropped[:-1, 0], dropped[1:, 0]]))[0, 1]
    assert following.abs() < 0.02


def test_the_same_seed_drops_the_same() -> None:
    torch.manual_seed(3)
    bits = RandomBits()
    first, second, third = (each.draw(torch.Size([50]), 0.3) for each in (bits, bits, RandomBits()))
    torch.manual_seed(3)
    assert torch.equal(RandomBits().draw(torch.Size([50]), 0.3), first)
    assert not torch.equal(first, second)
    assert not torch.equal(first, third)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scales_what_is_kept_and_its_gradient(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    states = torch.ones(64, 63, dtype=dtype, requires_grad=True)
    output = FastDropout(0.1)(states)
    output.sum().backward()
    scale = nn.functional.dropout(torch.ones(99, dtype=torch.bfloat16), 0.1).max().item()
    assert output.dtype == dtype
    assert set(output.unique().tolist()) == {0.0, scale}
    assert torch.equal(states.grad, output.detach())


def test_does_nothing_in_evaluation_or_at_rate_zero() -> None:
    states = torch.randn(5, 7)
    assert FastDropout(0.5).eval()(states) is states
    assert FastDropout(0.0)(states) is states


def test_takes_the_place_of_every_dropout_of_a_network() -> None:
    inner = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.2))
    network = nn.ModuleDict({"inner": inner, "last": nn.Dropout(0.3), "all": nn.Dropout(1.0)})
    use_fast_dropout(network)
    rates = {name: m.p for name, m in network.named_modules() if isinstance(m, FastDropout)}
    assert rates == {"inner.1": 0.2, "last": 0.3}
    assert network["all"](torch.ones(3)).sum() == 0
