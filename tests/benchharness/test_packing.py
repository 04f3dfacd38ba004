"""Tests that an encoder has equal states and gradients with packed rows and padded batches.

Only the attention kernel differs on a GPU; tests marked `gpu` check it.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModel, AutoModelForSeq2SeqLM

from benchharness.encoder import FAMILIES as FIRST_TOKEN
from benchharness.encoder import packing, use_first_token
from benchharness.encoder.cpu import HeadRows
from benchharness.encoder.network import fix_attention
from benchharness.encoder.packing import PACKABLE, PACKING, Packing, is_packed, use_packed_rows
from benchharness.training.batching import Features
from benchharness.training.compute import Layout, Part
from tests.helpers.checkpoints import LENGTHS
from tests.helpers.families import PACKED, RATES, make_config, make_network
from tests.helpers.soak import in_part
from tests.helpers.training import CPU

MIXED = [19, 3, 1, 30, 8, 17, 2, 25]
"""Row lengths above and below ModernBERT's local attention window."""

TRIED = [*sorted(PACKABLE), "deberta-v2", "gpt2", "mobilebert"]
"""One family with packed layers per kind of attention."""

LAYOUTS: tuple[Layout, ...] = ("packed", "bucket")

CASES = [
    *((family, "cpu", "packed") for family in TRIED),
    *((family, "cuda", layout) for family in PACKED for layout in LAYOUTS),
]
"""Family, device whose attention is used, and layout of the rows."""

RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "share_att_key": True}


def twins(family: str, device: str = "cuda", rate: float = 0.0) -> tuple[Any, Any]:
    """Return one network twice, without a pooler: the first uses packed rows."""
    torch.manual_seed(3)
    padded = make_network(make_config(family, **dict.fromkeys(RATES, rate))).train()
    fix_attention(padded)
    padded.pooler = None
    ours = copy.deepcopy(padded)
    if family in PACKABLE:
        padded.set_attn_implementation("eager")
    use_packed_rows(ours, device)
    assert is_packed(ours)
    return ours, padded


def rows_of(config: Any, lengths: Sequence[int], layout: Layout = "packed") -> Part:
    """Return rows of the given lengths."""
    total = sum(lengths)
    ids = np.random.default_rng(total).integers(5, 90, total).astype(np.int32)
    features = Features(
        token_ids=ids,
        token_types=ids % 2 if getattr(config, "type_vocab_size", 0) > 1 else None,
        starts=np.cumsum([0, *lengths]),
        pad_id=config.pad_token_id or 0,
        max_tokens=64,
    )
    return Part.of(features, np.arange(len(lengths)), CPU.device, layout=layout)


def states_of(ours: Any, padded: Any, *how: Any) -> tuple[Tensor, Tensor]:
    """Return the states of both networks for the real tokens, or for the first tokens."""
    part = rows_of(padded.config, *how)
    with FixedDropout(part.inputs["packing"]):
        states = ours(**part.inputs)[0]
    with FixedDropout(part.inputs["packing"]):
        expected = padded(**unpacked(part))[0][:, : states.shape[1]]
    real = part.tensors["attention_mask"].bool()[:, : states.shape[1]]
    assert padded.config.model_type not in PACKABLE or not states[~real].any()
    return states[real], expected[real]


def unpacked(part: Part) -> dict[str, Tensor]:
    """Return the inputs for a padded network."""
    return {name: part.tensors[name] for name in part.named}


def compare(ours: Any, padded: Any, *how: Any) -> None:
    """Compare states, and gradients by name, relative to the largest gradient."""
    states, expected = states_of(ours, padded, *how)
    torch.testing.assert_close(states, expected, rtol=1e-5, atol=1e-5, msg=str(how))
    weights = torch.linspace(-1, 1, expected.numel()).view(expected.shape)
    for network, each in ((ours, states), (padded, expected)):
        network.zero_grad()
        (each * weights).sum().backward()
    gradients = {name: weight.grad for name, weight in padded.named_parameters()}
    size = max(float(g.abs().max()) for g in gradients.values() if g is not None)
    for name, weight in ours.named_parameters():
        assert (weight.grad is None) == (gradients[name] is None), name
        if weight.grad is not None:
            torch.testing.assert_close(
                weight.grad / size, gradients[name] / size, rtol=0, atol=1e-5
            )


