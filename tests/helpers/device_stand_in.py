"""Stand-ins for what only a GPU has: a device that is not to be read back from, recorded steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from benchharness.training import cuda

ATEN = torch.ops.aten
WAITING = {
    ATEN._local_scalar_dense,  # item, int, float, bool, tolist, an `if`
    ATEN.nonzero,
    ATEN.masked_select,
    ATEN.masked_scatter_backward,
    ATEN.is_nonzero,
    ATEN.equal,
    ATEN.unique_dim,
    ATEN._unique2,
    ATEN.unique_consecutive,
    ATEN.repeat_interleave,  # where it is by a tensor of counts
    ATEN.bincount,
}
"""Operations whose results the host has to know, or whose sizes."""


INDEXING = {ATEN.index, ATEN.index_put, ATEN.index_put_}
"""Of which those by a mask wait."""

READING = {Tensor.cpu, Tensor.numpy, Tensor.tolist, Tensor.item}
"""Methods that bring a tensor to the host. On a CPU they may be no operation."""


class Waits(TorchDispatchMode):
    """Counts that for which a host would wait for a GPU, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._readings = _Readings(self.found)

    def __enter__(self) -> "Waits":
        self._readings.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._readings.__exit__(*error)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if waits_for(func, args):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


class _Readings(TorchFunctionMode):
    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self._found = found

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in READING:
            self._found.append(str(func))
        return func(*args, **(kwargs or {}))


def waits_for(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether a host waits for an operation of a GPU: also for an indexing by a mask."""
    if func.overloadpacket not in INDEXING:
        return func.overloadpacket in WAITING
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])


@contextmanager
def recorded_on_a_cpu() -> Iterator[list[int]]:
    """Has steps recorded and replayed without a GPU: a replay computes again in the same memory.

    Gives how often each record was replayed. As a GPU's, a record changes nothing but what it
    writes at a replay, to tensors that are the same each time.
    """
    replays: list[int] = []

    def record(run: Callable[[], Tensor], _pool: Any) -> tuple[Callable[[], object], Tensor]:
        share, number = torch.zeros(()), len(replays)
        replays.append(0)

        def replay() -> None:
            replays[number] += 1
            share.copy_(run())

        return replay, share

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "warm_up", lambda run: run())
        patch.setattr(cuda, "record", record)
        yield replays
