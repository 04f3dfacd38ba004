"""Tests of fast CPU dropout: its rate, its seed and the scale of the kept values."""

import numpy as np
import pytest
import torch
from torch import nn

from benchharness.encoder.cpu import FastDropout, RandomBits, attend, use_fast_dropout
from benchharness.encoder.packing import Attention, Packing


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.15, 0.5])
def test_fast_dropout_drops_values_with_the_given_probability(rate: float) -> None:
    torch.manual_seed(1)
    dropped = RandomBits().draw(torch.Size([1000, 1001]), rate) < 0
    spread = (rate * (1 - rate) / dropped.numel()) ** 0.5
    assert dropped.float().mean().item() == pytest.approx(rate, abs=5 * spread + 1 / 65536)


def test_fast_dropout_drops_values_independently() -> None:
    torch.manual_seed(1)
    dropped = (RandomBits().draw(torch.Size([100_000, 4]), 0.5) < 0).double()
    correlations = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlations.abs().max() < 0.02
    following = torch.corrcoef(torch.stack([dropped[:-1, 0], dropped[1:, 0]]))[0, 1]
    assert following.abs() < 0.02


def test_fast_dropout_is_reproducible_with_a_seed() -> None:
    torch.manual_seed(3)
    bits = RandomBits()
    first, second, third = (each.draw(torch.Size([50]), 0.3) for each in (bits, bits, RandomBits()))
    torch.manual_seed(3)
    assert torch.equal(RandomBits().draw(torch.Size([50]), 0.3), first)
    assert not torch.equal(first, second)
    assert not torch.equal(first, third)


class EveryNumber:
    """A generator that draws each 16-bit number equally often, without random noise."""

    def __init__(self, _seed: int) -> None: ...

    def random_raw(self, count: int) -> np.ndarray:
        # The factor is odd, so each of the 65536 numbers occurs once in 65536 draws.
        mixed = np.arange(4 * count) * 40503
        return mixed.astype(np.uint16).view(np.uint64)


RATES = [0.05, 0.1, 0.15, 0.25, 0.3, 0.5]
TYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rate", RATES)
def test_fast_dropout_preserves_the_mean(
    rate: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numpy.random.SFC64", EveryNumber)
    output = FastDropout(rate)(torch.ones(153 * 65536, dtype=dtype))
    assert output.mean(dtype=torch.float64).item() == pytest.approx(1, abs=1e-4)
    assert output.eq(0).double().mean().item() == pytest.approx(rate, abs=0.004)


@pytest.mark.parametrize("rate", RATES)
def test_fast_attention_dropout_preserves_the_mean(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bf16 the mean differs by the rounding of values near 1."""
    monkeypatch.setattr("numpy.random.SFC64", EveryNumber)
    packing = Packing.of_lengths(np.full(64, 256), 256, torch.device("cpu"))
    value = torch.ones(64 * 256, 1, 8, requires_grad=True)
    same = torch.zeros(64 * 256, 1, 8)  # equal keys, so that attention is uniform over all tokens
    attended = attend(same, same, value, Attention(packing=packing, scale=1.0, rate=rate)).double()
    assert attended.mean().item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("dtype", TYPES)
def test_fast_dropout_scales_kept_values_and_their_gradients(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    states = torch.ones(64, 63, dtype=dtype, requires_grad=True)
    output = FastDropout(0.1)(states)
    output.sum().backward()
    assert output.dtype == dtype
    assert set(output.unique().tolist()) == {0.0, torch.tensor(1 / 0.9, dtype=dtype).item()}
    assert torch.equal(states.grad, output.detach())


def test_fast_dropout_is_off_in_evaluation_and_at_rate_zero() -> None:
    states = torch.randn(5, 7)
    assert FastDropout(0.5).eval()(states) is states
    assert FastDropout(0.0)(states) is states


def test_fast_dropout_replaces_every_dropout_module_of_a_network() -> None:
    inner = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.2))
    network = nn.ModuleDict({"inner": inner, "last": nn.Dropout(0.3), "all": nn.Dropout(1.0)})
    use_fast_dropout(network)
    rates = {name: m.p for name, m in network.named_modules() if isinstance(m, FastDropout)}
    assert rates == {"inner.1": 0.2, "last": 0.3}
    assert network["all"](torch.ones(3)).sum() == 0
