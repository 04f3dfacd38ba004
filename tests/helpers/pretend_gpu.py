"""A GPU that is pretended: the code of a GPU runs on a CPU, and says where each tensor would be.

Every tensor is where a GPU would need it, what the host would wait for is counted, and steps are
recorded.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
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
"""What may read in one place and write in the other."""

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

OF_PACKED = {ATEN._pack_padded_sequence, ATEN._pad_packed_sequence, ATEN.lstm}
"""What asks for its lengths on the CPU."""

ANSWERS = {
    Tensor.device.__get__: GPU,  # type: ignore[attr-defined]
    Tensor.is_cuda.__get__: True,  # type: ignore[attr-defined]
    Tensor.is_cpu.__get__: False,  # type: ignore[attr-defined]
}
"""What a tensor of a GPU says of itself."""


class Places:
    """Where tensors are, by their memory; None where C++ code made them from nothing."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[StorageWeakRef, torch.device]] = {}

    def of(self, tensor: Tensor) -> torch.device | None:
        """Where a tensor is."""
        with torch._C.DisableTorchFunction():
            ref, place = self._known.get(tensor.untyped_storage()._cdata, (None, None))
        return None if ref is None or ref.expired() else place

    def put(self, tensor: Tensor, place: torch.device) -> None:
        """Notes where a tensor is from now on, with all that share its memory."""
        with torch._C.DisableTorchFunction():
            storage = tensor.untyped_storage()
        self._known[storage._cdata] = (StorageWeakRef(storage), place)
        if len(self._known) > 20_000:
            alive = self._known.items()
            self._known = {key: found for key, found in alive if not found[0].expired()}


