"""Cache on disk of the states of all layers of an encoder, for the rows of a split.

    CACHE/states/DIGEST.npy     (layers + 1, places, size), the embeddings' states first

A place is the index of a stored state. There is one state per token that the head reads, or one per
row if the head reads only one state of each row. Padding is not stored. The numbers have the run's
precision: fp32 as computed, or bf16. Rounding to bf16 loses nothing, because the head's matrix
products would round the states anyway.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from inspect import getsource
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.encoder.network import is_foreign, takes_input
from benchharness.errors import JobError, ModelError
from benchharness.leaderboard.job import METHOD
from benchharness.leaderboard.text import whole_file
from benchharness.machine import cache_folder
from benchharness.progress import Progress, Reporter
from benchharness.training.batching import Features, Indices, length_batches
from benchharness.training.compute import Compute, Part
from benchharness.training.predict import PREDICTION_TOKENS, reported

SECONDS_BETWEEN_SIGNS = 10.0
"""Time in seconds between progress reports of a job that waits for states from another job."""

STORED: Mapping[str, np.dtype[Any]] = {
    "fp32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "bf16": np.dtype(np.int16),
}
"""Data type in the files, keyed by precision. NumPy has no bf16, so the bits of bf16 numbers are
stored as integers."""

PER_RUN = ("_", "transformers_version", "architectures", "dtype")
"""Prefixes of the names of config values that do not affect what the network computes."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Description of the encoder states that a head reads.

    Attributes:
        network: Network of the encoder.
        identity: Digest of the encoder (`network_digest`).
        tokens: Tokens whose states the head reads: "first" or "last" if it reads only the state of
            the first or last token of each row, else "all".
        head: Head type, which decides which of Longformer's tokens have global attention.
        compute: Device and precision.
    """

    network: nn.Module
    identity: str
    tokens: str
    head: str
    compute: Compute


def _places_of(features: Features, tokens: str) -> Indices:
    """Return the index of every token's stored state; -1 for tokens whose state is not stored.

    If only one state per row is read, return the index of every row's stored state.
    """
    if tokens != "all":
        return np.arange(len(features))  # (rows,)
    if features.read is None:
        return np.arange(len(features.token_ids))  # (tokens,)
    return np.where(features.read, np.cumsum(features.read) - 1, -1)  # (tokens,)


def layer_states(source: Source, features: Features, report: Reporter) -> Tensor:
    """Return the encoder's states for the rows of a split, memory-mapped from disk.

    If the states are not in the cache on disk, they are computed, without dropout. If several jobs
    need the same states, one job computes them, and the others wait.

    Args:
        source: Description of the states.
        features: Encoded rows of the split.
        report: Function that is called with the progress.

    Returns:
        States `[layers + 1, places, size]`, beginning with the embeddings. There is one place per
        token that the head reads, or one per row if the head reads only one state of each row. The
        states are in bf16 if this is the precision, else in fp32.

    Raises:
        JobError: The disk has too little free space.
        ModelError: The states of the encoder's layers are not available (see `every_layer`).
    """
    path = cache_folder("states") / f"{_digest(source, features)}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Jobs with different seeds start together and need the same states: one computes them, and the
    # others wait.
    with _alone(path, report):
        found = _map(path)
        if found is None:
            _write(path, source, features, report)
            found = _map(path)
    assert found is not None, f"{path} was written just now"
    states = torch.from_numpy(found)
    return states.view(torch.bfloat16) if source.compute.precision == "bf16" else states


def network_digest(network: Any) -> str:
    """Return the SHA-256 (hex) of everything that determines the states that an encoder computes.

    The digest covers the weights, and the config except for dropout rates and the values in
    PER_RUN. If the class of the network comes with the checkpoint, the digest also covers the
    source code of the module that defines the class.
    """
    digest = hashlib.sha256()
    if is_foreign(network):
        digest.update(getsource(sys.modules[type(network).__module__]).encode())
    config = {
        name: value
        for name, value in network.config.to_dict().items()
        if not name.startswith(PER_RUN) and "dropout" not in name
    }
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    for name, weight in network.state_dict().items():
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(np.ascontiguousarray(weight.detach().cpu().numpy()).data)  # without a copy
    return digest.hexdigest()


def _digest(source: Source, features: Features) -> str:
    """Return the SHA-256 (hex) of everything that the states depend on.

    METHOD is a version number that stands for benchharness's code.
    """
    digest = hashlib.sha256()
    compute = (source.compute.precision, source.compute.device.type)
    words = (source.identity, source.tokens, source.head, *compute, METHOD)
    digest.update(json.dumps(words).encode())
    for array in (features.token_ids, features.token_types, features.starts):
        digest.update(b"none" if array is None else np.ascontiguousarray(array).data)
    if features.read is not None:
        digest.update(np.ascontiguousarray(features.read).data)
    return digest.hexdigest()


@contextmanager
def _alone(path: Path, report: Reporter) -> Iterator[None]:
    """Context manager that holds a file's lock, and reports progress while waiting for it."""
    lock = FileLock(path.with_suffix(".lock"))
    while not lock.is_locked:
        with suppress(Timeout):
            lock.acquire(timeout=SECONDS_BETWEEN_SIGNS)
        report(Progress(phase="encoding"))
    try:
        yield
    finally:
        lock.release()


