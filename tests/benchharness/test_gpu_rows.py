"""Packed rows as a GPU computes them, on a CPU: the same states, losses, gradients, and no waiting.

What differs on a GPU is the kernel of attention alone, and tests marked `gpu` hold that.
"""

import copy
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from benchharness.encoder import FAMILIES, cuda, use_first_token
from benchharness.encoder.packing import PACKABLE, Attention, Packing, is_packed, use_packed_rows
from benchharness.heads import choice, pair, span, tag
from benchharness.recipes.classes import LACKING
from benchharness.training import cuda as training_cuda
from benchharness.training.batching import Features, tail_of
from benchharness.training.compute import Part
from benchharness.training.cuda import CastLinear, Casts
from benchharness.training.loop import Training
from benchharness.training.predict import PREDICTION_TOKENS, predict
from tests.helpers.device_stand_in import Waits, recorded_on_a_cpu
from tests.helpers.families import make_config, make_network
from tests.helpers.parity import make_both, put_head
from tests.helpers.training import CPU, RECIPE, having, make_batches, make_data, weights_of

KINDS = {"pair": pair, "choice": choice, "span": span, "tag": tag}
LENGTHS = [19, 3, 1, 30, 8, 17, 2, 25]
"""More than ModernBERT's small window sees, and less."""


