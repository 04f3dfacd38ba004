"""Simulated GPU: GPU code runs on a CPU, which tracks the device of each tensor.

It checks that tensors are on the GPU where they have to be, counts synchronisations with the host,
and records steps.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import clip_grad
from torch.optim import optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchharness.encoder import cuda as kernels
from benchharness.training import cuda

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")
ATEN = torch.ops.aten

MOVING = {ATEN.copy_, ATEN._to_copy, ATEN._foreach_copy_, ATEN.set_}
"""Operations that may copy between devices."""

WAITING = {
    # called by item(), int(), float(), bool(), tolist() and `if`
    *(ATEN._local_scalar_dense, ATEN.is_nonzero, ATEN.equal),
    *(ATEN.nonzero, ATEN.masked_select, ATEN.masked_scatter_backward, ATEN.bincount),
    *(ATEN.unique_dim, ATEN._unique2, ATEN.unique_consecutive),
    ATEN.repeat_interleave,  # the size of its result depends on a tensor of counts
}
"""Operations whose results or sizes the host needs, so that it waits."""

INDEXING = {ATEN.index, ATEN.index_put, ATEN.index_put_}
"""Indexing operations, which wait if the index is a mask."""

OF_PACKED = {ATEN._pack_padded_sequence, ATEN._pad_packed_sequence, ATEN.lstm}
"""Operations that need lengths on the CPU."""

ANSWERS = {
    Tensor.device.__get__: GPU,  # type: ignore[attr-defined]
    Tensor.is_cuda.__get__: True,  # type: ignore[attr-defined]
    Tensor.is_cpu.__get__: False,  # type: ignore[attr-defined]
}
"""Attributes of a GPU tensor."""


def place_of(tensor: Tensor) -> torch.device | None:
    """Return the device of a tensor's memory, or None if C++ has just created it."""
    with torch._C.DisableTorchFunction():
        return getattr(tensor.untyped_storage(), "place", None)


def put(tensor: Tensor, place: torch.device) -> None:
    """Set the device of a tensor's memory."""
    with torch._C.DisableTorchFunction():
        tensor.untyped_storage().place = place  # type: ignore[attr-defined]


