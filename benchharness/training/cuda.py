"""Fewer kernel launches on a GPU: all weights are cast to bf16 together; CUDA graphs replay steps.

A GPU computes the kernels of a small encoder faster than the CPU can launch them. In bf16, a step
of an encoder with twelve layers needs 398 kernels with this module, half as many as with torch's
autocast (`python -m benchmarks.kernels`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder.packing import is_packed
from benchharness.training.batching import MICRO_BATCH_TOKENS
from benchharness.training.compute import Part

# Bf16 copies of the fp32 master weights, which the optimizer updates.
#
# Autocast casts each weight in the forward pass, and the gradient of each in the backward pass.
# Here all weights are cast at once, and so are all gradients, with bit-identical results. Layers
# that read the same states share one matrix, so the states are cast and multiplied only once.

JOINED = (("query", "key", "value"), ("q_lin", "k_lin", "v_lin"), ("q_proj", "k_proj", "v_proj"))
"""Names of the linear layers of attention that read the same states, in the families that compute
packed rows. One matrix product computes the outputs of such layers."""


class CastLinear(nn.Linear):
    """Linear layer that computes with bf16 copies of its weights if autocast is on.

    Layers that read the same states, such as query, key and value, share one matrix product.

    Attributes:
        joint: Layers that share one matrix product, including this layer.
        casts: Concatenated bf16 weight matrix of the joint layers, followed by their concatenated
            bias if they have one.
        made: Outputs of those joint layers that have not been called yet for the current states,
            keyed by layer, and the current states themselves under the key None.
    """

    joint: "list[CastLinear]"
    casts: list[Tensor]  # (outputs of all, inputs), and (outputs of all,) if there is a bias
    made: dict[Any, Tensor]

    def forward(self, states: Tensor) -> Tensor:
        """Return the output of the linear layer: `[..., out_features]`."""
        if not torch.is_autocast_enabled(states.device.type):
            return super().forward(states)
        narrow = getattr(states, "in_bf16", states)  # fused.py may have attached a bf16 copy
        if len(self.joint) == 1:
            return functional.linear(narrow, *self.casts)
        if self.made.get(None) is not states or self not in self.made:
            product = functional.linear(narrow, *self.casts)  # (..., all outputs)
            parts = torch.split(product, [each.out_features for each in self.joint], dim=-1)
            self.made.update(zip(self.joint, parts, strict=True))
            self.made[None] = states
        found = self.made.pop(self)
        if len(self.made) == 1:  # only the states are left: free the autograd graph of this pass
            self.made.clear()
        return found


class Casts:
    """Bf16 copies of the weights of all linear layers in some networks, which may share layers.

    The linear layers are converted to CastLinear. The copies are updated before each forward pass
    of a network. The networks keep their fp32 parameters (the master weights) under the same names.

    Args:
        networks: Networks to change in place. Their attribute `casts` is set to this object.

    Attributes:
        notes: Notes for the user about encoders in which the fused kernels of fused.py cannot be
            used; usually empty.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self._copies: dict[tuple[int, ...], tuple[Tensor, list[nn.Parameter]]] = {}
        done = set[Any]()
        for network in networks:
            together = JOINED if is_packed(network) else ()
            groups: list[list[Any]] = [
                [getattr(module, name, None) for name in names]
                for module in network.modules()
                for names in together
            ]
            for layers in (*groups, *([module] for module in network.modules())):
                are_linear = all(type(each) in (nn.Linear, CastLinear) for each in layers)
                # MobileBERT's value layer reads other states.
                shares = are_linear and len({each.in_features for each in layers}) == 1
                if shares and done.isdisjoint(layers):
                    self._join(layers)
                    done.update(layers)
            network.register_forward_pre_hook(self._cast)
            network.casts = self  # type: ignore[assignment]  # the loop calls `collect`
        self._cast()
        encoders = [m for n in networks for m in n.modules() if getattr(m, "is_packed", False)]
        faults = dict.fromkeys(map(fuse_norms, dict.fromkeys(encoders)))
        note = "computes layer norms with torch instead of fused kernels"
        self.notes = [f"{note}: {fault}" for fault in faults if fault]

    def _join(self, layers: list[Any]) -> None:
        casts, made = [], dict[Any, Tensor]()
        for name in ("weight", "bias"):
            masters = [getattr(layer, name) for layer in layers]
            if masters[0] is not None:
                shape = (sum(map(len, masters)), *masters[0].shape[1:])
                copy = masters[0].new_empty(shape, dtype=torch.bfloat16)
                # A weight that several layers share is cast once.
                casts.append(self._copies.setdefault(tuple(map(id, masters)), (copy, masters))[0])
        for layer in layers:
            layer.__class__ = CastLinear  # keeps weights and names
            layer.joint, layer.casts, layer.made = layers, casts, made

    def _cast(self, *_: Any) -> None:
        for copy, masters in self._copies.values():
            # Weights that are not trained (next to adapters, or still frozen) need no gradient.
            copy.requires_grad_(any(master.requires_grad for master in masters))
        pairs = list(_pairs(self._copies.values()))
        with torch.no_grad():  # one launch for all; it rounds as a cast does
            torch._foreach_copy_([part for part, _ in pairs], [master for _, master in pairs])

    def collect(self) -> None:
        """Add the gradients of the bf16 copies to the gradients of the fp32 master weights.

        Call this after each backward pass.
        """
        given = [(copy.grad, each) for copy, each in self._copies.values() if copy.grad is not None]
        pairs = [(part, master) for part, master in _pairs(given) if master.requires_grad]
        if not pairs:
            return
        made = [torch.empty_like(master) for _, master in pairs]
        torch._foreach_copy_(made, [part for part, _ in pairs])
        for copy, _ in self._copies.values():
            copy.grad = None
        before = [(w.grad, g) for (_, w), g in zip(pairs, made, strict=True) if w.grad is not None]
        if before:
            torch._foreach_add_([old for old, _ in before], [new for _, new in before])
        for (_, master), gradient in zip(pairs, made, strict=True):
            master.grad = gradient if master.grad is None else master.grad


