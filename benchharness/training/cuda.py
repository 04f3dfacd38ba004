"""Fewer launches on a GPU: weights cast together, and steps that are recorded once and replayed.

A step of a small encoder computes less than the host takes to ask for it: for 398 kernels in bf16
and of twelve layers (`python -m benchmarks.kernels`), half as many as by autocast.
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

# Weights in bf16 next to their masters in fp32, which the optimizer changes.
#
# Autocast casts each weight in the forward pass, and in the backward pass the gradient of each.
# Here all are cast at once, and so are all gradients: the same numbers to the bit. Layers that are
# given the same states are one matrix: one cast of the states, one product.

JOINED = (("query", "key", "value"), ("q_lin", "k_lin", "v_lin"), ("q_proj", "k_proj", "v_proj"))
"""How packed families call the layers of attention, which are given the same states."""


class CastLinear(nn.Linear):
    """nn.Linear that computes with bf16 weights where autocast is on.

    `joint` are the layers that share them, being given the same states; `made` is what these made
    of `made[None]`, each until it is asked.
    """

    joint: "list[CastLinear]"
    casts: list[Tensor]  # (outputs of all, inputs) and, where they have it, their bias
    made: dict[Any, Tensor]

    def forward(self, states: Tensor) -> Tensor:
        """As nn.Linear."""
        if not torch.is_autocast_enabled(states.device.type):
            return super().forward(states)
        narrow = getattr(states, "in_bf16", states)  # in bf16 already (fused.py)
        if len(self.joint) == 1:
            return functional.linear(narrow, *self.casts)
        if self.made.get(None) is not states or self not in self.made:
            product = functional.linear(narrow, *self.casts)  # (..., outputs of all)
            parts = torch.split(product, [each.out_features for each in self.joint], dim=-1)
            self.made.update(zip(self.joint, parts, strict=True))
            self.made[None] = states
        found = self.made.pop(self)
        if len(self.made) == 1:  # it would hold the graph of this pass
            self.made.clear()
        return found


class Casts:
    """The bf16 weights of all linear layers in networks, which may share some.

    They are cast before each forward pass of a network. Names and classes' names in the eyes of
    others stay: parameters are the masters.
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
                # MobileBERT's values are of other states.
                shares = are_linear and len({each.in_features for each in layers}) == 1
                if shares and done.isdisjoint(layers):
                    self._join(layers)
                    done.update(layers)
            network.register_forward_pre_hook(self._cast)
            network.casts = self  # type: ignore[assignment]  # the loop has it collect gradients
        self._cast()
        encoders = [m for n in networks for m in n.modules() if getattr(m, "is_packed", False)]
        faults = dict.fromkeys(map(fuse_norms, dict.fromkeys(encoders)))
        self.notes = [f"norms by torch, with more launches ({fault})" for fault in faults if fault]

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
            # Adapters' neighbours and layers whose turn is later: their gradients cost a product.
            copy.requires_grad_(any(master.requires_grad for master in masters))
        pairs = list(_pairs(self._copies.values()))
        with torch.no_grad():  # one pass: it rounds as a cast does
            torch._foreach_copy_([part for part, _ in pairs], [master for _, master in pairs])

    def collect(self) -> None:
        """Adds the gradients of a backward pass to those of the masters."""
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
    """Has fewer kernels behind linear layers on a GPU (fused.py), or says why not."""
    if not next(encoder.parameters()).is_cuda:
        return ""
    if not find_spec("triton"):
        return "there is no triton"
    found: str = import_module("benchharness.training.fused").fuse_norms(encoder)
    return found


def _pairs(copies: Iterable[tuple[Tensor, list[nn.Parameter]]]) -> Iterator[tuple[Tensor, Any]]:
    """The part of a matrix that is each master's, with that master."""
    for copy, masters in copies:
        yield from zip(torch.split(copy.detach(), [len(m) for m in masters]), masters, strict=True)


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
