"""Snapshots of a running job, from which it can resume exactly after it was stopped."""

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from benchharness.kept_folders import DamagedError, check_folder, new_folder
from benchharness.machine import source_digest, what_differs
from benchharness.progress import SIGNALS, Interrupted, Progress, Reporter

NUMBERS = "numbers.json"

NAMED = "step-" + "[0-9]" * 10 + "*"
"""Glob pattern of the names of snapshot folders, including unfinished ones. Outdated folders with
such a name are deleted."""

NUMBER_KEPT = 2
"""Number of snapshots that are kept. Two are kept because the event that stopped the job may have
damaged the newest one."""


@dataclass(frozen=True, kw_only=True)
class State:
    """State of a job between two steps.

    Attributes:
        tensors: Tensors on the device of the computation or on the CPU, keyed by group ("weights",
            "optimizer", "random"; "kept" if copies of weights are kept), then by name.
        numbers: Plain data that can be stored as JSON: counters, scores, and states of random
            number generators.
    """

    tensors: Mapping[str, Mapping[str, Tensor]]
    numbers: Mapping[str, Any]

    @property
    def step(self) -> int:
        """Number of finished steps."""
        return int(self.numbers["meter"]["step"])

    @property
    def position(self) -> tuple[int, int]:
        """Progress of the job: number of finished steps, and number of evaluations in the state."""
        return self.step, len(self.numbers["job"]["evaluations"])


@dataclass(kw_only=True)
class Snapshots:
    """Reader and writer of a job's snapshots, which are written at a fixed interval.

    A job resumes from a snapshot only if the conditions under which it runs (versions, device etc.;
    see `conditions`) are the same as when the snapshot was written. If several processes train
    together, all of them read snapshots, and one of them writes snapshots.

    Attributes:
        folder: Folder of the snapshots; None if no snapshots are read or written.
        key: Key of the job.
        every: Interval between two snapshots in seconds.
        provenance: Facts about the job that will be stored with its result, such as versions and
            device. They contain most of the conditions.
        accumulation: Number of micro-batches (parts) per batch.
        report: Function that is called with progress and notes.
        is_writer: Whether this process writes snapshots.
        checkpointing: Whether activations are recomputed in the backward pass.
        saved: Time of the monotonic clock at which the last snapshot was written (or could not be
            written), or at which the job began.
        position: Progress of the job (see State) at the last snapshot; None without a snapshot.
        resumable: Existing snapshots from which the job can resume, oldest first.
        is_kept: False if the last snapshot could not be written.
    """

    folder: Path | None
    key: str
    every: float
    provenance: Mapping[str, Any]
    accumulation: int
    report: Reporter
    is_writer: bool = True
    checkpointing: bool = False
    saved: float = field(default_factory=time.monotonic)
    position: tuple[int, int] | None = None
    resumable: list[Path] = field(default_factory=list)
    is_kept: bool = True

    @cached_property
    def conditions(self) -> dict[str, str]:
        """Conditions under which the job runs, keyed by name.

        They are computed only when a snapshot is written or read.
        """
        return conditions(self.provenance)

    def newest(self) -> State | None:
        """Return the state of the newest intact snapshot; None if the job must start over.

        Damaged snapshots are skipped, with a note. The newest intact snapshot is not used if it was
        written under other conditions. It is not used either if it was written with fewer
        micro-batches per batch than `accumulation`, because memory ran out with so few of them.

        If a snapshot is used, `accumulation` is set to its number of micro-batches, and
        `checkpointing` to true if it was written with recomputed activations. The earlier process
        may have changed both after memory had run out.
        """
        for path in self._there():
            try:
                state = self._read(path)
            except DamagedError as error:
                self._note(f"skips the snapshot {path}: it {error}")
            except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
                self._note(f"skips the snapshot {path}: it cannot be read ({error})")
            else:
                self.resumable = [path] if state else []
                return state
        return None

    def _read(self, path: Path) -> State | None:
        """Return the state of a snapshot; None if the job cannot resume from it."""
        manifest = check_folder(path)
        if manifest["run"] != self.key:
            raise DamagedError("belongs to another run")
        if differs := what_differs(manifest["conditions"], self.conditions):
            self._note(f"starts over, because these conditions of its snapshot changed: {differs}")
            return None
        # The micro-batches of this snapshot did not fit into memory; the job now has more, smaller
        # ones, so it cannot resume from here.
        if manifest["accumulation"] < self.accumulation:
            return None
        state = read_state(path)
        self.accumulation, self.position = int(manifest["accumulation"]), state.position
        self.checkpointing |= manifest.get("activation_checkpointing", False)
        self._note(f"resumes after step {state.step}, from {path}")
        return state

    def save_when_due(self, take: Callable[[], State]) -> None:
        """Save the state that `take` returns if the last snapshot is at least `every` seconds old.

        Otherwise, `take` is not called.
        """
        if time.monotonic() - self.saved >= self.every:
            self.save(take)

    @contextmanager
    def saved_at_a_signal(
        self, take: Callable[[], State], announce: Callable[[], None]
    ) -> Iterator[None]:
        """Context manager that saves a state if SIGTERM or SIGINT ends its block.

        If there is no folder for snapshots, it does nothing.

        Args:
            take: Function that returns the state to save.
            announce: Function that is called if the signal has to wait for the end of a step.
        """
        if self.folder is None:
            yield
            return
        with SIGNALS.announced_by(announce):
            try:
                yield
            except Interrupted:
                self.save(take)
                raise

    def save(self, take: Callable[[], State]) -> None:
        """Write the state that `take` returns as a snapshot, completely or not at all.

        Nothing is written if the job has made no progress since the last snapshot, if there is no
        folder, or if another process is the writer. If the state cannot be written, the job goes
        on: the error is reported, and the next snapshot is tried after the usual interval. Signals
        that arrive while a snapshot is written take effect afterwards.
        """
        if self.folder is None or not self.is_writer:
            return
        with SIGNALS.held_back():
            state = take()
            # The state is already saved if the signal came right after a regular snapshot.
            if state.position == self.position:
                return
            self.report(Progress(phase="saving", step=state.step))
            try:
                path = self.folder / f"step-{state.step:010}"  # matches NAMED; names sort by step
                facts = {
                    "run": self.key,
                    "step": state.step,
                    "accumulation": self.accumulation,
                    "activation_checkpointing": self.checkpointing,
                    "conditions": self.conditions,
                }
                with new_folder(path, facts) as draft:
                    write_state(draft, state)
            except (OSError, SafetensorError) as error:
                self._tell(is_kept=False, note=f"continues, but its state cannot be saved: {error}")
            else:
                self._tell(is_kept=True, note="saves its state again")
                self.position = state.position
                older = [old for old in self.resumable if old != path]
                self.resumable = [*older, path][-NUMBER_KEPT:]
                for other in path.parent.glob(NAMED):
                    if other not in self.resumable:
                        shutil.rmtree(other, ignore_errors=True)
            finally:  # also after a failure: a full disk must not be tried again at every step
                self.saved = time.monotonic()

    def _there(self) -> list[Path]:
        """Return the snapshots on disk, newest first; delete those that killed processes left."""
        found = sorted(self.folder.glob(NAMED), reverse=True) if self.folder else []
        # The name of an unfinished snapshot ends with the process id and a suffix.
        for draft in [path for path in found if path.suffix]:
            shutil.rmtree(draft, ignore_errors=True)
        return [path for path in found if not path.suffix]

    def _tell(self, *, is_kept: bool, note: str) -> None:
        """Report whether a state was written, with a note if that has changed."""
        was_kept, self.is_kept = self.is_kept, is_kept
        note = note if is_kept != was_kept else ""
        self.report(Progress(phase="loading", note=note, is_kept=is_kept))

    def _note(self, sentence: str) -> None:
        self.report(Progress(phase="loading", note=sentence))


