"""The trained network that a run leaves as a checkpoint, and how another run starts from it."""

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
from benchharness.tasks.errors import BenchError, JobError, ModelError, first_line

WEIGHTS = "model.safetensors"
"""The name by which transformers looks for them."""


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """What job.json says of the run whose network stands beside it.

    `limits` are those of its rows. `splits` have, by "task:split", the `fingerprint` of the rows,
    their number, the `scores`, and a digest of the `predictions` as the run's result has them.
    `versions` are those of benchharness, Python and the libraries. `flags` are those of the run's
    scores by task, None where the folder is older than they are.
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
        """Of a run that has ended."""
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
        """That of a folder which was checked; ModelError where a field is none of a run's."""
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
        """Plain data."""
        return {**vars(self), "job": self.job.to_json(), "limits": asdict(self.limits)}

    def write(self, folder: Path) -> None:
        """Writes what `read` reads."""
        text = json.dumps(self.to_json(), indent=2) + "\n"
        (folder / JOB).write_text(text, encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class CheckpointWriter:
    """A trained network that is written when its training is over.

    `weights` are all of its encoder's by name, which training changes in place, and `config` is the
    one it was loaded with. They are noted before a head is put on the encoder, because a head may
    take the pooler away: to train it with itself (BERT's), or because it reads every token. Either
    way the pooler is written as the head has left it.
    """

    folder: Path
    job: Job
    tokenizer: Any
    config: Any
    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, encoder: Encoder, folder: Path, job: Job) -> "CheckpointWriter":
        """The writer of a whole encoder; JobError where the folder's disk is too small for it."""
        # keep_vars: the weights themselves, to be read after training. Without it state_dict gives
        # detached tensors, which a move to another device would leave behind untrained.
        weights = encoder.network.state_dict(keep_vars=True)
        require_room(folder, sum(w.numel() * w.element_size() for w in weights.values()))
        return cls(
            folder=folder,
            job=job,
            tokenizer=encoder.tokenizer,
            config=deepcopy(encoder.config),  # set_dropout writes into the encoder's own
            weights=weights,
        )

    def write(self, network: nn.Module, run: KeptRun) -> None:
        """Writes a checkpoint whose encoder transformers can load, whole or not at all.

        Next to it stand the heads, by the names that they have in the network. They have all that
        the network has beside its encoder, so weights that they share with it are there twice.
        Raises JobError where it cannot be written.
        """
        if self.tokenizer.is_fast:  # what encoding has left in it would be saved too
            self.tokenizer.backend_tokenizer.no_truncation()
            self.tokenizer.backend_tokenizer.no_padding()
        state = network.state_dict()
        heads = {name: w for name, w in state.items() if not is_encoders(name)}
        try:
            with new_checkpoint(self.folder, self.job) as draft:
                _save(self.weights, draft / WEIGHTS)
                _save(heads, draft / HEAD)
                # Not save_pretrained: it refuses old configs that say how to generate text.
                self.config.to_json_file(draft / "config.json")
                self.tokenizer.save_pretrained(draft)
                run.write(draft)
        except (OSError, SafetensorError) as error:
            raise JobError(
                f"the model of this run cannot be written to {self.folder} ({error}): free the "
                "disk, or do without (no --keep-models; where others start from it, --start-from "
                "pretrained)."
            ) from error


def _save(weights: Mapping[str, Tensor], file: Path) -> None:
    # save_file refuses tensors that share memory, as tied weights do: each gets its own copy.
    copies = {name: w.detach().cpu().clone().contiguous() for name, w in weights.items()}
    save_file(copies, file, metadata={"format": "pt"})


_ENCODERS = re.compile(r"(networks\.\d+\.)?encoder\.(?!combined\.)")
"""The names of the encoder's weights in a network, also of several tasks'. How the states of a
frozen one are combined is learned, and belongs with the head."""


def is_encoders(name: str) -> bool:
    """Whether a weight of a network is one of its encoder, by its name."""
    return _ENCODERS.match(name) is not None


