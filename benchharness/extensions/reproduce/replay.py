"""Prepare stored jobs to run again: check permissions, find weights, and check the data."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchharness.driver.start_checkpoints import IS_NO_NETWORK
from benchharness.engines.local import LocalEngine, Placement
from benchharness.engines.process import worker_command
from benchharness.engines.slots import find_slots
from benchharness.errors import BenchError, ForeignCodeError
from benchharness.leaderboard.job import TIMED, Job
from benchharness.models import Trust, find_model, weights_identity
from benchharness.models.weights import hub_revision, require_checkpoint
from benchharness.plugins import plugins_for
from benchharness.splits import ChangedRowsError, check_documents, read_split
from benchharness.tasks.custom import code_of, define_task
from benchharness.tasks.foreign_code import name_code, require_named
from benchharness.tasks.read import SplitRows
from benchharness.tasks.suites import find_task


class CannotRunError(Exception):
    """Raised for a job that cannot run again on this machine.

    Args:
        thing: Keyword for the reason: "kind", "permission", "plugin", "weights" or "data".
        sentence: Reason, with the next step for the user.
    """

    def __init__(self, thing: str, sentence: str) -> None:
        super().__init__(sentence)
        self.thing = thing


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Sources of data and weights for jobs that run again, and the user's permission for code.

    Attributes:
        is_archive: True if the runs come from an archive. Local paths in it are never opened.
        data: Source of the rows: "hub", "mini" or a folder; None for the source of each run.
        checkpoints: Folders of checkpoints. A job uses the folder whose weights have its digest.
        trust_code: True if code of checkpoints and of metrics may run.
    """

    is_archive: bool = False
    data: str | None = None
    checkpoints: Sequence[str] = ()
    trust_code: bool = False
    _rows: dict[tuple[str, str], SplitRows] = field(default_factory=dict, init=False)
    _checked: set[tuple[str, str]] = field(default_factory=set, init=False)

    def prepared(self, job: Job) -> Job:
        """Return a job with the locations of its data and its checkpoint on this machine.

        The key of the job does not change. All rows are read and compared with their digest, and so
        are the files of a checkpoint folder.

        Raises:
            CannotRunError: The job needs code that is not permitted, its weights or data are
                missing or differ, or running it again cannot give the same result.
        """
        check_kind(job)
        self._check_permission(job)
        placed = self._with_weights(self._with_data(job))
        self._check_rows(placed)
        return placed

    def rows(self, job: Job) -> dict[str, SplitRows]:
        """Return the examples of the splits that a prepared job predicts, keyed by "task:split"."""
        names = (f"{task}:{split}" for task, split in job.predicted_splits)
        known = self._rows
        return {
            name: known.get((job.data, job.fingerprints[name])) or read_split(job, name)
            for name in names
        }

    def _check_permission(self, job: Job) -> None:
        """Raise CannotRunError if a job needs code that the user has not permitted."""
        code = code_of(job.definition)
        try:
            if self.trust_code:
                name_code(code)
            require_named(code)
            name_code(code)  # the jobs run with another store, for which no code is remembered
        except ForeignCodeError as error:
            raise CannotRunError("permission", str(error)) from error
        if job.trust.remote_code and not self.trust_code:
            raise CannotRunError(
                "permission",
                f"it needs the Python code that comes with {job.checkpoint}: read the code, then "
                "pass --trust-remote-code.",
            )
        try:
            plugins_for(job)
        except BenchError as error:
            names = ", ".join(job.plugins)
            raise CannotRunError(
                "plugin", f"it needs the unchanged plugin {names} ({error}): pass --plugin FILE."
            ) from error

    def _with_data(self, job: Job) -> Job:
        define_task(job.definition)
        if self.data is not None:
            place = self.data if self.data in ("hub", "mini") else str(Path(self.data).absolute())
            return replace(job, data=place)
        if self.is_archive and job.data not in ("hub", "mini"):
            raise CannotRunError(
                "data",
                f"its data, {job.data}, are not part of the archive: pass --data with your copy.",
            )
        return job

    def _with_weights(self, job: Job) -> Job:
        """Return the job with the location of its weights; raise CannotRunError without them."""
        kind, revision = job.weights.partition(":")[0], hub_revision(job.weights)
        if kind == "sha256":
            return replace(job, checkpoint=self._folder_with(job))
        try:
            if kind in ("builtin", "baseline"):
                found = weights_identity(find_model(job.checkpoint.removeprefix("baseline:")))
                words = f"the run had {job.weights[:40]}, and this benchharness has {found[:40]}"
            else:
                found = f"hub:{job.checkpoint}@{revision}"
                words = f"{job.weights[:80]} does not name the commit of {job.checkpoint}"
            if found != job.weights:
                raise CannotRunError("weights", f"the weights differ: {words}.")
            if kind == "hub":
                require_checkpoint(job.checkpoint, revision, job.trust, whole=job.as_text)
        except BenchError as error:
            raise CannotRunError("weights", f"its weights cannot be loaded: {error}") from error
        return job

    def _folder_with(self, job: Job) -> str:
        own = [] if self.is_archive else [job.checkpoint]
        folders = [*own, *(str(Path(each).expanduser().absolute()) for each in self.checkpoints)]
        found: dict[str, str] = {}
        for folder in folders:
            try:
                found[folder] = _identity(folder, job.trust)
            except (BenchError, OSError) as error:
                found[folder] = str(error)
            if found[folder] == job.weights:
                return folder
        shown = "; ".join(f"{folder} has {said[:80]}" for folder, said in found.items())
        raise CannotRunError(
            "weights",
            f"no folder has its weights ({job.weights[:19]}){': ' if shown else ''}{shown}. Pass "
            "--checkpoint DIR with the checkpoint.",
        )

    def _check_rows(self, job: Job) -> None:
        try:
            for name, fingerprint in job.fingerprints.items():
                if (place := (job.data, fingerprint)) not in self._checked or job.documents:
                    rows = read_split(job, name)
                    check_documents(
                        replace(job, documents=_only(job.documents, name)), {name: rows}
                    )
                    # Do not keep the train split: it may be large, and is not needed for scores.
                    if not name.endswith(":train"):
                        self._rows[place] = rows
                    self._checked.add(place)
        except ChangedRowsError as error:
            words = str(error).removesuffix(" Start the run again.")
            raise CannotRunError("data", f"its data differ: {words}") from error
        except BenchError as error:
            raise CannotRunError("data", f"its data cannot be read: {error}") from error