# The files of a state.


def write_state(folder: Path, state: State) -> None:
    """Write a state to a folder: one safetensors file per group of tensors, and one JSON file.

    Raises OSError or SafetensorError if the files cannot be written.
    """
    for group, tensors in state.tensors.items():
        # safetensors requires contiguous tensors that share no memory. Tied weights are not a
        # problem, because they have only one name here.
        on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(on_cpu, folder / f"{group}.safetensors")
    text = json.dumps(state.numbers, allow_nan=False)  # ValueError for a NaN, which would be a bug
    (folder / NUMBERS).write_text(text, encoding="utf-8")


def read_state(folder: Path) -> State:
    """Return the state that `write_state` has written, with its tensors on the CPU.

    The caller must have verified the digests of the files. Raises OSError, ValueError or
    SafetensorError if the files cannot be read.
    """
    files = sorted(folder.glob("*.safetensors"))
    return State(
        tensors={file.stem: load_file(file) for file in files},
        numbers=json.loads((folder / NUMBERS).read_text(encoding="utf-8")),
    )


# Conditions of resuming from a state: everything that affects results and is not in the job's key.
#
# Recipe, data, weights and seed are part of the job's key, which a snapshot contains.

MACHINE = ("device", "capability", "threads")
"""Keys in the provenance of the facts about the machine that affect results: the device (the name
of the GPU, or "cpu"), the processor's widest vector instructions, and the number of threads."""


def conditions(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return the conditions that must be unchanged when a job resumes, keyed by name.

    They are the digest of benchharness's code and parts of `provenance`, the facts that are stored
    with the job's result: versions, machine, number of processes, tokenizer, use of CUDA graphs,
    and, if there are any, the digests of the trained encoder that the job starts from and of its
    teacher.
    """
    found = {
        "the code": source_digest()[:12],
        **provenance["versions"],
        **{name: provenance["machine"][name] for name in MACHINE},
        "processes": provenance["machine"].get("processes", 1),
        "the tokenizer": provenance["model"]["tokenizer"],
        "the encoder it starts from": provenance.get("started_from", {}).get("sha256"),
        **({"its teacher": taught["sha256"]} if (taught := provenance.get("teacher")) else {}),
        # With CUDA graphs, packed rows end with padding (`tail` in encoder/packing.py), which
        # changes the random numbers of dropout.
        **({"graphs": True} if provenance.get("graphs") else {}),
    }
    return {name: str(value) for name, value in found.items()}


# The states of every random number generator that training draws from.


def random_tensors() -> dict[str, Tensor]:
    """Return the states of torch's random number generators for the CPU and the current GPU.

    The CPU's generator also seeds the fast dropout on a CPU. Other visible GPUs are left out: they
    belong to other processes, and may be gone when the job is resumed.
    """
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def random_numbers() -> dict[str, Any]:
    """Return the states of Python's and NumPy's global generators as plain data."""
    state: Any = np.random.get_state()
    name, keys, *rest = state  # the Mersenne twister's 624 words, then its position in them
    version, words, normal = random.getstate()
    return {"python": [version, list(words), normal], "numpy": [name, keys.tolist(), *rest]}


def restore_random(tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
    """Restore all random number generators.

    Args:
        tensors: States that `random_tensors` returned.
        numbers: States that `random_numbers` returned.
    """
    torch.set_rng_state(tensors["cpu"])
    if "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"])
    version, words, normal = numbers["python"]
    random.setstate((version, tuple(words), normal))
    np.random.set_state(numbers["numpy"])
