"""Fewer launches on a GPU: weights cast together, and steps that are recorded once and replayed.

A step of a small encoder computes less than the host takes to ask for it. Of 833 operations of a
bf16 step 343 are casts, most of them of weights and of their gradients, one by one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchharness.training.batching import MICRO_BATCH_TOKENS
from benchharness.training.compute import Part

# Weights in bf16 next to their masters in fp32, which the optimizer changes.
#
# Autocast casts each weight in the forward pass, and in the backward pass the gradient of each.
# Here all are cast at once, and so are all gradients: the same numbers to the bit.


class CastLinear(nn.Linear):
    """nn.Linear that computes with the bf16 `cast` of its weights where autocast is on."""

    cast: tuple[Tensor, Tensor | None] | None = None

    def forward(self, states: Tensor) -> Tensor:
        """As nn.Linear."""
        if self.cast is None or not torch.is_autocast_enabled(states.device.type):
            return super().forward(states)
        return functional.linear(states, *self.cast)


def cast_together(network: nn.Module) -> None:
    """Has all linear layers' weights cast to bf16 at once, before each forward pass of a network.

    Their names and classes' names in the eyes of others stay: parameters are the masters. Networks
    may share layers.
    """
    layers: list[Any] = [m for m in network.modules() if type(m) in (nn.Linear, CastLinear)]
    for layer in layers:
        layer.__class__ = CastLinear  # keeps weights and names as they are
    # A weight that several layers share is cast once.
    masters = {id(w): w for layer in layers for w in layer.parameters(recurse=False)}

    def cast(_module: nn.Module, _inputs: Any) -> None:
        # They hold the graph of the pass before, which would bind what adds up gradients to the
        # stream that they were made on: no step could be recorded behind one that was not.
        for layer in layers:
            layer.cast = None
        made = _Cast.apply(*masters.values())  # type: ignore[no-untyped-call]
        casts = dict(zip(masters, made, strict=True))
        for layer in layers:
            bias = None if layer.bias is None else casts[id(layer.bias)]
            layer.cast = (casts[id(layer.weight)], bias)

    network.register_forward_pre_hook(cast)


class _Cast(torch.autograd.Function):
    """Weights to bf16, and their gradients back to fp32, each way in one pass."""

    @staticmethod
    def forward(ctx: Any, *masters: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)  # a weight without a gradient stays without
        copies = _copied(masters, torch.bfloat16)
        # Adapters' neighbours and layers whose turn is later: their gradients cost a product each.
        pairs = zip(masters, copies, strict=True)
        ctx.mark_non_differentiable(*(copy for master, copy in pairs if not master.requires_grad))
        return copies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ARG004
        found = iter(_copied([g for g in gradients if g is not None], torch.float32))
        return tuple(None if gradient is None else next(found) for gradient in gradients)


def _copied(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    if copies:
        torch._foreach_copy_(copies, [*tensors])  # one pass: it rounds as a cast does
    return tuple(copies)


# Steps as CUDA graphs: what a part of one layout computes is recorded, and then replayed.

MOST = 24
"""Layouts that are recorded at most; parts of others are computed as without. Not measured yet."""

BackwardPart = Callable[..., Tensor]
"""loop.py's: (network, goals, loss, part=) adds the gradients, and gives the share of the loss."""


class Graphs:
    """Computes parts by replaying what was recorded of the first part of their layout.

    A replay writes to the memory that was there when it was recorded. So the part is copied to the
    recorded one's tensors, and gradients are added up in tensors that stay for the whole training.
    All records share the rest of their memory: what one leaves, another one's replay may write to.
    """

    def __init__(self, backward_part: BackwardPart, weights: Sequence[nn.Parameter]) -> None:
        self._backward_part = backward_part
        self._weights = weights
        self._gradients: dict[int, Tensor] = {}  # by the id of their weight
        self._pool = new_pool()
        self._recorded: dict[Any, tuple[Part, Callable[[], object], Tensor]] = {}

    def __call__(self, network: nn.Module, goals: Tensor, loss: Any, *, part: Part) -> Tensor:
        """Adds a part's gradients of the batch's mean loss; gives its share of that loss.

        The share is to be read, on the device, before the next call.
        """
        self._attach()
        # Which weights are trained may change with the epoch.
        key = (part.layout, tuple(weight.requires_grad for weight in self._weights))
        # Larger parts may be computed in pieces (heads/choice.py), which cannot be recorded.
        is_small = len(part.lengths) * part.width <= MICRO_BATCH_TOKENS
        if not is_small or (key not in self._recorded and len(self._recorded) >= MOST):
            return self._backward_part(network, goals, loss, part=part)
        if key not in self._recorded:
            self._recorded[key] = self._record(part, network, goals, loss)
        recorded, replay, share = self._recorded[key]
        torch._foreach_copy_([*recorded.tensors.values()], [*part.tensors.values()])
        replay()  # behind the copies, on the same stream
        return share

    def _attach(self) -> None:
        """Gives weights that have no gradient yet in this step theirs, which is zero."""
        bare = [w for w in self._weights if w.grad is None and id(w) in self._gradients]
        for weight in bare:
            weight.grad = self._gradients[id(weight)]  # the memory that records write to
        if bare:  # in a few launches, not in one for each
            torch._foreach_zero_([self._gradients[id(weight)] for weight in bare])

    def _record(
        self, part: Part, network: nn.Module, goals: Tensor, loss: Any
    ) -> tuple[Part, Callable[[], object], Tensor]:
        """Records a part's computation: its tensors, what replays it, and where the loss will be.

        Changes no gradient, and draws nothing: a job that was resumed records anew, and is to
        draw what it would have drawn.
        """
        recorded = part.in_place({name: t.clone() for name, t in part.tensors.items()})

        def run() -> Tensor:
            # A new one each time: what a packing keeps is to be computed in each replay.
            fresh = recorded.in_place(recorded.tensors)
            return self._backward_part(network, goals, loss, part=fresh)

        before = [weight.grad for weight in self._weights]  # of the parts before this one
        with torch.random.fork_rng([goals.device] if goals.is_cuda else []):
            for weight in self._weights:
                weight.grad = None  # so that the warm-up shows which are reached
            warm_up(run)
            # Only these: a weight without a gradient is left as it is by the optimizer.
            reached = [weight.grad is not None for weight in self._weights]
            for weight, gradient, is_reached in zip(self._weights, before, reached, strict=True):
                weight.grad = gradient
                if is_reached and gradient is None:
                    weight.grad = torch.zeros_like(weight)
                if is_reached and weight.grad is not None:
                    self._gradients.setdefault(id(weight), weight.grad)  # one for all records
            replay, share = record(run, self._pool)
        return recorded, replay, share


def warm_up(run: Callable[[], Tensor]) -> None:
    """Runs twice on a stream of its own: libraries make what they need at their first call."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(side)


def new_pool() -> Any:
    """The memory of several records."""
    return torch.cuda.graph_pool_handle() if torch.cuda.is_available() else None


def record(run: Callable[[], Tensor], pool: Any) -> tuple[Callable[[], object], Tensor]:
    """What replays a run, and the tensor in which each replay leaves what it gives."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        share = run()  # (), where each replay leaves its loss
    return graph.replay, share
