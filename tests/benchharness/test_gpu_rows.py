"""Tests of packed rows in their GPU layout, computed on a CPU.

Only the attention kernel differs on a GPU; tests marked `gpu` check it. Whole jobs are in
test_pretended_gpu.py: devices of tensors, and synchronization.
"""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder import cpu, cuda
from benchharness.encoder.packing import Attention, Packing
from benchharness.heads import pair
from benchharness.training import cuda as training_cuda
from benchharness.training.batching import tail_of
from benchharness.training.cuda import CastLinear, Casts
from benchharness.training.predict import PREDICTION_TOKENS, predict
from tests.helpers.parity import NETWORKS
from tests.helpers.pretend_gpu import GPU, pretended_gpu
from tests.helpers.training import CPU, begin_packed, gradients_of, having, weights_of

LENGTHS = [19, 3, 1, 30, 8, 17, 2, 25]


@pytest.mark.parametrize("kind", NETWORKS)
def test_prediction_synchronizes_the_gpu_once_for_all_logits(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    with pretended_gpu() as gpu:
        training = begin_packed("bert", kind, replace(CPU, device=GPU))
        for tokens in (2048, 40):
            monkeypatch.setitem(PREDICTION_TOKENS, "cuda", tokens)
            gpu.waits.clear()
            predict(training.network, training.tasks[0].features, training.compute, print)
            waits.append(gpu.waits.total())
    assert waits[0] == waits[1] > 0


@pytest.mark.parametrize(
    ("family", "kind", "most"),
    [
        *(("bert", kind, training_cuda.MOST) for kind in NETWORKS),
        ("modernbert", "tag", training_cuda.MOST),
        ("albert", "pair", training_cuda.MOST),
        ("gpt2", "pair", training_cuda.MOST),
        ("bert", "tag", 1),
    ],
)
def test_steps_of_a_cuda_graph_give_the_weights_of_ordinary_steps(
    family: str, kind: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use equal layouts for bit-identical weights: other tails and widths change rounding."""
    monkeypatch.setattr(training_cuda, "MOST", most)
    with pretended_gpu() as gpu:
        recorded, plain = (
            begin_packed(family, kind, replace(CPU, device=GPU, graphs=graphs))
            for graphs in (True, False)
        )
        plain._layout = recorded._layout  # type: ignore[misc]
        assert plain._graphs is None
        before, steps = weights_of(plain.network), plain.plan.steps
        for each in (recorded, plain):
            for _ in range(steps):
                each.step()
        after = weights_of(plain.network)
    assert (sum(gpu.replays) == steps) == (most > 1), "layouts beyond the most are not replayed"
    assert len(gpu.replays) <= most
    assert len(gpu.replays) < steps or kind == "choice", "no layout came twice"
    assert (after - before).abs().max() > 1e-3
    assert torch.equal(weights_of(recorded.network), after)
    losses = [torch.stack(each.meter.unread)[:, 0] for each in (recorded, plain)]
    assert torch.equal(*losses)


def test_recording_a_cuda_graph_changes_no_random_state_or_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pretended_gpu() as gpu:
        training = begin_packed("bert", "pair", replace(CPU, device=GPU, graphs=True), dropout=0.1)
        (task,), weights = training.tasks, training.weights
        (part,) = training.parts_of(task, np.arange(5))
        weights[0].grad = torch.ones_like(weights[0])
        # A weight that gets no gradient from any micro-batch.
        weights.append(nn.Parameter(torch.ones(1)))
        state, graphs = torch.get_rng_state(), cast("Any", training._graphs)
        graphs._record(part, training.network, task.targets, task.loss)
        assert torch.equal(torch.get_rng_state(), state)
        assert weights[0].grad.eq(1).all()
        assert not any(weight.grad.any() for weight in weights[1:-1])
        assert weights[-1].grad is None
        for trained in (True, True, False):
            weights[-1].requires_grad_(trained)
            graphs(training.network, task.targets, task.loss, part=part)
        monkeypatch.setattr(training_cuda, "MICRO_BATCH_TOKENS", 1)
        graphs(training.network, task.targets, task.loss, part=part)
    assert gpu.replays == [0, 2, 1], "a larger part is not replayed"


def test_cuda_graphs_are_disabled_for_a_pair_head_with_added_orders() -> None:
    """A graph would store where the first order of a batch ends, which differs between batches."""
    training = begin_packed("bert", "pair", replace(CPU, graphs=True))
    training.network.__class__ = pair.AddedNetwork
    assert training._graphs is None


def test_padding_of_packed_rows_gives_few_sizes_and_little_extra_work() -> None:
    generator = np.random.default_rng(1)
    lengths = np.clip(generator.lognormal(3.6, 0.5, (500, 32)).astype(int), 3, 128)
    tails = [tail_of(int(each.sum()), 128) for each in lengths]
    assert all(1 <= tail <= 128 for tail in tails)
    assert len({each.sum() + tail for each, tail in zip(lengths, tails, strict=True)}) <= 12
    assert sum(tails) / lengths.sum() < 0.07


# All weights are cast at once.


@pytest.mark.parametrize(
    ("family", "kind"), [("albert", "span"), ("bert", "pair"), ("deberta-v2", "pair")]
)
def test_joint_cast_of_all_weights_equals_autocast_bit_for_bit(
    family: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_cuda, "JOINED", ())
    compute = replace(CPU, precision="bf16")
    together, single = (begin_packed(family, kind, compute, dropout=0.1) for _ in range(2))
    names = [name for name, _ in single.network.named_parameters()]
    Casts([together.network])
    assert [name for name, _ in together.network.named_parameters()] == names
    frozen = [dict(each.network.named_parameters())[names[5]] for each in (together, single)]
    for weight in frozen:
        weight.requires_grad_(False)
    for each in (together, single):
        each.recipe = having(each.recipe, accumulation=2)
        torch.manual_seed(1)
        for _ in range(4):
            each.step()
    assert torch.equal(weights_of(together.network), weights_of(single.network))
    logits = [
        predict(each.network, each.tasks[0].features, compute, lambda _: None)
        for each in (together, single)
    ]
    assert np.array_equal(*logits), "predictions are made with the newest weights"


@pytest.mark.parametrize("family", ["bert", "distilbert", "albert", "megatron-bert", "mobilebert"])
def test_query_key_and_value_projections_are_one_matrix_product(family: str) -> None:
    """The gradient of the states is rounded once instead of once per layer, so it is as exact.

    MobileBERT computes values from other states than queries and keys.
    """
    in_bf16 = replace(CPU, precision="bf16")
    exact, single, joint = (begin_packed(family, "pair", how) for how in (CPU, in_bf16, in_bf16))
    Casts([joint.network])
    linear: Any = [module for module in joint.network.modules() if type(module) is CastLinear]
    assert {len(each.joint) for each in linear} == ({1} if family == "mobilebert" else {1, 3})
    gradients = []
    for each in (exact, single, joint):
        (task,) = each.tasks
        each._gradients(task, each.parts_of(task, np.arange(5)))
        gradients.append(gradients_of(each.network))
    apart = [(found - gradients[0]).norm() for found in gradients[1:]]
    assert apart[1] < 1.05 * apart[0] < 0.05 * gradients[0].norm()


def test_shared_networks_cast_weights_once_and_frozen_weights_get_no_gradient() -> None:
    """Use several networks that share one layer, as tasks share one encoder."""
    shared: Any = nn.Linear(4, 4).requires_grad_(False)
    networks = [nn.Sequential(shared, nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(2)]
    for each in networks:
        each[2].weight = each[1].weight
    casts, states = Casts(networks), torch.randn(3, 4)
    for each in networks:
        with torch.no_grad():
            shared.weight.mul_(2.0)
        with replace(CPU, precision="bf16").autocast():
            expected = states
            for layer in each:
                expected = functional.linear(expected, layer.weight, layer.bias)
            found = each(states)
        assert torch.equal(found, expected)
        weights = list(each.parameters())[2:]
        gradients = torch.autograd.grad(expected.sum(), weights)
        found.sum().backward()
        casts.collect()
        for weight, gradient in zip(weights, gradients, strict=True):
            torch.testing.assert_close(weight.grad, gradient, rtol=0.02, atol=0.02)
    assert {type(layer) for each in networks for layer in each} == {CastLinear}
    assert shared.weight.grad is None
    assert not any(each.requires_grad for each in shared.casts)


def test_autograd_creates_new_gradient_accumulators_in_each_training_step() -> None:
    """An accumulator belongs to one stream, so recording a graph on another stream would fail."""
    training = begin_packed("bert", "pair", replace(CPU, precision="bf16"))
    Casts([training.network])
    training.step()
    for weight in training.weights:
        accumulator(weight).metadata["from"] = "the first step"
    training.step()
    assert not any(accumulator(weight).metadata for weight in training.weights)


def accumulator(weight: Any) -> Any:
    """Return the autograd node that accumulates a weight's gradient."""
    return weight.view_as(weight).grad_fn.next_functions[0][0]


# Arguments of the attention kernels, which cannot run without a GPU.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [[3], [2, 1], LENGTHS])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_kernels_get_correct_arguments_and_no_length_above_the_number_of_tokens(
    dtype: torch.dtype, lengths: list[int], is_causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More tokens make the fp32 backward pass fail (pytorch issue 129523)."""
    told = []

    def tell(kernel: Any, *given: Any, **named: Any) -> Any:
        others = [each for each in given[3:] if each is not None]
        kinds = [(e.shape, e.dtype) if isinstance(e, Tensor) else e for e in others]
        told.append([*kinds, named])
        return kernel(*given, **named)

    for name in ("_efficient_attention_forward", "_flash_attention_forward"):
        monkeypatch.setattr(torch.ops.aten, name, partial(tell, getattr(torch.ops.aten, name)))
    known = Packing.of_lengths(np.array(lengths), 32, torch.device("meta"), tail=4)
    query, *others = (torch.empty(known.tokens, 3, 8, dtype=dtype, device="meta") for _ in range(3))
    is_flash = dtype == torch.bfloat16
    window = 8 if is_flash and not is_causal else None
    formula = Attention(packing=known, scale=0.5, rate=0.1, window=window, is_causal=is_causal)
    for asked in (query, query[: known.sequences]):
        found = cuda._by_kernel(asked, *others, formula)
        assert (found.shape, found.dtype) == (asked.shape, dtype)
    offsets, longest = ((len(lengths) + 2,), torch.int32), min(32, known.tokens)
    reach = window and window - 1
    sides = {"window_size_left": reach, "window_size_right": reach} if is_flash else {}
    # `not is_flash`: the other kernel returns sums for the backward pass; FlashAttention's flag in
    # this position would return a debugging mask.
    rest = [longest, 0.1, is_causal, not is_flash, {"scale": 0.5} | sides]
    assert told == [[offsets, offsets, most, *rest] for most in (longest, 1)]


@pytest.mark.parametrize("seen", [{}, {"window": 5}, {"is_causal": True}])
def test_gpu_attention_on_padded_rows_equals_cpu_attention(seen: dict[str, Any]) -> None:
    known = Packing.of_lengths(np.array(LENGTHS), 32, CPU.device)
    states = [torch.randn(known.tokens, 2, 8, requires_grad=True) for _ in range(3)]
    formula = Attention(packing=known, scale=0.2, **seen)
    torch.testing.assert_close(cuda.attend(*states, formula), cpu.attend(*states, formula))
    formula = replace(formula, is_causal=False)
    firsts = [each.attend_first(*states, formula) for each in (cuda, cpu)]
    torch.testing.assert_close(*firsts)


@pytest.mark.parametrize(
    ("dtype", "size", "window", "has_kernel"),
    [
        *((torch.float32, *case) for case in ((12, None, True), (10, None, False), (12, 8, False))),
        *((torch.bfloat16, *case) for case in ((256, 8, True), (12, 8, False), (264, 8, False))),
    ],
)
def test_attention_kernels_are_used_for_supported_dtypes_sizes_and_windows(
    dtype: torch.dtype, size: int, window: int | None, has_kernel: bool, monkeypatch: Any
) -> None:
    query: Any = SimpleNamespace(dtype=dtype, shape=(9, 2, size), device=GPU, is_cuda=True)
    for capability, of_bf16 in (((8, 0), has_kernel), ((7, 5), False)):
        monkeypatch.setattr(cuda, "_capability", lambda _, told=capability: told)
        expected = of_bf16 if dtype == torch.bfloat16 else has_kernel
        assert cuda._has_kernel(query, window) is expected
    query.is_cuda = False
    assert not cuda._has_kernel(query, window)