_UNFIT = (SafetensorError, OSError, KeyError, RuntimeError, ValueError, TypeError)
"""What a file of weights raises that is cut, or of another network."""


@contextmanager
def folder_of_a_run(folder: Path) -> Iterator[None]:
    """Reads what a run has left; ModelError where files whose digests fit are not what it leaves.

    Whoever writes such a folder by hand makes its digests too.
    """
    try:
        yield
    except (torch.OutOfMemoryError, BenchError):
        raise
    except (*DAMAGED, ArithmeticError, RecursionError, SafetensorError) as error:
        raise ModelError(
            f"the model in {folder} is not as a run leaves it, though its digests fit "
            f"({first_line(error).rstrip('.')}): keep it again."
        ) from error


def load_start(encoder: Encoder, folder: Path | None, job: Job) -> Mapping[str, Any]:
    """Loads the weights that the job starts from, if it starts from another run; says which.

    Tokenizer and config stay those of the pretrained checkpoint, from which that run started too.
    Raises JobError where the folder is gone or damaged, or is of another network.
    """
    if not job.start_from:
        return {}
    if folder is None:
        raise JobError(f"no folder was given with the encoder of {job.started_from}.")
    digests = check_checkpoint(folder, job.start_from)
    load_kept(encoder, folder, job.started_from)
    run = {"name": job.started_from, "run": job.start_from, "sha256": digests[WEIGHTS]}
    return {"started_from": run}


def load_kept(encoder: Encoder, folder: Path, name: str) -> None:
    """Loads the weights of the encoder that a run of that name has left in a checked folder."""
    try:
        encoder.network.load_state_dict(load_file(folder / WEIGHTS))
    except _UNFIT as error:
        raise _unfit(f"the encoder of {name}", folder, error) from error


def load_head(network: nn.Module, folder: Path, name: str, place: int | None = None) -> None:
    """Gives a network on such an encoder the head that the run has left next to it.

    `place` is that of the head's task among those that were trained together.
    """
    own = "" if place is None else f"networks.{place}."  # a run of one task names its head without
    try:
        named = load_file(folder / HEAD).items()
        weights = {key[len(own) :]: w for key, w in named if key.startswith(own)}
        found = network.load_state_dict(weights, strict=False)
    except _UNFIT as error:
        raise _unfit(f"the head of {name}", folder, error) from error
    # The encoder has been loaded before, and stands in another file.
    lost = [key for key in found.missing_keys if not is_encoders(key)]
    if odd := lost + found.unexpected_keys:
        raise _unfit(f"the head of {name}", folder, f"{'no' if lost else 'unknown'} {odd[0]}")


def is_published(folder: Path) -> bool:
    """Whether a checked folder has a class of transformers in place of an encoder and its heads."""
    return (folder / TAKEN).is_file() and not (folder / JOB).is_file()


def read_taken(folder: Path) -> Mapping[str, Any]:
    """What benchharness.json says."""
    said: Mapping[str, Any] = json.loads((folder / TAKEN).read_text(encoding="utf-8"))
    return said


def load_class(network: nn.Module, folder: Path, body: str, name: str) -> None:
    """Gives a network all of its weights from a folder in transformers' form.

    `body` is as for `published_names`.
    """
    try:
        scale: Any = tuple(read_taken(folder)["in_last_layer"])
        # On use: of all that starts or teaches, only a folder in transformers' form needs it.
        load_published = resolve_name("benchharness.heads.published:load_published")
        load_published(network, load_file(folder / WEIGHTS), body, scale)
    except _UNFIT as error:
        raise _unfit(f"the network of {name}", folder, error) from error


class UnfitError(JobError):
    """The weights of a folder are not those of the network that its run says."""


def _unfit(what: str, folder: Path, error: object) -> UnfitError:
    said = str(error).splitlines() or [type(error).__name__]
    reason = said[-1].strip()  # the first names the class alone
    return UnfitError(
        f"{what} in {folder} does not fit this model ({reason}): "
        "delete that folder, and the same command trains it again."
    )