def fuse_norms(encoder: nn.Module) -> str:
    """Use the fused kernels of fused.py in an encoder if it is on a GPU.

    Returns:
        The reason why the kernels cannot be used; empty if they are used, if the encoder is on a
        CPU, or if it has no module for which there is a fused kernel.
    """
    if not next(encoder.parameters()).is_cuda:
        return ""
    if not find_spec("triton"):
        return "triton is not installed"
    found: str = import_module("benchharness.training.fused").fuse_norms(encoder)
    return found


def _pairs(copies: Iterable[tuple[Tensor, list[nn.Parameter]]]) -> Iterator[tuple[Tensor, Any]]:
    """Yield (part of the joint matrix, master weight) for each master weight."""
    for copy, masters in copies:
        yield from zip(torch.split(copy.detach(), [len(m) for m in masters]), masters, strict=True)


# CUDA graphs: the computation of a micro-batch is recorded, and replayed for equal layouts.

MOST = 24
"""Maximum number of layouts for which a graph is recorded. Micro-batches with other layouts are
computed without a graph. The value has not been tuned by measurements yet."""

BackwardPart = Callable[..., Tensor]
"""Type of a function with the arguments of `Graphs.__call__` (`_backward_part` in loop.py). The
function adds the gradients of a micro-batch to those of the weights, and returns the micro-batch's
share of the mean loss of its batch."""