class PretendGpu(TorchDispatchMode):
    """The modes in which it is pretended; `waits` counts what the host waited for, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.places = Places()
        self.waits: Counter[str] = Counter()
        self._calls = _Calls(self)

    def __enter__(self) -> "PretendGpu":
        super().__enter__()
        self._calls.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._calls.__exit__(*error)
        super().__exit__(*error)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        packet, given = func.overloadpacket, _tensors((args, kwargs))
        places = [self.places.of(tensor) for tensor in given]
        if GPU in places:
            of_cpu = [t for t, p in zip(given, places, strict=True) if p == CPU and t.dim() > 0]
            # Indices may be on the CPU too: the host waits until they are copied.
            if of_cpu and packet in INDEXING and self.places.of(args[0]) == GPU:
                self.waits[f"{packet} by indices of the CPU"] += 1
            elif of_cpu and packet not in MOVING | OF_PACKED:
                raise RuntimeError(f"{func}: Expected all tensors to be on the same device")
            if _waits_for(func, args):
                self.waits[str(packet)] += 1
        made = func(*args, **(kwargs or {}))
        place = GPU if GPU in places else CPU if CPU in places else None
        if packet is ATEN._pack_padded_sequence:
            self.places.put(made[1], CPU)  # how many rows are left at each token
        for tensor in _tensors(made):
            if place is not None and self.places.of(tensor) is None:
                self.places.put(tensor, place)
        return made


class _Calls(TorchFunctionMode):
    """What Python asks of torch: devices are named in its calls, and read from tensors."""

    def __init__(self, gpu: PretendGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (Tensor.to, Tensor.cpu, Tensor.cuda):
            return self._moved(func.__name__, args, kwargs)
        if args and isinstance(args[0], Tensor) and self._gpu.places.of(args[0]) == GPU:
            if func in ANSWERS:
                return ANSWERS[func]
            if func in (Tensor.numpy, Tensor.__array__):
                raise TypeError("can't convert cuda:0 device type tensor to numpy.")
            if func is Tensor.tolist:
                self._gpu.waits["tolist"] += 1
        if func is Tensor.pin_memory:
            return args[0]
        kwargs.pop("pin_memory", None)
        return self._made(func, args, kwargs)

    def _made(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call makes, on the device that it names or else where it is called from."""
        places, asked = self._gpu.places, kwargs.get("device")
        asked = None if asked is None else torch.device(asked).type
        if asked == "cuda":
            kwargs["device"] = CPU
        made = func(*args, **kwargs)
        has_gpu = any(places.of(tensor) == GPU for tensor in _tensors((args, kwargs)))
        for tensor in _tensors(made):
            if asked in ("cuda", "cpu"):
                places.put(tensor, GPU if asked == "cuda" else CPU)
            elif places.of(tensor) is None and not has_gpu:
                places.put(tensor, CPU)
        return made

    def _moved(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        tensor, places = args[0], self._gpu.places
        is_copy = kwargs.pop("copy", False)
        if name == "to" and len(args) > 1 and isinstance(args[1], Tensor):
            args = (tensor, places.of(args[1]) or CPU, args[1].dtype, *args[2:])
        if name == "to":
            device, dtype, is_queued, _ = torch._C._nn._parse_to(*args[1:], **kwargs)
        else:
            device, dtype, is_queued = (GPU if name == "cuda" else CPU), None, False
        here = places.of(tensor) or CPU
        there = here if device is None else GPU if device.type == "cuda" else CPU
        if device is not None and device.type == "meta":
            return tensor.to("meta")
        made = tensor if dtype is None else tensor.to(dtype)
        if there != here or (is_copy and made is tensor):
            made = made.clone() if made is tensor else made
            if there != here and not (is_queued and there == GPU):
                self._gpu.waits[f"a copy to {there.type}"] += 1
        if made is not tensor:
            places.put(made, there)
        return made


def _waits_for(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether a host waits for an operation of a GPU: also for an indexing by a mask."""
    if func.overloadpacket not in INDEXING:
        return func.overloadpacket in WAITING
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


class _Autocast(torch.autocast):
    """That of a GPU is that of the CPU."""

    def __init__(self, device_type: str, *args: Any, **options: Any) -> None:
        super().__init__("cpu" if device_type == "cuda" else device_type, *args, **options)


def _by_place(gpu: PretendGpu, groups: Any, tensors: Any, *options: Any) -> Any:
    """As an optimizer asks for them: tensors of one device and type."""
    found = groups(tensors, *options)
    place = gpu.places.of(tensors[0][0])
    return {(place or device, dtype): group for (device, dtype), group in found.items()}


@contextmanager
def pretended_gpu() -> Iterator[PretendGpu]:
    """Has torch believe in one GPU of the Hopper generation, with recorded steps (CUDA graphs)."""
    state = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=lambda _: None,
        get_device_name=lambda *_: "Pretended H100",
        get_device_capability=lambda *_: (9, 0),
        is_bf16_supported=lambda *_, **__: True,
        is_tf32_supported=lambda: True,
        empty_cache=lambda: None,
        max_memory_allocated=lambda *_: 0,
        get_rng_state=lambda *_: torch.get_rng_state(),
        set_rng_state=lambda state, *_: torch.set_rng_state(state),
        manual_seed_all=lambda _: None,
        graph_pool_handle=lambda: None,
        is_current_stream_capturing=lambda: False,
    )
    asked = torch.is_autocast_enabled
    with pytest.MonkeyPatch.context() as patch, recorded_on_a_cpu():
        for name, value in vars(state).items():
            patch.setattr(torch.cuda, name, value)
        # A torch that was built for GPUs would ask its accelerator whether it records a graph.
        patch.setattr(torch.accelerator, "current_accelerator", lambda **_: None)
        patch.setattr(torch, "autocast", _Autocast)
        patch.setattr(torch, "is_autocast_enabled", lambda *_: asked("cpu"))
        patch.setattr(torch.backends.cudnn, "is_acceptable", lambda _: False)
        patch.setattr(kernels, "_has_kernel", lambda *_: False)
        patch.setattr(cuda, "fuse_norms", lambda _: "")
        gpu = PretendGpu()
        for module in (optimizer, clip_grad):
            groups = partial(_by_place, gpu, module._group_tensors_by_device_and_dtype)
            patch.setattr(module, "_group_tensors_by_device_and_dtype", groups)
        with gpu:
            yield gpu


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
