"""Ten faults to plant in benchharness's training, each of which the certificate has to detect."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from torch import Tensor

from benchharness.encoder import cpu
from benchharness.encoder.packing import Packing
from benchharness.heads import pair
from benchharness.training import loop
from benchharness.training.compute import Part

__all__ = ["DROPOUT_SCALE", "PLANTED", "planted"]

Patch = tuple[Any, str, Any]
"""An object, the name of its attribute, and the attribute's replacement."""

_make_optimizer, _rate, _part = loop.make_optimizer, loop.learning_rate, Part.of
_drop = cpu.FastDropout.forward


def _groups(**values: Any) -> Callable[..., Any]:
    """Return a replacement for `make_optimizer` that sets values in all parameter groups."""

    def make(*args: Any) -> Any:
        optimizer = _make_optimizer(*args)
        for group in optimizer.param_groups:
            group.update(values)
        return optimizer

    return make


def _early(step: int, steps: int, recipe: Any) -> float:
    return _rate(step + (step < recipe.schedule.warmup_steps), steps, recipe)


def _longer(step: int, steps: int, recipe: Any) -> float:
    return _rate(step, steps + 1, recipe)


def _exchanged(*args: Any) -> Any:
    return 1 - pair.targets(*args)


def _unclipped(_: Any, weights: Sequence[Tensor], __: float) -> Any:
    """Return the norm of the gradients, without clipping them."""
    return loop.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])


def _own_mean(features: Any, items: Any, device: Any, *, layout: Any, **_: Any) -> Any:
    """Build a micro-batch whose loss is divided by its own number of items, not by the batch's."""
    return _part(features, items, device, terms=len(items), layout=layout)


def _shrunk(self: Any, states: Tensor) -> Tensor:
    """Apply dropout without rescaling the values that it keeps."""
    return _drop(self, states) * (1.0 - self.p if self.training else 1.0)


DROPOUT_SCALE = "dropout scale"

PLANTED: Mapping[str, Patch] = {
    "epsilon": (loop, "make_optimizer", _groups(eps=1e-8)),
    "decay on biases": (loop, "make_optimizer", _groups(weight_decay=0.1)),
    "warm-up off by one": (loop, "learning_rate", _early),
    DROPOUT_SCALE: (cpu.FastDropout, "forward", _shrunk),
    "pooled token": (Packing, "firsts", property(lambda self: self.offsets[: self.rows] + 1)),
    "mask": (cpu, "_masks", lambda *_: []),
    "label order": (pair, "PAIR", replace(pair.PAIR, targets=_exchanged)),
    "clip": (loop, "clip_in_step", _unclipped),
    "schedule end": (loop, "learning_rate", _longer),
    "accumulation mean": (Part, "of", _own_mean),
}
"""Faults, keyed by name. All faults but the one in dropout are detected without dropout."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Context manager in which benchharness's training has the named fault."""
    with mock.patch.object(*PLANTED[name]):
        yield
