"""The states that a job keeps while it runs, and the one that it takes up when it starts again."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from benchharness.interruption import SIGNALS, Interrupted
from benchharness.kept_folders import DamagedError, check_folder, new_folder
from benchharness.progress import Progress, Reporter
from benchharness.restart.conditions import conditions, what_differs
from benchharness.restart.state import State, read_state, write_state

__all__ = ["Snapshots"]

NUMBER_KEPT = 2
"""The newest may be damaged by what stopped the job."""


@dataclass(kw_only=True)
class Snapshots:
    """The snapshots of the job `key` in its `folder`, one every `every` seconds.

    They are used where all conditions are still as they were, most of which `provenance` tells.
    `accumulation` is the number of parts in which batches are computed. Of several processes of a
    job all read states, and one is the writer. `saved` is when one was written last and `position`
    how far the job was then; `ours` are those that are there and can be gone on from, oldest first.
    """

    folder: Path
    key: str
    every: float
    provenance: Mapping[str, Any]
    accumulation: int
    report: Reporter
    is_writer: bool = True
    saved: float = field(default_factory=time.monotonic)
    position: tuple[int, int] | None = None
    ours: list[Path] = field(default_factory=list)

    @cached_property
    def conditions(self) -> dict[str, str]:
        """What must not change; looked at only where something is kept or taken up."""
        return conditions(self.provenance)

    def newest(self) -> State | None:
        """The newest whole state, None where it does not fit; a sentence is reported of others.

        A state of batches in more parts than planned is that of a job whose memory ran out: it is
        taken up, and `accumulation` is its own from now on.
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
            self._note(f"starts over, because its snapshot does not fit any more: {differs}")
            return None
        if manifest["accumulation"] < self.accumulation:  # memory did not suffice for that
            return None
        state = read_state(path)
        self.accumulation, self.position = int(manifest["accumulation"]), state.position
        self._note(f"goes on after step {state.step}, from {path}")
        return state

    def save_when_due(self, take: Callable[[], State]) -> None:
        """Saves a state where the last one is older than `every` seconds."""
        if time.monotonic() - self.saved >= self.every:
            self.save(take)

    @contextmanager
    def saved_at_a_signal(self, take: Callable[[], State]) -> Iterator[None]:
        """A block in which a state is kept before SIGTERM or SIGINT end it."""
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
        if not self.is_writer:
            return
        with SIGNALS.held_back():
            state = take()
            if state.position == self.position:
                return
            self.report(Progress(phase="saving", step=state.step))
            try:
                path = self._write(state)
            except (OSError, SafetensorError) as error:
                self._note(f"goes on, but its state cannot be kept: {error}")
            else:
                self.position = state.position
                self._keep_newest(path)
            finally:
                self.saved = time.monotonic()

    def _write(self, state: State) -> Path:
        path = self.folder / f"step-{state.step:010}"
        facts = {
            "run": self.key,
            "step": state.step,
            "accumulation": self.accumulation,
            "conditions": self.conditions,
        }
        with new_folder(path, facts) as draft:
            write_state(draft, state)
        return path

    def _keep_newest(self, path: Path) -> None:
        self.ours = [*(old for old in self.ours if old != path), path][-NUMBER_KEPT:]
        for other in self.folder.iterdir():
            if other not in self.ours:
                shutil.rmtree(other, ignore_errors=True)

    def _there(self) -> list[Path]:
        """Those on the disk, the newest first; deletes drafts of a process that was killed."""
        if not self.folder.is_dir():
            return []
        found = sorted(self.folder.iterdir(), reverse=True)
        for draft in [path for path in found if path.suffix]:
            shutil.rmtree(draft, ignore_errors=True)
        return [path for path in found if not path.suffix]

    def _note(self, sentence: str) -> None:
        self.report(Progress(phase="loading", note=sentence))
