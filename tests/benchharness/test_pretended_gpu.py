"""Whole jobs by the code that runs on a GPU, on one that is pretended.

Every tensor is where a GPU would need it, results are those of a CPU, and the host waits for the
GPU where it is known to. Kernels and speed are for `pytest -m gpu`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
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
from benchharness.heads import coref
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.training.loop import Training
from benchharness.worker.job import GRAPHS, run_job
from benchharness.worker.zero_shot import run_zero_shot
from tests.helpers.device_stand_in import ATEN, INDEXING, recorded_on_a_cpu, waits_for
from tests.helpers.families import FAMILIES, save_family
from tests.helpers.mini_jobs import QUICK, make_job, make_shared_job
from tests.helpers.plans import plan_job, plan_jobs
from tests.helpers.stopped_jobs import EVERY_STEP, deterministic, small_job, stop
from tests.helpers.text_models import save_text_model, text_job

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")

MOVING = {ATEN.copy_, ATEN._to_copy, ATEN._foreach_copy_, ATEN.set_}
"""What may read in one place and write in the other."""

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
            if waits_for(func, args):
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
        gpu = PretendGpu()
        for module in (optimizer, clip_grad):
            groups = partial(_by_place, gpu, module._group_tensors_by_device_and_dtype)
            patch.setattr(module, "_group_tensors_by_device_and_dtype", groups)
        with gpu:
            yield gpu


STILL = {"dropout": "0.0", "classifier_dropout": "0.0"}
"""A CPU and a GPU draw other numbers."""

SHORT = STILL | {"epochs": "2", "batch_size": "8"}

TASKS = (
    *("cola", "stsb", "superglue/wic", "superglue/wsc", "superglue/copa", "superglue/multirc"),
    *("superglue/record", "race/all", "squad/v2.0", "quac/quac", "coqa/coqa"),
    *("hotpotqa/distractor", "conll2003/ner", "conll2012/srl", "conll2012/coref"),
)
"""Every head, and every way to give it rows."""

WAITING_TASKS = {"conll2012/coref"}
"""Its network has to know how many spans there are."""

WAITING_FAMILIES = {
    # transformers looks whether a mask hides anything, once in a step
    *("big_bird", "convbert", "megatron-bert", "mobilebert", "mpnet", "t5", "gpt2"),
    *("openai-gpt",),  # as gpt2 too: which places the loss of its language model is of
    "longformer",  # which tokens see all others
    "xlnet",  # one_hot asks a CPU for its greatest number, and does not ask a GPU
}

WAYS: dict[str, Callable[[], Job]] = {
    "features": lambda: make_job("cola", limit=8, features="mix", **SHORT),
    "LoRA": lambda: make_job("cola", limit=8, lora_rank="2", **SHORT),
    "the best": lambda: make_job("cola", limit=8, **SHORT | {"best_checkpoint": "true"}),
    "an average": lambda: make_job("cola", limit=8, **SHORT | {"average_last": "2"}),
    "deterministic": lambda: make_job("cola", limit=8, **SHORT | {"deterministic": "true"}),
    "micro-batches": lambda: make_job("cola", limit=8, **SHORT | {"accumulation": "2"}),
    "bf16": lambda: replace(make_job("cola", limit=8, **SHORT), precision="bf16"),
    "together": lambda: make_shared_job("cola", "stsb", "squad/v2.0", limit=8, **SHORT),
}


def losses(result: Result) -> list[float]:
    return [point.loss for point in result.curve]


def compare(job: Job) -> Counter[str]:
    """Runs a job in both places; gives what the host waited for in the steps after the first."""
    waits: Counter[str] = Counter()
    step = Training._step

    def counted(training: Training) -> None:
        before, is_first = Counter(gpu.waits), training.meter.step == 0
        step(training)
        if not is_first:
            waits.update(gpu.waits - before)

    with pretended_gpu() as gpu, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_step", counted)
        found = run_job(job)
    expected = run_job(job)
    assert found.provenance["machine"]["device"] == "Pretended H100"
    assert len(found.curve) > 1
    np.testing.assert_allclose(losses(found), losses(expected), rtol=2e-4, atol=2e-4)
    return waits


@pytest.mark.parametrize("task", TASKS)
def test_a_task_gives_what_it_gives_on_a_cpu(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coref, "DROPOUT", 0.0)
    waits = compare(make_job(task, limit=8, **SHORT))
    assert (task in WAITING_TASKS) == bool(waits), waits


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_gives_what_it_gives_on_a_cpu(family: str, tmp_path: Path) -> None:
    save_family(tmp_path / family, family)
    waits = compare(make_job("cola", limit=8, model=str(tmp_path / family), **SHORT))
    assert (family in WAITING_FAMILIES) == bool(waits), waits


@pytest.mark.parametrize("graphs", ["0", "1"], ids=["computed", "recorded"])
@pytest.mark.parametrize("way", WAYS)
def test_a_way_gives_what_it_gives_on_a_cpu(
    way: str, graphs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GRAPHS, graphs)
    waits = compare(WAYS[way]())
    # States of frozen encoders stay on the disk; those of a batch are fetched.
    assert (way == "features") == bool(waits), waits


@pytest.mark.parametrize("task", ["glue/cola", "squad/v1.1"])
def test_text_to_text_gives_what_it_gives_on_a_cpu(task: str, tmp_path: Path) -> None:
    waits = compare(text_job(save_text_model(tmp_path / "t5"), task, limit=4, dropout="0"))
    # In each of five steps: two masks, and how long the longest answer is.
    assert waits == {"aten._local_scalar_dense": 15}


def test_a_zero_shot_job_gives_what_it_gives_on_a_cpu() -> None:
    job = plan_job("tiny", "copa", shots=[0], limit=4, precision="fp32")
    with pretended_gpu() as gpu:
        found = run_zero_shot(job)
    chosen = [p["option"] for p in found.evaluations[0].predictions]
    assert chosen == [p["option"] for p in run_zero_shot(job).evaluations[0].predictions]
    assert gpu.waits["a copy to cpu"] == 1  # all scores of the split, at its end


@pytest.mark.parametrize("task", ["stsb", "squad/v2.0"])
def test_a_student_learns_what_it_learns_on_a_cpu(task: str, tmp_path: Path) -> None:
    teacher = make_job(task, limit=8, **SHORT)
    (_, student) = plan_jobs(
        "tiny",
        task,
        overrides=QUICK | SHORT | {"layers": "1", "layer_weight": "0.5"},
        limit=8,
        precision="fp32",
        teacher=(teacher,),
    ).jobs
    run_job(teacher, keep=tmp_path)
    with pretended_gpu():
        found = run_job(student, teacher=tmp_path)
    expected = run_job(student, teacher=tmp_path)
    np.testing.assert_allclose(losses(found), losses(expected), rtol=2e-4, atol=2e-4)


def test_a_stopped_job_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """With dropout; its generators are a GPU's, which snapshots keep by name."""
    job = small_job(limit=8)
    with pretended_gpu():
        expected = run_job(job)
        stop(job, tmp_path, checkpoint_every=EVERY_STEP)
        found = run_job(job, snapshots=tmp_path)
    assert found.provenance["resumed"]["steps"]
    assert deterministic(found) == deterministic(expected)


def test_what_a_gpu_refuses_is_refused() -> None:
    with pretended_gpu() as gpu:
        there, here = torch.ones(3, device=GPU), torch.ones(3)
        assert (there.device, (there + 1).device, here.device) == (GPU, GPU, CPU)
        assert (there * torch.tensor(2.0)).is_cuda  # a number may come from either
        with pytest.raises(RuntimeError, match="same device"):
            there + here
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        assert not gpu.waits
        assert there.sum().item() == 3.0
        assert there.cpu().numpy().sum() == 3.0
        assert dict(gpu.waits) == {"aten._local_scalar_dense": 1, "a copy to cpu": 1}