class FixedDropout(TorchDispatchMode):
    """A mode that makes the masks of the n-th dropout equal for padded and packed rows.

    On a CPU, dropout draws with `bernoulli_`: for states (rows, width, size) or packed (1, tokens,
    size), for probabilities (rows, heads, width, width).
    """

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self._packing, self._calls = packing, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.overloadpacket is not torch.ops.aten.bernoulli_:
            return func(*args, **(kwargs or {}))
        self._calls += 1
        generator = torch.Generator().manual_seed(self._calls)
        noise, rows, width = args[0], self._packing.rows, self._packing.width
        is_packed_row = noise.shape[0] == 1 and noise.ndim == 3
        shape = (rows, width, noise.shape[-1]) if is_packed_row else noise.shape
        drawn = (torch.rand(shape, generator=generator) < args[1]).to(noise.dtype)
        if is_packed_row:
            drawn = drawn.flatten(0, 1)[self._packing.places][None]
        return noise.copy_(drawn)


@pytest.mark.parametrize(("family", "device", "layout"), in_part(CASES, [*CASES][::3]))
def test_packed_states_and_gradients_equal_those_of_padded_rows(
    family: str, device: str, layout: Layout
) -> None:
    networks = twins(family, device)
    for lengths in (MIXED, *LENGTHS.values()):
        compare(*networks, lengths, layout)


@pytest.mark.parametrize(
    ("family", "device", "layout"), [case for case in CASES if case[0] in FIRST_TOKEN]
)
def test_packed_first_token_layer_has_the_states_and_gradients_of_padded_rows(
    family: str, device: str, layout: Layout
) -> None:
    ours, padded = twins(family, device)
    use_first_token(ours)
    for lengths in (MIXED, *LENGTHS.values()):
        compare(ours, padded, lengths, layout)


@pytest.mark.parametrize("family", [*sorted(PACKABLE), "deberta-v2", "gpt2", "mpnet", "t5"])
def test_packed_dropout_with_equal_masks_gives_equal_states_and_gradients(family: str) -> None:
    ours, padded = twins(family, rate=0.3)
    compare(ours, padded, MIXED)
    dropped = states_of(ours, padded, MIXED)[0]
    kept = states_of(ours.eval(), padded, MIXED)[0]
    assert (dropped - kept).abs().max() > 0.1, "dropout did nothing"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("family", [*sorted(PACKABLE), "deberta", "mobilebert", "t5"])
def test_packed_bf16_states_are_close_to_those_of_padded_rows(family: str, device: str) -> None:
    ours, padded = twins(family, device)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states, expected = (each.float() for each in states_of(ours, padded, MIXED))
    assert (states - expected).norm() < 0.03 * expected.norm()
    states.square().sum().backward()
    assert all(w.grad.isfinite().all() for w in ours.parameters() if w.grad is not None)


def compare_random_batches(count: int, seed: int) -> None:
    """Compare all families in turn on random batches, with and without tails."""
    generator = np.random.default_rng(seed)
    networks = [twins(family) for family in PACKED]
    for number in range(count):
        lengths = generator.integers(1, generator.integers(2, 65), generator.integers(1, 13))
        layout = "bucket" if number % 2 else "packed"
        compare(*networks[number % len(networks)], lengths.tolist(), layout)


def test_packed_random_batches_have_the_states_and_gradients_of_padded_ones() -> None:
    compare_random_batches(2 * len(PACKED) + 1, seed=1)