def _only(documents: Mapping[str, str], name: str) -> dict[str, str]:
    return {name: documents[name]} if name in documents else {}


@cache
def _identity(folder: str, trust: Trust) -> str:
    return weights_identity(find_model(folder, trust))


def check_kind(job: Job) -> None:
    """Raise CannotRunError for a run without a job to run, or with measured times as scores."""
    is_run = job.kind in ("model", "baseline", "zero-shot")
    if not is_run:
        raise CannotRunError(
            "kind",
            f"it is {IS_NO_NETWORK.get(job.kind, 'not the result of a job')}, which cannot run "
            "again.",
        )
    define_task(job.definition)
    try:
        measured = find_task(job.task).is_measured
    except BenchError as error:
        raise CannotRunError("plugin", str(error)) from error
    if job.recipe == TIMED or measured:
        raise CannotRunError("kind", "its scores are measured times, which are never equal.")


def placement_of(machine: Mapping[str, Any], at_once: int, threads: int | None) -> Placement:
    """Return a placement with the device, processes and threads of a stored run.

    Args:
        machine: Facts about the machine of the run, from its provenance: "processes", "threads" and
            "device". A GPU is used only if the run used one.
        at_once: Number of jobs that run at the same time.
        threads: Number of threads per process; None for the number of the run.
    """
    processes = _positive(machine.get("processes"), most=os.cpu_count() or 1)
    device = "cpu" if str(machine.get("device", "cpu")) == "cpu" else "auto"
    count = threads or _positive(machine.get("threads"), most=_MOST_THREADS)
    slots = tuple(
        replace(each, environment={**each.environment, "OMP_NUM_THREADS": str(count)})
        for each in find_slots(device, at_once, processes=processes)
    )
    command = worker_command(processes) if processes > 1 else ()  # one process can be forked
    return Placement(slots=slots, engine=partial(LocalEngine, slots, command=command))


_MOST_THREADS = 256
"""Largest number of threads that is accepted from a stored run, which may be untrusted."""


def _positive(value: object, most: int) -> int:
    return min(value, most) if isinstance(value, int) and value > 0 else 1