class Graphs:
    """Callable that computes micro-batches by replaying CUDA graphs, one per layout.

    The graph of a layout (see `Part.layout`) is recorded when the first micro-batch with this
    layout is computed. A replay reads and writes the same memory as the recording. Therefore each
    micro-batch is copied into the tensors of the recorded one, and gradients are accumulated in
    tensors that live as long as the training. All graphs share their other memory, so a replay may
    overwrite results of another graph. A micro-batch with more than MICRO_BATCH_TOKENS padded
    tokens, or with a new layout if there are MOST graphs already, is computed without a graph.

    Args:
        backward_part: Function that computes a micro-batch without a graph.
        weights: Trained weights of the network.
    """

    def __init__(self, backward_part: BackwardPart, weights: Sequence[nn.Parameter]) -> None:
        self._backward_part = backward_part
        self._weights = weights
        self._gradients: dict[int, Tensor] = {}  # keyed by the id of the weight
        self._pool = new_pool()
        self._recorded: dict[Any, tuple[Part, Callable[[], object], Tensor]] = {}

    def __call__(self, network: nn.Module, goals: Tensor, loss: Any, *, part: Part) -> Tensor:
        """Compute the loss of a micro-batch, and add its gradients to those of the weights.

        Returns the micro-batch's share of the mean loss of its batch. The next call may overwrite
        the returned tensor.

        Args:
            network: Network of the task.
            goals: Targets of all items in the data, on the device: `[items, ...]`.
            loss: Function of logits and targets that returns one loss per item.
            part: The micro-batch.
        """
        self._attach()
        # The set of trained weights may change with the epoch.
        key = (part.layout, tuple(weight.requires_grad for weight in self._weights))
        # A network may compute larger parts in pieces (heads/choice.py), which cannot be recorded.
        is_small = len(part.lengths) * part.width <= MICRO_BATCH_TOKENS
        if not is_small or (key not in self._recorded and len(self._recorded) >= MOST):
            return self._backward_part(network, goals, loss, part=part)
        if key not in self._recorded:
            self._recorded[key] = self._record(part, network, goals, loss)
        recorded, replay, share = self._recorded[key]
        torch._foreach_copy_([*recorded.tensors.values()], [*part.tensors.values()])
        replay()  # on the same CUDA stream as the copies, so it runs after them
        return share

    def _attach(self) -> None:
        """Attach zeroed gradient tensors to the weights that have no gradient yet in this step."""
        bare = [w for w in self._weights if w.grad is None and id(w) in self._gradients]
        for weight in bare:
            weight.grad = self._gradients[id(weight)]  # the memory that graphs write to
        if bare:  # a few launches instead of one per weight
            torch._foreach_zero_([self._gradients[id(weight)] for weight in bare])

    def _record(
        self, part: Part, network: nn.Module, goals: Tensor, loss: Any
    ) -> tuple[Part, Callable[[], object], Tensor]:
        """Record a micro-batch's computation; return its tensors, replay function and loss tensor.

        Gradients and random generators are left unchanged, because a resumed job records again and
        has to draw the same random numbers as a job that was never stopped.
        """
        recorded = part.in_place({name: t.clone() for name, t in part.tensors.items()})

        def run() -> Tensor:
            # Use a new part each time, because values that a packing caches must be computed in
            # every replay.
            fresh = recorded.in_place(recorded.tensors)
            return self._backward_part(network, goals, loss, part=fresh)

        before = [weight.grad for weight in self._weights]  # sums over earlier parts of the batch
        with torch.random.fork_rng([goals.device] if goals.is_cuda else []):
            for weight in self._weights:
                weight.grad = None  # so that the warm-up shows which weights get gradients
            warm_up(run)
            # Only these weights get a gradient tensor: the optimizer skips weights without one.
            reached = [weight.grad is not None for weight in self._weights]
            for weight, gradient, is_reached in zip(self._weights, before, reached, strict=True):
                weight.grad = gradient
                if is_reached and gradient is None:
                    weight.grad = torch.zeros_like(weight)
                if is_reached and weight.grad is not None:
                    self._gradients.setdefault(id(weight), weight.grad)  # shared by all graphs
            replay, share = record(run, self._pool)
        return recorded, replay, share


def warm_up(run: Callable[[], Tensor]) -> None:
    """Run a function twice on a separate CUDA stream, so that libraries initialize themselves.

    This must be done before the function is recorded as a graph.
    """
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(side)


def new_pool() -> Any:
    """Return the handle of a new memory pool that several graphs can share; None without a GPU."""
    return torch.cuda.graph_pool_handle() if torch.cuda.is_available() else None


def record(run: Callable[[], Tensor], pool: Any) -> tuple[Callable[[], object], Tensor]:
    """Record a function as a CUDA graph.

    Args:
        run: Function to record.
        pool: Memory pool of the graph (see `new_pool`).

    Returns:
        A function without arguments that replays the graph, and the tensor to which each replay
        writes the result of `run`.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        share = run()  # a scalar; each replay writes its loss here
    return graph.replay, share