@pytest.mark.soak
def test_states_of_1000_packed_random_batches_equal_those_of_padded_batches() -> None:
    compare_random_batches(1001, seed=2)


@pytest.mark.parametrize("family", TRIED)
def test_packed_prediction_has_the_hidden_states_of_padded_rows(family: str) -> None:
    packed, padded = (network.eval() for network in twins(family, "cpu"))
    part = rows_of(padded.config, LENGTHS["mixed"])
    real = part.tensors["attention_mask"].bool()
    with torch.inference_mode():
        output = packed(**part.inputs, output_hidden_states=True)
        expected = padded(**unpacked(part), output_hidden_states=True)
    for ours, theirs in zip(output.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(ours[real], theirs[real], rtol=1e-5, atol=1e-5)


def test_error_in_the_forward_pass_resets_the_packing_of_rows() -> None:
    network, _ = twins("bert", "cpu")
    part = rows_of(network.config, [3, 2])
    part.tensors["input_ids"][0, 0] = 10**6
    with pytest.raises(IndexError):
        network(**part.inputs)
    assert PACKING.get() is None


def test_unsupported_family_is_not_packed_and_keeps_its_attention() -> None:
    network = AutoModel.from_config(make_config("convbert"))
    use_packed_rows(network, "cpu")
    assert "benchharness" not in network.config._attn_implementation
    assert not is_packed(network)


def test_layers_with_an_unknown_attention_class_are_not_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rename the class, as another version of transformers may do."""
    monkeypatch.setattr(packing, "LAYERS", {"mpnet": frozenset({"Unknown"})})
    network = make_network(make_config("mpnet")).eval()
    inputs = unpacked(rows_of(network.config, LENGTHS["mixed"]))
    expected = network(**inputs)[0]
    use_packed_rows(network, "cpu")
    assert not is_packed(network)
    assert torch.equal(network(**inputs)[0], expected)


def test_encoder_decoder_model_is_not_packed() -> None:
    network = AutoModelForSeq2SeqLM.from_config(make_config("t5"))
    use_packed_rows(network, "cpu")
    assert not is_packed(network)


@pytest.mark.parametrize("width", [24, 40, 70])
def test_packed_deberta_computes_only_relative_positions_within_the_row_length(width: int) -> None:
    """Distances up to 32, half of the buckets, have a bucket each; the table has 128 rows."""
    config = make_config("deberta-v2", position_buckets=64, max_position_embeddings=128, **RELATIVE)
    padded = AutoModel.from_config(config).eval()
    packed = copy.deepcopy(padded)
    use_packed_rows(packed, "cpu")
    rows = []
    for module in packed.modules():
        if hasattr(module, "pos_ebd_size"):
            module.pos_dropout.register_forward_hook(lambda _, args, __: rows.append(len(args[0])))
    inputs = unpacked(rows_of(config, [width, 3]))
    real = inputs["attention_mask"].bool()
    with torch.inference_mode():
        states, expected = packed(**inputs)[0], padded(**inputs)[0]
    torch.testing.assert_close(states[real], expected[real], rtol=1e-5, atol=1e-5)
    assert rows == [48 if width == 24 else 128] * 2
    # The position ids that prediction has cached must also work in training.
    packed.train()(**inputs)[0].sum().backward()


def test_width_groups_of_packed_rows_contain_every_row_and_token_once() -> None:
    lengths = torch.tensor([9, 1, 33, 16, 2, 40, 1])
    known = Packing.of((torch.arange(40) < lengths[:, None]).long())
    groups = HeadRows.of(known, 1).groups
    assert sorted(torch.cat([group.rows for group in groups]).tolist()) == list(range(7))
    for group in groups:
        real = torch.ones(len(group.rows), group.width) if group.is_real is None else group.is_real
        assert real.sum(1).tolist() == lengths[group.rows].tolist()
        assert group.width % 8 == 0