def _map(path: Path) -> NDArray[Any] | None:
    """Return the memory-mapped array of a file; None if the file is missing or damaged.

    The array is mapped copy-on-write, because torch warns about read-only arrays. Nothing is
    written to the file.
    """
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError):
        return None
    return found


def _write(path: Path, source: Source, features: Features, report: Reporter) -> None:
    """Compute the states and write them to a file, which appears only when it is complete."""
    precision, table = source.compute.precision, None
    every = _places_of(features, source.tokens)  # (tokens,), or (rows,)
    with whole_file(path) as draft:
        for at, found in _compute(source, features, report):
            places, states = every[at], found
            if features.read is not None:
                places, states = places[features.read[at]], found[:, features.read[at]]
            if table is None:
                # The number of layers and their size are known with the first batch.
                shape = (len(states), int(every.max()) + 1, states.shape[-1])
                dtype = STORED[precision]
                size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
                free = shutil.disk_usage(path.parent).free
                if free < size:
                    raise JobError(
                        f"the encoder's states for this split need {size / 1e9:.1f} GB, but "
                        f"{path.parent} has only {free / 1e9:.1f} GB free: free disk space, or set "
                        "BENCH_CACHE to a folder on a larger disk."
                    )
                table = np.lib.format.open_memmap(draft.name, mode="w+", dtype=dtype, shape=shape)
            table[:, places] = states  # (layers + 1, places of the batch, size)
        assert table is not None, "a split has rows"
        table.flush()  # the file must be complete before it is renamed


def _compute(
    source: Source, features: Features, report: Reporter
) -> Iterator[tuple[Indices, NDArray[Any]]]:
    """Yield batches: indices of tokens or rows, and their states `[layers + 1, batch, size]`.

    The states are in the data type of the file.
    """
    network, compute = source.network, source.compute
    network.to(compute.device).eval()
    batches = length_batches(features.lengths, PREDICTION_TOKENS[compute.device.type])
    by_rows = replace(features, items=None)

    def states_of(rows: Indices) -> NDArray[Any]:
        with torch.inference_mode(), compute.autocast():
            inputs = Part.of(by_rows, rows, compute.device, layout="padded").inputs
            inputs.pop("marks", None)  # only the head reads them
            found = _read(every_layer(network, inputs), inputs["attention_mask"], source.tokens)
        if compute.precision == "bf16":
            found = found.bfloat16().view(torch.int16)  # NumPy has no bf16
        array: NDArray[Any] = found.cpu().numpy()
        return array

    for step, states in enumerate(reported(batches, states_of, report, "encoding")):
        rows = batches[step]  # read after the step, which may have halved the batch
        yield (features.tokens_of(rows) if source.tokens == "all" else rows), states


def every_layer(network: Any, inputs: Mapping[str, Any]) -> Tensor:
    """Return the states of all layers of an encoder: `[layers + 1, rows, tokens, size]`.

    The first states are the embeddings. The last states are the encoder's output, after the final
    norm if the encoder has one. Some families add padding to their input; the states of this
    padding are removed.

    Args:
        network: Network of the encoder.
        inputs: Inputs of the encoder: `[rows, tokens]` each.

    Raises:
        ModelError: The encoder is a Funnel, or its class comes with the checkpoint and does not
            return the states of its layers.
    """
    family, tokens = network.config.model_type, inputs["input_ids"].shape[1]
    if family == "funnel":
        raise ModelError(
            "funnel shortens a text from block to block, so its layers do not have one state per "
            "token, which frozen features need: use features=fine-tuned."
        )
    if is_foreign(network) and not takes_input(network, "output_hidden_states"):
        raise ModelError(
            f"{type(network).__name__}, the checkpoint's own code, does not accept "
            "output_hidden_states, so the states of its layers are not available: use "
            "features=fine-tuned."
        )
    output = network(**inputs, output_hidden_states=True)
    # In some families, hidden_states[-1] precedes the final norm, so use output[0] instead.
    return torch.stack([s[:, :tokens].float() for s in (*output.hidden_states[:-1], output[0])])


def _read(states: Tensor, mask: Tensor, tokens: str) -> Tensor:
    """Return the states that are stored, `[layers + 1, stored states, size]`."""
    if tokens == "all":
        return states[:, mask.bool()]  # row by row, without padding
    if tokens == "first":
        return states[:, :, 0]
    rows = torch.arange(len(mask), device=mask.device)  # (rows,)
    return states[:, rows, mask.sum(-1) - 1]  # each row's last real token