def without_dropout(network: nn.Module) -> Any:
    for module in network.modules():
        for name in ("p", "dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return network


def make_inputs(config: Any, lengths: list[int], seed: int = 1, width: int | None = None) -> Any:
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.arange(width or max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, 90, mask.shape, generator=generator)
    inputs = {"input_ids": ids.where(mask > 0, config.pad_token_id or 0), "attention_mask": mask}
    if getattr(config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.randint(0, 2, mask.shape, generator=generator) * mask
    return inputs


def packed(lengths: list[int], width: int, tail: int = 0) -> Packing:
    return Packing.of_lengths(np.array(lengths), width, torch.device("cpu"), tail)


def twins(family: str, device: str = "cuda") -> tuple[nn.Module, nn.Module]:
    """One network twice, without dropout and pooler: the first reads packed rows."""
    torch.manual_seed(3)
    padded = without_dropout(make_network(make_config(family))).train()
    padded.pooler = None
    ours = copy.deepcopy(padded)
    use_packed_rows(ours, device)
    return ours, padded


def compare_gradients(ours: nn.Module, theirs: nn.Module, within: float = 1e-5) -> None:
    """Of our weights by name, relative to the largest of all."""
    expected = {name: weight.grad for name, weight in theirs.named_parameters()}
    size = max(float(g.abs().max()) for g in expected.values() if g is not None)
    for name, weight in ours.named_parameters():
        assert (weight.grad is None) == (expected[name] is None), name
        if weight.grad is not None:
            torch.testing.assert_close(
                weight.grad / size, expected[name] / size, rtol=0, atol=within
            )


@pytest.mark.parametrize("tail", [0, 5])
@pytest.mark.parametrize("family", sorted(PACKABLE))
def test_states_and_gradients_are_those_of_padded_rows(family: str, tail: int) -> None:
    ours, padded = twins(family)
    assert is_packed(ours)
    inputs = make_inputs(ours.config, LENGTHS, width=32)
    real = inputs["attention_mask"].bool()
    states = ours(**inputs, packing=packed(LENGTHS, 32, tail))[0]
    expected = padded(**inputs)[0]
    torch.testing.assert_close(states[real], expected[real], rtol=1e-5, atol=1e-5)
    assert not states[~real].any()
    weights = torch.randn(expected[real].shape)
    (states[real] * weights).sum().backward()
    (expected[real] * weights).sum().backward()
    compare_gradients(ours, padded)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("family", sorted(PACKABLE))
def test_bf16_trains_near_padded_rows(family: str, device: str) -> None:
    ours, padded = twins(family, device)
    inputs = make_inputs(ours.config, LENGTHS, width=32)
    real = inputs["attention_mask"].bool()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = ours(**inputs, packing=packed(LENGTHS, 32))[0][real].float()
        expected = padded(**inputs)[0][real].float()
    assert (states - expected).norm() < 0.03 * expected.norm()
    for network, each in ((ours, states), (padded, expected)):
        each.square().sum().backward()
        assert all(w.grad.isfinite().all() for w in network.parameters() if w.grad is not None)


@pytest.mark.parametrize("tail", [0, 5])
@pytest.mark.parametrize("family", sorted(FAMILIES & PACKABLE))
def test_a_last_layer_at_the_first_token_gives_the_same(family: str, tail: int) -> None:
    ours, padded = twins(family)
    use_first_token(ours)
    inputs = make_inputs(ours.config, LENGTHS, width=32)
    states = ours(**inputs, packing=packed(LENGTHS, 32, tail))[0]
    expected = padded(**inputs)[0][:, :1]
    torch.testing.assert_close(states, expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn(expected.shape)
    (states * weights).sum().backward()
    (expected * weights).sum().backward()
    compare_gradients(ours, padded)


CLASSES = [(family, kind) for family in sorted(PACKABLE) for kind in KINDS]


@pytest.mark.parametrize(("family", "kind"), [c for c in CLASSES if c not in LACKING])
def test_logits_losses_and_gradients_are_those_of_transformers_classes(
    family: str, kind: str
) -> None:
    theirs, ours = (without_dropout(network).train() for network in make_both(family, kind))
    ours = copy.deepcopy(ours)  # with a config of its own, which says how attention is computed
    use_packed_rows(ours.encoder, "cuda")
    if getattr(ours, "reads_first_token", False):
        use_first_token(ours.encoder)
    inputs = make_inputs(theirs.config, LENGTHS, width=32)
    real = inputs["attention_mask"].bool()
    if kind == "choice":
        logits = ours(**inputs, packing=packed(LENGTHS, 32)).view(2, 4)
        expected = theirs(**{n: v.view(2, 4, -1) for n, v in inputs.items()}).logits
    else:
        logits, output = ours(**inputs, packing=packed(LENGTHS, 32)), theirs(**inputs)
        expected = output.logits if kind != "span" else None
        if kind == "span":
            expected = torch.stack([output.start_logits, output.end_logits], dim=-1)
        if kind in ("span", "tag"):
            logits, expected = logits[real], expected[real]
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=2e-5)
    losses = [
        functional.cross_entropy(each, torch.arange(len(each)) % each.shape[-1])
        for each in (logits, expected)
    ]
    torch.testing.assert_close(*losses, rtol=0, atol=1e-5)
    for loss in losses:
        loss.backward()
    compare_gradients(ours.encoder, getattr(theirs, theirs.base_model_prefix))


# Dropout: the same masks for the same probabilities of the same tokens, whatever the layout.


class FixedDropout(TorchDispatchMode):
    """Draws the masks of the n-th dropout by the tokens they are for, padded or packed.

    On a CPU dropout draws by `bernoulli_`: of states (rows, width, size) or packed (1, tokens,
    size), of probabilities (rows, heads, width, width).
    """

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self._packing, self.calls = packing, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.overloadpacket is not torch.ops.aten.bernoulli_:
            return func(*args, **(kwargs or {}))
        self.calls += 1
        generator = torch.Generator().manual_seed(self.calls)
        noise, rows, width = args[0], self._packing.rows, self._packing.width
        is_packed_row = noise.shape[0] == 1 and noise.ndim == 3
        shape = (rows, width, noise.shape[-1]) if is_packed_row else noise.shape
        drawn = (torch.rand(shape, generator=generator) < args[1]).to(noise.dtype)
        if is_packed_row:
            drawn = drawn.flatten(0, 1)[self._packing.places][None]
        return noise.copy_(drawn)


@pytest.mark.parametrize("family", sorted(PACKABLE))
def test_with_dropout_by_the_same_masks_all_is_the_same(family: str) -> None:
    rates = (
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "attention_dropout",
        "dropout",
        "embedding_dropout",
        "mlp_dropout",
    )
    torch.manual_seed(3)
    config = make_config(family)
    for name in rates:
        if hasattr(config, name):
            setattr(config, name, 0.3)
    padded = make_network(config).train()
    padded.pooler = None
    ours = copy.deepcopy(padded)
    padded.set_attn_implementation("eager")
    use_packed_rows(ours, "cuda")
    inputs, known = make_inputs(config, LENGTHS, width=32), packed(LENGTHS, 32)
    real = inputs["attention_mask"].bool()
    outputs = []
    for network, more in ((ours, {"packing": known}), (padded, {})):
        with FixedDropout(known) as mode:
            outputs.append(network(**inputs, **more)[0][real])
        assert mode.calls >= config.num_hidden_layers
        weights = torch.linspace(-1, 1, outputs[-1].numel()).view(outputs[-1].shape)
        (outputs[-1] * weights).sum().backward()
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-5, atol=1e-5)
    compare_gradients(ours, padded)
    with torch.no_grad(), FixedDropout(known):
        kept = without_dropout(copy.deepcopy(ours))(**inputs, packing=known)[0][real]
    assert (kept - outputs[0]).abs().max() > 0.1, "dropout did nothing"


# Random batches: every family in turn, any number of rows of any lengths, with tails and without.


def compare_random_batches(count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    networks = {family: twins(family) for family in sorted(PACKABLE)}
    for number in range(count):
        ours, padded = networks[sorted(PACKABLE)[number % len(PACKABLE)]]
        lengths = generator.integers(1, generator.integers(2, 65), generator.integers(1, 13))
        known = Features(
            token_ids=generator.integers(5, 90, lengths.sum()).astype(np.int32),
            token_types=None,
            starts=np.cumsum([0, *lengths]),
            pad_id=padded.config.pad_token_id or 0,
            max_tokens=64,
        )
        rows = np.arange(len(lengths))
        part = Part.of(
            known, rows, CPU.device, terms=1, layout="bucket" if number % 2 else "packed"
        )
        inputs = {name: part.tensors[name] for name in part.named}
        real = inputs["attention_mask"].bool()
        states, expected = ours(**part.inputs)[0][real], padded(**inputs)[0][real]
        torch.testing.assert_close(states, expected, rtol=0, atol=1e-5, msg=str(lengths))
        weights = torch.from_numpy(generator.normal(size=expected.shape).astype(np.float32))
        for network, each in ((ours, states), (padded, expected)):
            network.zero_grad()
            (each * weights).sum().backward()
        compare_gradients(ours, padded)


def test_random_batches_are_the_same() -> None:
    compare_random_batches(20, seed=1)


@pytest.mark.soak
def test_a_thousand_random_batches_are_the_same() -> None:
    compare_random_batches(1000, seed=2)


# Trainings, on a CPU as on a GPU.


def begin(family: str, kind: str, *, graphs: bool = False, dropout: float = 0.0) -> Training:
    """A training of 24 rows of 3 to 30 tokens, of which a choice has 2 to 5 options."""
    torch.manual_seed(3)
    config = make_config(family)
    network = without_dropout(put_head(make_network(config), config, kind))
    for module in network.modules():
        if type(module) is nn.Dropout:
            module.p = dropout
    use_packed_rows(network.encoder, "cuda")
    if getattr(network, "reads_first_token", False):
        use_first_token(network.encoder)
    features, targets = make_data(24)
    if kind == "choice":
        features = replace(features, items=np.array([0, 2, 5, 9, 14, 16, 19, 24]))
        targets = np.array([0, 1, 2, 3, 1, 0, 4])
    if kind == "span":
        targets = np.stack([targets, targets + 1], axis=1)
    if kind == "tag":
        targets = np.where(np.arange(30) % 2, targets[:, None], tag.IGNORED)
        targets[np.arange(30) >= features.lengths[:, None]] = tag.IGNORED
        features = replace(features, terms=(targets >= 0).sum(1))
    return Training.begin(
        network,
        [make_batches(network, features, targets, KINDS[kind].loss)],
        having(RECIPE, batch_size=5, epochs=3),
        seed=1,
        compute=replace(CPU, graphs=graphs),
        report=lambda _: None,
    )


EACH = [*((family, "pair") for family in sorted(PACKABLE)), *(("bert", kind) for kind in KINDS)]
"""Every family and every head."""


@pytest.mark.parametrize(("family", "kind"), EACH)
def test_a_step_and_a_prediction_wait_for_nothing(
    family: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = begin(family, kind, dropout=0.1)
    assert training._packs
    with Waits() as waits:
        for _ in range(6):
            training.step()
    assert not waits.found
    counts = []
    for tokens in (2048, 40):
        monkeypatch.setitem(PREDICTION_TOKENS, "cpu", tokens)
        with Waits() as waits:
            predict(training.network, training.tasks[0].features, CPU, lambda _: None)
        counts.append(len(waits.found))
    assert counts[0] == counts[1] > 0, "the logits are looked at once, when all are there"


@pytest.mark.parametrize(("family", "kind"), EACH)
def test_all_that_a_step_needs_is_on_its_device(
    family: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On "meta", which has shapes and no numbers: what is left on the CPU does not go with it."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # not for meta
    training, device = begin(family, kind), torch.device("meta")
    training.compute = replace(CPU, device=device)
    training.network.to(device)
    (task,) = training.tasks
    parts = training.parts_of(task, np.arange(5))
    with pytest.raises((RuntimeError, NotImplementedError)):
        training._gradients(task, parts)
    task = replace(task, targets=task.targets.to(device))
    assert training._gradients(task, parts).device == device
    gradients = [weight.grad for weight in training.network.parameters()]
    assert all(gradient is None or gradient.device == device for gradient in gradients)
    assert sum(gradient is not None for gradient in gradients) > len(gradients) / 2


def test_what_waits_is_seen() -> None:
    values = torch.arange(4)
    ones = torch.ones(2, requires_grad=True)
    for waiting in (
        values[0].item,
        values.nonzero,
        values.tolist,
        values.cpu,
        lambda: values[values > 1],
        lambda: bool((values > 1).all()),
        lambda: values.float().masked_scatter(values > 1, ones).sum().backward(),
    ):
        with Waits() as waits:
            waiting()
        assert waits.found


@pytest.mark.parametrize(
    ("family", "kind"),
    [*(("bert", kind) for kind in KINDS), ("modernbert", "tag"), ("albert", "pair")],
)
def test_recorded_steps_give_the_weights_of_others(family: str, kind: str) -> None:
    """To the bit, of the same layouts: tails and widths change what products are rounded to."""
    with recorded_on_a_cpu() as replays:
        recorded, plain = begin(family, kind, graphs=True), begin(family, kind)
        plain._layout = recorded._layout  # type: ignore[misc]
        assert plain._graphs is None
        before = weights_of(plain.network)
        for each in (recorded, plain):
            for _ in range(each.plan.steps):
                each.step()
    assert sum(replays) == plain.plan.steps
    assert len(replays) < plain.plan.steps or kind == "choice", "no layout came twice"
    after = weights_of(plain.network)
    assert (after - before).abs().max() > 1e-3
    assert torch.equal(weights_of(recorded.network), after)
    losses = [torch.stack(each.meter.unread)[:, 0] for each in (recorded, plain)]
    assert torch.equal(*losses)


def test_a_record_draws_nothing_and_leaves_gradients_as_they_are() -> None:
    training = begin("bert", "pair", graphs=True, dropout=0.1)
    (task,) = training.tasks
    parts = training.parts_of(task, np.arange(5))
    weights = training.weights
    weights[0].grad = torch.ones_like(weights[0])
    state = torch.get_rng_state()
    with recorded_on_a_cpu():
        graphs: Any = training._graphs
        graphs._record(parts[0], training.network, task.targets, task.loss)
    assert torch.equal(torch.get_rng_state(), state)
    assert weights[0].grad.eq(1).all()
    unused = [w for w in weights if w.grad is None]
    assert all(not w.grad.any() for w in weights[1:] if w.grad is not None)
    assert len(unused) < len(weights) / 2


def test_two_orders_of_a_pair_are_not_recorded() -> None:
    """A record would keep where the first batch's orders end, and batches of one layout differ."""
    training = begin("bert", "pair", graphs=True)
    assert training._graphs is not None
    added = begin("bert", "pair", graphs=True)
    added.network.__class__ = pair.AddedNetwork
    assert added._graphs is None


def test_layouts_beyond_the_most_are_computed_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_cuda, "MOST", 1)
    with recorded_on_a_cpu() as replays:
        recorded, plain = begin("bert", "tag", graphs=True), begin("bert", "tag")
        for each in (recorded, plain):
            for _ in range(each.plan.steps):
                each.step()
    assert len(replays) == 1
    assert replays[0] < plain.plan.steps
    after = weights_of(plain.network)
    torch.testing.assert_close(weights_of(recorded.network), after, rtol=0, atol=1e-5)


def test_buckets_are_few_and_hold_every_batch() -> None:
    generator = np.random.default_rng(1)
    lengths = np.clip(generator.lognormal(3.6, 0.5, (500, 32)).astype(int), 3, 128)
    tails = [tail_of(int(each.sum()), 128) for each in lengths]
    assert all(1 <= tail <= 128 for tail in tails)
    assert len({each.sum() + tail for each, tail in zip(lengths, tails, strict=True)}) <= 12
    assert sum(tails) / lengths.sum() < 0.07


# Casts of all weights at once.


@pytest.mark.parametrize(("family", "kind"), [("albert", "span"), ("bert", "pair")])
def test_casts_at_once_give_the_bits_of_autocast(
    family: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_cuda, "JOINED", ())
    compute = replace(CPU, precision="bf16")
    together, single = begin(family, kind, dropout=0.1), begin(family, kind, dropout=0.1)
    names = [name for name, _ in single.network.named_parameters()]
    Casts([together.network])
    assert [name for name, _ in together.network.named_parameters()] == names
    frozen = [dict(each.network.named_parameters())[names[5]] for each in (together, single)]
    for weight in frozen:
        weight.requires_grad_(False)
    for each in (together, single):
        each.compute = compute
        torch.manual_seed(1)
        for _ in range(4):
            each.step()
    assert torch.equal(weights_of(together.network), weights_of(single.network))
    logits = [
        predict(each.network, each.tasks[0].features, compute, lambda _: None)
        for each in (together, single)
    ]
    assert np.array_equal(*logits), "predictions are made with the newest weights"


@pytest.mark.parametrize("family", ["bert", "distilbert", "albert"])
def test_layers_of_the_same_states_are_one_product(family: str) -> None:
    """It rounds the states' gradient once, and not each layer's: no further from fp32's."""
    exact, single, joint = (begin(family, "pair") for _ in range(3))
    Casts([joint.network])
    products = []
    for each in (exact, single, joint):
        (task,) = each.tasks
        each.compute = replace(CPU, precision="fp32" if each is exact else "bf16")
        with Products() as counted:
            each._gradients(task, each.parts_of(task, np.arange(5)))
        products.append(counted.count)
    assert products[1] - products[2] == 3 * 2 * 2, "of three products of two layers two are saved"
    expected = torch.cat([w.grad.flatten() for w in exact.weights if w.grad is not None])
    apart = [
        (torch.cat([w.grad.flatten() for w in e.weights if w.grad is not None]) - expected).norm()
        for e in (single, joint)
    ]
    assert apart[1] < 1.05 * apart[0] < 0.05 * expected.norm()


class Products(TorchDispatchMode):
    """Counts matrix products by weights."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.count += func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm)
        return func(*args, **(kwargs or {}))


def test_weights_are_cast_in_one_operation() -> None:
    training = begin("bert", "pair")
    linear = sum(type(module) is nn.Linear for module in training.network.modules())
    training.compute = replace(CPU, precision="bf16")
    counts = []
    for prepare in (list, Casts):
        prepare([training.network])
        with CastsSeen() as casts:
            training.step()
        counts.append(casts.count)
    # The weight and the bias of each layer, there and back; one pass for all on either way.
    assert counts[0] - counts[1] >= 4 * (linear - 1)


def test_a_weight_that_is_not_trained_costs_no_gradient() -> None:
    """Those that adapters stand beside: a product each."""
    layer = nn.Linear(4, 4)
    network = nn.Sequential(layer, nn.Linear(4, 4))
    layer.requires_grad_(False)
    casts = Casts([network])
    with replace(CPU, precision="bf16").autocast():
        network(torch.randn(2, 4)).sum().backward()
    casts.collect()
    assert isinstance(layer, CastLinear)
    assert not any(each.requires_grad for each in layer.casts)
    assert [weight.grad is None for weight in network.parameters()] == [True, True, False, False]


def test_networks_that_share_layers_compute_with_the_newest_weights() -> None:
    """As several tasks do on one encoder."""
    shared = nn.Linear(4, 4)
    networks = [nn.Sequential(shared, nn.Linear(4, 2)) for _ in range(2)]
    Casts(networks)
    states = torch.randn(3, 4)
    for each in networks:
        with torch.no_grad():
            shared.weight.mul_(2.0)
        with replace(CPU, precision="bf16").autocast():
            expected = states
            for layer in each:
                expected = functional.linear(expected, layer.weight, layer.bias)
            assert torch.equal(each(states), expected)
    assert type(networks[1][1]) is CastLinear


def test_no_pass_keeps_what_adds_up_the_gradients_of_the_one_before() -> None:
    """It stays on the stream that it was made on, and recording fails where that is another one."""
    training = begin("bert", "pair")
    training.compute = replace(CPU, precision="bf16")
    Casts([training.network])
    training.step()
    for weight in training.weights:
        accumulator(weight).metadata["from"] = "the first step"
    training.step()
    assert not any(accumulator(weight).metadata for weight in training.weights)


def accumulator(weight: nn.Parameter) -> Any:
    """The node of autograd's graph that adds up a weight's gradient; as old as its oldest user."""
    last: Any = weight.view_as(weight).grad_fn
    return last.next_functions[0][0]


class CastsSeen(TorchDispatchMode):
    """Counts casts."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.count += func.overloadpacket is torch.ops.aten._to_copy
        return func(*args, **(kwargs or {}))


# The kernels, as far as their arguments: without a GPU nothing computes them.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("are_firsts", [False, True])
def test_kernels_take_what_they_are_given(dtype: torch.dtype, are_firsts: bool) -> None:
    known = Packing.of_lengths(np.array(LENGTHS), 32, torch.device("meta"), tail=4)
    key, value = (torch.empty(known.tokens, 3, 8, dtype=dtype, device="meta") for _ in range(2))
    query = torch.empty(known.sequences if are_firsts else known.tokens, 3, 8, dtype=dtype)
    window = 8 if dtype == torch.bfloat16 else None
    formula = Attention(packing=known, scale=0.5, rate=0.1, window=window)
    found = cuda._by_kernel(query.to("meta"), key, value, formula)
    assert (found.shape, found.dtype) == (query.shape, dtype)


class Bounds(TorchDispatchMode):
    """Keeps the bounds of lengths that the kernels are given, of queries and of keys."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, int]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.overloadpacket is torch.ops.aten._efficient_attention_forward:
            self.found.append(args[6:8])
        if func.overloadpacket is torch.ops.aten._flash_attention_forward:
            self.found.append(args[5:7])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [[3], [2, 1], LENGTHS])
def test_no_kernel_is_told_of_more_tokens_than_there_are(
    dtype: torch.dtype, lengths: list[int]
) -> None:
    """The backward pass in fp32 refuses that: "Invalid max_seqlen_k" (pytorch issue 129523)."""
    known = Packing.of_lengths(np.array(lengths), 32, torch.device("meta"))
    states = [torch.empty(known.tokens, 3, 8, dtype=dtype, device="meta") for _ in range(3)]
    with Bounds() as bounds:
        formula = Attention(packing=known, scale=0.5, rate=0.1)
        cuda._by_kernel(*states, formula)
        cuda._by_kernel(states[0][: len(lengths)], *states[1:], formula)
    longest = min(32, sum(lengths))
    assert bounds.found == [(longest, longest), (1, longest)]
    assert longest >= max(lengths)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_attention_is_that_over_jagged_tensors() -> None:
    known = packed(LENGTHS, 32)
    torch.manual_seed(1)
    states = [torch.randn(known.tokens, 3, 8) for _ in range(3)]
    jagged = [
        torch.nested.nested_tensor_from_jagged(
            each, known.offsets, min_seqlen=min(LENGTHS), max_seqlen=max(LENGTHS)
        ).transpose(1, 2)
        for each in states
    ]
    expected = functional.scaled_dot_product_attention(*jagged, scale=0.4).transpose(1, 2).values()
    found = cuda.attend(*states, Attention(packing=known, scale=0.4))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