class PretendGpu(TorchDispatchMode):
    """Computes on the device of the inputs; `waits` counts waits of the host by name.

    A replay computes again in the same memory; `replays` counts the replays of each recording. As
    on a GPU, a recording only writes the same tensors each time. All recordings use one pool.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        self.replays: list[int] = []
        self._pools: list[object] = []

    def new_pool(self) -> object:
        self._pools.append(object())
        return self._pools[-1]

    def record(self, run: Callable[[], Tensor], pool: object) -> tuple[Callable[[], None], Tensor]:
        assert pool is self._pools[0]
        share, number = torch.zeros((), device=GPU), len(self.replays)
        self.replays.append(0)

        def replay() -> None:
            self.replays[number] += 1
            share.copy_(run())

        return replay, share

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        packet, given = func.overloadpacket, _tensors((args, kwargs))
        places = [place_of(tensor) for tensor in given]
        if GPU in places:
            of_cpu = [t for t, p in zip(given, places, strict=True) if p == CPU and t.dim() > 0]
            masks = args[1] if packet in INDEXING else ()
            # Indices may be in CPU memory; the host then waits until they are copied.
            if of_cpu and packet in INDEXING and place_of(args[0]) == GPU:
                self.waits[f"{packet} by indices of the CPU"] += 1
            elif of_cpu and packet not in MOVING | OF_PACKED:
                raise RuntimeError(f"{func}: Expected all tensors to be on the same device")
            if packet in WAITING or any(m is not None and m.dtype == torch.bool for m in masks):
                self.waits[str(packet)] += 1
        made = func(*args, **(kwargs or {}))
        place = GPU if GPU in places else CPU if CPU in places else None
        if packet is ATEN._pack_padded_sequence:
            put(made[1], CPU)  # the number of rows at each time step, which is always in CPU memory
        for tensor in _tensors(made):
            if place is not None and place_of(tensor) is None:
                put(tensor, place)
        return made


class Calls(TorchFunctionMode):
    """Handles Python calls of torch that name devices or read them from tensors."""

    def __init__(self, waits: Counter[str]) -> None:
        super().__init__()
        self._waits = waits

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (Tensor.to, Tensor.cpu, Tensor.cuda):
            return self._moved(func.__name__, args, kwargs)
        if args and isinstance(args[0], Tensor) and place_of(args[0]) == GPU:
            if func in ANSWERS:
                return ANSWERS[func]
            if func in (Tensor.numpy, Tensor.__array__):
                raise TypeError("can't convert cuda:0 device type tensor to numpy.")
            if func is Tensor.tolist:
                self._waits["tolist"] += 1
        if func is Tensor.pin_memory:
            return args[0]
        kwargs.pop("pin_memory", None)
        return self._made(func, args, kwargs)

    def _made(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call, on the device that it names or else that of the caller."""
        asked = None if kwargs.get("device") is None else torch.device(kwargs["device"]).type
        if asked == "cuda":
            kwargs["device"] = CPU
        made = func(*args, **kwargs)
        has_gpu = any(place_of(tensor) == GPU for tensor in _tensors((args, kwargs)))
        for tensor in _tensors(made):
            if asked in ("cuda", "cpu") or (place_of(tensor) is None and not has_gpu):
                put(tensor, GPU if asked == "cuda" else CPU)
        return made

    def _moved(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        tensor, *told = args
        is_copy = kwargs.pop("copy", False)
        if name != "to":
            told = [GPU if name == "cuda" else CPU]
        elif told and isinstance(told[0], Tensor):
            told[:1] = [place_of(told[0]) or CPU, told[0].dtype]
        device, dtype, is_queued, _ = torch._C._nn._parse_to(*told, **kwargs)
        here = place_of(tensor) or CPU
        there = here if device is None else GPU if device.type == "cuda" else CPU
        if device is not None and device.type == "meta":
            return tensor.to("meta")
        made = tensor if dtype is None else tensor.to(dtype)
        if made is tensor and (there != here or is_copy):
            made = tensor.clone()
        if there != here and not (is_queued and there == GPU):
            self._waits[f"a copy to {there.type}"] += 1
        if made is not tensor:
            put(made, there)
        return made


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _by_place(groups: Any, tensors: Any, *options: Any) -> Any:
    """Return the groups of an optimizer: tensors of one device and type."""
    found, place = groups(tensors, *options), place_of(tensors[0][0])
    return {(place or device, dtype): group for (device, dtype), group in found.items()}


@contextmanager
def pretended_gpu() -> Iterator[PretendGpu]:
    """Simulate one GPU of the Hopper generation with recorded steps (CUDA graphs)."""
    answers = {
        **dict.fromkeys(("is_available", "is_bf16_supported", "is_tf32_supported"), True),
        **dict.fromkeys(("set_device", "empty_cache", "manual_seed_all"), None),
        **dict.fromkeys(("current_device", "max_memory_allocated"), 0),
        "is_current_stream_capturing": False,
        "device_count": 1,
        "get_device_name": "Pretended H100",
        "get_device_capability": (9, 0),
    }
    asked, autocast = torch.is_autocast_enabled, torch.autocast
    gpu = PretendGpu()
    with pytest.MonkeyPatch.context() as patch:
        for name, answer in answers.items():
            patch.setattr(torch.cuda, name, lambda *_, told=answer, **__: told)
        patch.setattr(torch.cuda, "get_rng_state", lambda *_: torch.get_rng_state())
        patch.setattr(torch.cuda, "set_rng_state", lambda state, *_: torch.set_rng_state(state))
        # If torch was built for GPUs, it would ask the accelerator whether a graph is being
        # recorded.
        patch.setattr(torch.accelerator, "current_accelerator", lambda **_: None)
        patch.setattr(
            torch, "autocast", lambda _, *how, **options: autocast("cpu", *how, **options)
        )
        patch.setattr(torch, "is_autocast_enabled", lambda *_: asked("cpu"))
        patch.setattr(torch.backends.cudnn, "is_acceptable", lambda _: False)
        patch.setattr(kernels, "_has_kernel", lambda *_: False)
        patch.setattr(cuda, "fuse_norms", lambda _: "")
        patch.setattr(cuda, "warm_up", lambda run: run())
        patch.setattr(cuda, "record", gpu.record)
        patch.setattr(cuda, "new_pool", gpu.new_pool)
        for module in (optimizer, clip_grad):
            groups = partial(_by_place, module._group_tensors_by_device_and_dtype)
            patch.setattr(module, "_group_tensors_by_device_and_dtype", groups)
        with gpu, Calls(gpu.waits):
            yield gpu
