"""Exact restart: the states that a running job keeps, and resumes from after it was stopped."""

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
"""What is deleted: snapshots, and drafts of them."""

NUMBER_KEPT = 2
"""The newest may be damaged by what stopped the job."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a job between two steps.

    `tensors` are by group ("weights", "optimizer", "random") and name, where they are computed or
    on the CPU; `numbers` is plain data. JSON writes a float so that reading it gives the same bits.
    """

    tensors: Mapping[str, Mapping[str, Tensor]]
    numbers: Mapping[str, Any]

    @property
    def step(self) -> int:
        """How many steps were made before it."""
        return int(self.numbers["meter"]["step"])

    @property
    def position(self) -> tuple[int, int]:
        """How far the job has come: its steps, and what it has predicted after the last one."""
        return self.step, len(self.numbers["job"]["evaluations"])


@dataclass(kw_only=True)
class Snapshots:
    """The snapshots of the job `key` in its `folder`, one every `every` seconds.

    Where `folder` is None, none are kept. They are used where all conditions are still as they
    were, most of which `provenance` tells. `accumulation` is the number of parts in which batches
    are computed, with `checkpointing` layers twice. Of several processes of a job all read states,
    and one is the writer. `saved` is when one was written last and `position` how far the job was
    then; `ours` are those that are there and can be resumed from, oldest first. `is_kept` is false
    after one that could not be written.
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
    ours: list[Path] = field(default_factory=list)
    is_kept: bool = True

    @cached_property
    def conditions(self) -> dict[str, str]:
        """What must not change; looked at only where something is kept or resumed from."""
        return conditions(self.provenance)

    def newest(self) -> State | None:
        """The newest whole state, None where it does not fit; a sentence is reported of others.

        A state of batches in more parts than planned, or with checkpointing, is that of a job whose
        memory ran out: the job resumes from it, and goes on in its way.
        """
        for path in self._there():
            try:
                state = self._read(path)
            except DamagedError as error:
                self._note(f"skips the snapshot {path}: it {error}")
            except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
                self._note(f"skips the snapshot {path}: it cannot be read ({error})")
            else:
                self.ours = [path] if state else []
                return state
        return None

    def _read(self, path: Path) -> State | None:
        """A snapshot's state, None where it fits no more."""
        manifest = check_folder(path)
        if manifest["run"] != self.key:
            raise DamagedError("is that of another run")
        if differs := what_differs(manifest["conditions"], self.conditions):
            self._note(f"starts over, because its snapshot no longer fits: {differs}")
            return None
        if manifest["accumulation"] < self.accumulation:  # memory did not suffice for that
            return None
        state = read_state(path)
        self.accumulation, self.position = int(manifest["accumulation"]), state.position
        self.checkpointing |= manifest.get("activation_checkpointing", False)
        self._note(f"resumes after step {state.step}, from {path}")
        return state

    def save_when_due(self, take: Callable[[], State]) -> None:
        """Saves a state where the last one is older than `every` seconds."""
        if time.monotonic() - self.saved >= self.every:
            self.save(take)

    @contextmanager
    def saved_at_a_signal(
        self, take: Callable[[], State], announce: Callable[[], None]
    ) -> Iterator[None]:
        """A block in which a state is kept before SIGTERM or SIGINT end it.

        `announce` is called where the signal has to wait for a step to end.
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
        """Writes the state that `take` gives, whole or not at all; no signal interrupts that.

        Nothing is written where the last one is of the same position. A job does not fail because
        its state cannot be kept: that is reported, and tried again when the next one is due.
        """
        if self.folder is None or not self.is_writer:
            return
        with SIGNALS.held_back():
            state = take()
            if state.position == self.position:  # a signal right after a snapshot was due
                return
            self.report(Progress(phase="saving", step=state.step))
            try:
                path = self.folder / f"step-{state.step:010}"  # NAMED; names sort as steps do
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
                self.ours = [*(old for old in self.ours if old != path), path][-NUMBER_KEPT:]
                for other in path.parent.glob(NAMED):
                    if other not in self.ours:
                        shutil.rmtree(other, ignore_errors=True)
            finally:  # where it failed too: not every step is to try a full disk again
                self.saved = time.monotonic()

    def _there(self) -> list[Path]:
        """Those on the disk, the newest first; deletes drafts of a process that was killed."""
        found = sorted(self.folder.glob(NAMED), reverse=True) if self.folder else []
        # A draft has the process's number and a kind behind its name.
        for draft in [path for path in found if path.suffix]:
            shutil.rmtree(draft, ignore_errors=True)
        return [path for path in found if not path.suffix]

    def _tell(self, *, is_kept: bool, note: str) -> None:
        """Reports whether a state was written, with a note where that is not as it was before."""
        was_kept, self.is_kept = self.is_kept, is_kept
        note = note if is_kept != was_kept else ""
        self.report(Progress(phase="loading", note=note, is_kept=is_kept))

    def _note(self, sentence: str) -> None:
        self.report(Progress(phase="loading", note=sentence))


# The files of a state.


def write_state(folder: Path, state: State) -> None:
    """Writes one file of safetensors for each group, and one of JSON; no pickle.

    Raises OSError or SafetensorError.
    """
    for group, tensors in state.tensors.items():
        # Contiguous, as safetensors asks; a weight that is tied has one name here.
        on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(on_cpu, folder / f"{group}.safetensors")
    text = json.dumps(state.numbers, allow_nan=False)  # a NaN here is a fault of ours: ValueError
    (folder / NUMBERS).write_text(text, encoding="utf-8")


def read_state(folder: Path) -> State:
    """The state that `write_state` has written, on the CPU. Whether it is whole is checked before.

    Raises OSError, ValueError or SafetensorError.
    """
    files = sorted(folder.glob("*.safetensors"))
    return State(
        tensors={file.stem: load_file(file) for file in files},
        numbers=json.loads((folder / NUMBERS).read_text(encoding="utf-8")),
    )


# What must be as it was for a state to be resumed from: all that changes bits and is in no key.
#
# Recipe, data, weights and seed are in the key of the job, by which its states are found.

MACHINE = ("device", "capability", "threads")
"""Which processor computes, its widest instructions, and in how many parts it adds up."""


def conditions(provenance: Mapping[str, Any]) -> dict[str, str]:
    """By name, from what a result says of where it comes from."""
    found = {
        "the code": source_digest()[:12],
        **provenance["versions"],
        **{name: provenance["machine"][name] for name in MACHINE},
        "processes": provenance["machine"].get("processes", 1),
        "the tokenizer": provenance["model"]["tokenizer"],
        "the encoder it starts from": provenance.get("started_from", {}).get("sha256"),
        **({"its teacher": taught["sha256"]} if (taught := provenance.get("teacher")) else {}),
        # Tails of packed rows (encoder/packing.py) change what dropout draws.
        **({"graphs": True} if provenance.get("graphs") else {}),
    }
    return {name: str(value) for name, value in found.items()}


# The states of every random number generator that training draws from.


def random_tensors() -> dict[str, Tensor]:
    """The states of torch's generators: the CPU's, which fast dropout uses too, and the own GPU's.

    Others that are visible are other processes', and may not be there when the job is resumed.
    """
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def random_numbers() -> dict[str, Any]:
    """The states of python's and numpy's global generators as plain data."""
    state: Any = np.random.get_state()
    name, keys, *rest = state  # the Mersenne twister's 624 words, and where it stands in them
    version, words, normal = random.getstate()
    return {"python": [version, list(words), normal], "numpy": [name, keys.tolist(), *rest]}


def restore_random(tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
    """Puts every generator where it was."""
    torch.set_rng_state(tensors["cpu"])
    if "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"])
    version, words, normal = numbers["python"]
    random.setstate((version, tuple(words), normal))
    np.random.set_state(numbers["numpy"])
