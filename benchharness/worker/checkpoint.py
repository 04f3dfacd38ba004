"""Checkpoints: write the trained network of a run, and load it in another run."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from benchharness.encoder import Encoder
from benchharness.errors import BenchError, JobError, ModelError, first_line
from benchharness.heads import Limits
from benchharness.kept_folders import (
    HEAD,
    JOB,
    TAKEN,
    check_checkpoint,
    new_checkpoint,
    require_room,
)
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import CurvePoint, Evaluation, flags_by_task
from benchharness.leaderboard.text import digest
from benchharness.models.pickles import DAMAGED

WEIGHTS = "model.safetensors"
"""Name that transformers expects for a file with weights."""


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """Description of a run, stored as job.json in the folder with the trained network of the run.

    Attributes:
        job: Job of the run.
        limits: Length limits of the run's rows.
        splits: Facts about each predicted split, keyed by its name, as in "glue/rte:dev". The facts
            have the keys "fingerprint" (of the split's rows), "rows" (their number), "scores", and
            "predictions" (a digest of those in the run's result).
        versions: Versions of benchharness, Python and the libraries, keyed by name.
        flags: Names of warnings about the run's scores, keyed by task; None in folders of older
            versions.
    """

    job: Job
    limits: Limits
    splits: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str | None]
    flags: Mapping[str, Sequence[str]] | None = None

    @classmethod
    def of(
        cls,
        job: Job,
        limits: Limits,
        evaluations: Collection[Evaluation],
        curve: Iterable[CurvePoint],
        provenance: Mapping[str, Any],
    ) -> Self:
        """Return the description of a finished run.

        Args:
            job: Job of the run.
            limits: Length limits of the run's rows.
            evaluations: Predictions and scores of each split.
            curve: Points of the learning curve.
            provenance: Provenance of the run's result; only versions are taken from it.
        """
        said = ((each.task, each.flags) for each in evaluations)
        return cls(
            job=job,
            limits=limits,
            splits={
                each.name: {
                    "fingerprint": each.fingerprint,
                    "rows": len(each.predictions),
                    "scores": dict(each.scores),
                    "predictions": digest(each.predictions),
                }
                for each in evaluations
            },
            versions={"benchharness": provenance["code"]["version"], **provenance["versions"]},
            flags=flags_by_task(said, [point.loss for point in curve]),
        )

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the description of a run from its folder.

        The description is in job.json or, if the folder has transformers' format, in
        benchharness.json. The caller must have checked the digests of the folder's files. Raises
        ModelError if the contents do not have the form that benchharness writes.
        """
        with folder_of_a_run(folder):
            if is_published(folder):
                said = read_taken(folder)
                data = {each.name: said[each.name] for each in fields(cls) if each.name in said}
            else:
                data = json.loads((folder / JOB).read_text(encoding="utf-8"))
            flags = data.get("flags")
            if flags is not None:
                flags = {task: list(map(str, each)) for task, each in flags.items()}
            known = {"job": Job.from_json(data["job"]), "limits": Limits(**data["limits"])}
            return cls(**data | known | {"flags": flags})

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain data for JSON."""
        return {**vars(self), "job": self.job.to_json(), "limits": asdict(self.limits)}

    def write(self, folder: Path) -> None:
        """Write the description to job.json in a folder."""
        text = json.dumps(self.to_json(), indent=2) + "\n"
        (folder / JOB).write_text(text, encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class CheckpointWriter:
    """Writer of a trained network, created before the training and used after it.

    The writer must be created before a head is attached to the encoder. The head may remove the
    encoder's pooler, either to train it as a part of the head (BERT), or because the head needs no
    pooler. The writer writes the pooler in both cases.

    Attributes:
        folder: Folder to write.
        job: Job of the run.
        tokenizer: Tokenizer of the encoder.
        config: Config that the encoder was loaded with.
        weights: All weights of the encoder, keyed by name. They are the parameters themselves, so
            training changes them in place.
    """

    folder: Path
    job: Job
    tokenizer: Any
    config: Any
    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, encoder: Encoder, folder: Path, job: Job) -> "CheckpointWriter":
        """Return a writer for an encoder that still has its pooler.

        Raises JobError if the disk has too little free space for the weights.
        """
        # keep_vars returns the parameters themselves, which are read after training. Otherwise
        # state_dict returns detached tensors, which stay untrained if the network changes device.
        weights = encoder.network.state_dict(keep_vars=True)
        require_room(folder, sum(w.numel() * w.element_size() for w in weights.values()))
        return cls(
            folder=folder,
            job=job,
            tokenizer=encoder.tokenizer,
            config=deepcopy(encoder.config),  # a copy, as set_dropout changes the encoder's config
            weights=weights,
        )

    def write(self, network: nn.Module, run: KeptRun) -> None:
        """Write the trained network to the folder, completely or not at all.

        transformers can load the encoder, its config and its tokenizer from the folder. A second
        file of weights contains all weights outside of the encoder, under their names in the
        network. Weights that the heads share with the encoder are in both files.

        Args:
            network: The trained network.
            run: Description of the run.

        Raises:
            JobError: The folder cannot be written.
        """
        if self.tokenizer.is_fast:  # options set during encoding must not be saved
            self.tokenizer.backend_tokenizer.no_truncation()
            self.tokenizer.backend_tokenizer.no_padding()
        state = network.state_dict()
        heads = {name: w for name, w in state.items() if not is_encoders(name)}
        try:
            with new_checkpoint(self.folder, self.job) as draft:
                _save(self.weights, draft / WEIGHTS)
                _save(heads, draft / HEAD)
                # config.save_pretrained would refuse old configs with text-generation options.
                self.config.to_json_file(draft / "config.json")
                self.tokenizer.save_pretrained(draft)
                run.write(draft)
        except (OSError, SafetensorError) as error:
            raise JobError(
                f"the model of this run cannot be written to {self.folder} ({error}): free disk "
                "space, or do not keep the model (omit --keep-models; if other jobs start from "
                "this model, pass --start-from pretrained)."
            ) from error


def _save(weights: Mapping[str, Tensor], file: Path) -> None:
    # Copy each weight, because save_file refuses tensors that share memory, such as tied weights.
    copies = {name: w.detach().cpu().clone().contiguous() for name, w in weights.items()}
    save_file(copies, file, metadata={"format": "pt"})


_ENCODERS = re.compile(r"(networks\.\d+\.)?encoder\.(?!combined\.)")
"""Pattern of the names of the encoder's weights in a network of one or several tasks. The layer
that combines the states of a frozen encoder is trained, so it belongs to the head."""


def is_encoders(name: str) -> bool:
    """Return whether a weight belongs to the network's encoder, given its name in the network."""
    return _ENCODERS.match(name) is not None


_UNFIT = (SafetensorError, OSError, KeyError, RuntimeError, ValueError, TypeError)
"""Errors that loading raises if a file of weights is truncated or belongs to another network."""


@contextmanager
def folder_of_a_run(folder: Path) -> Iterator[None]:
    """Context manager that turns errors about malformed contents of a run's folder into ModelError.

    Correct digests do not rule out such errors, because a user who edits the folder by hand can
    update its digests too.
    """
    try:
        yield
    except (torch.OutOfMemoryError, BenchError):
        raise
    except (*DAMAGED, ArithmeticError, RecursionError, SafetensorError) as error:
        raise ModelError(
            f"the model in {folder} does not have the format that a run writes, although its "
            f"digests are correct ({first_line(error).rstrip('.')}): create this folder again."
        ) from error


def load_start(encoder: Encoder, folder: Path | None, job: Job) -> Mapping[str, Any]:
    """Load the encoder's weights from the run that a job starts from, if there is such a run.

    Tokenizer and config are not loaded. The job has them already, because the run and the job begin
    with the same pretrained checkpoint.

    Args:
        encoder: Encoder of the job's checkpoint, whose weights are replaced.
        folder: Folder with the network of the run; not used if the job starts from no run.
        job: Job that starts from a run.

    Returns:
        Facts for the provenance of the job's result: under the key "started_from", the name, the
        key and a digest of the run. Empty if the job starts from no run.

    Raises:
        JobError: The folder was not passed, is missing, is damaged or contains another network.
    """
    if not job.start_from:
        return {}
    if folder is None:
        raise JobError(f"no folder with the encoder of {job.started_from} was passed to this job.")
    digests = check_checkpoint(folder, job.start_from)
    load_kept(encoder, folder, job.started_from)
    run = {"name": job.started_from, "run": job.start_from, "sha256": digests[WEIGHTS]}
    return {"started_from": run}


def load_kept(encoder: Encoder, folder: Path, name: str) -> None:
    """Load the encoder's weights from the folder of a run.

    The caller must have checked the digests of the folder's files.

    Args:
        encoder: Encoder, whose weights are replaced.
        folder: Folder of the run.
        name: Name of the run in error messages.

    Raises:
        UnfitError: The weights do not fit the encoder.
    """
    try:
        encoder.network.load_state_dict(load_file(folder / WEIGHTS))
    except _UNFIT as error:
        raise _unfit(f"the encoder of {name}", folder, error) from error


def load_head(network: nn.Module, folder: Path, name: str, place: int | None = None) -> None:
    """Load the weights of a head from a run's folder.

    Args:
        network: Network of one task. Its encoder must have its weights already.
        folder: Folder of the run.
        name: Name of the run in error messages.
        place: Index of the task among the tasks on which the run was trained together; None if
            there was only one task.

    Raises:
        UnfitError: The weights do not fit the network.
    """
    own = "" if place is None else f"networks.{place}."  # a single task has no such prefix
    try:
        named = load_file(folder / HEAD).items()
        weights = {key[len(own) :]: w for key, w in named if key.startswith(own)}
        found = network.load_state_dict(weights, strict=False)
    except _UNFIT as error:
        raise _unfit(f"the head of {name}", folder, error) from error
    # Missing weights of the encoder are not an error: they were loaded before, from another file.
    lost = [key for key in found.missing_keys if not is_encoders(key)]
    if odd := lost + found.unexpected_keys:
        raise _unfit(f"the head of {name}", folder, f"{'missing' if lost else 'unknown'} {odd[0]}")


def is_published(folder: Path) -> bool:
    """Return whether a run's model in a folder has transformers' format.

    In transformers' format, one file contains the weights of the whole model. In the other format,
    which runs write, encoder and heads have separate files.
    """
    return (folder / TAKEN).is_file() and not (folder / JOB).is_file()


def read_taken(folder: Path) -> Mapping[str, Any]:
    """Return the contents of benchharness.json in a folder in transformers' format."""
    said: Mapping[str, Any] = json.loads((folder / TAKEN).read_text(encoding="utf-8"))
    return said


def load_class(network: Any, folder: Path, name: str, *, is_body: bool) -> None:
    """Load all weights of a network from a folder in transformers' format.

    Args:
        network: Network of one task.
        folder: Folder with the config and the weights.
        name: Name of the run in error messages.
        is_body: Whether the transformers class is the encoder itself, without a head.

    Raises:
        UnfitError: The weights do not fit the network.
    """
    try:
        scale: Any = tuple(read_taken(folder)["in_last_layer"])
        # This module is imported on use, because only folders in transformers' format need it.
        load_published = resolve_name("benchharness.heads.published:load_published")
        state = load_file(folder / WEIGHTS)
        body = "" if is_body else _name_of_encoder(state, network.encoder)
        load_published(network, state, body, scale)
    except _UNFIT as error:
        raise _unfit(f"the network of {name}", folder, error) from error


def _name_of_encoder(state: Iterable[str], encoder: nn.Module) -> str:
    """Return the name of the encoder in a transformers class, from the names of its weights.

    It is not always the encoder's base_model_prefix: Qwen3 is called "model" in its class for text
    classification, and "transformer" in that for question answering.
    """
    longest = f".{max(encoder.state_dict(), key=len)}"
    return next((name.removesuffix(longest) for name in state if name.endswith(longest)), "")


class UnfitError(JobError):
    """Error raised if the weights in a folder do not fit the network of the run that wrote it."""


def _unfit(what: str, folder: Path, error: object) -> UnfitError:
    said = str(error).splitlines() or [type(error).__name__]
    reason = said[-1].strip()  # the first line of such an error only names the class
    return UnfitError(
        f"{what} in {folder} does not fit this model ({reason}): "
        "delete the folder, and run the same command to train the model again."
    )
