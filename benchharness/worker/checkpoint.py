"""The encoder that a run leaves as a checkpoint, and how another run starts from it."""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from benchharness.encoder import Encoder
from benchharness.kept_folders import HEAD, JOB, check_checkpoint, new_checkpoint, require_room
from benchharness.leaderboard.job import Job
from benchharness.tasks.errors import JobError

WEIGHTS = "model.safetensors"
"""The name by which transformers looks for them."""


@dataclass(frozen=True, kw_only=True)
class CheckpointWriter:
    """An encoder that is written when its training is over.

    `weights` are all of its weights by name, which training changes in place, and `config` is the
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

    def write(self, *networks: nn.Module) -> None:
        """Writes a checkpoint that transformers can load, whole or not at all.

        Next to it stands the head of the task's network, where there is one task alone. It has
        every name that the network has, so weights that it ties are there twice. Raises JobError
        where it cannot be written.
        """
        if self.tokenizer.is_fast:  # what encoding has left in it would be saved too
            self.tokenizer.backend_tokenizer.no_truncation()
            self.tokenizer.backend_tokenizer.no_padding()
        try:
            with new_checkpoint(self.folder, self.job) as draft:
                self._write_files(draft)
                if len(networks) == 1:
                    self._write_head(draft, *networks)
        except (OSError, SafetensorError) as error:
            raise JobError(
                f"the encoder that other jobs start from cannot be written to {self.folder} "
                f"({error}): free the disk, or do without (--start-from pretrained)."
            ) from error

    def _write_files(self, folder: Path) -> None:
        # save_file refuses tensors that share memory, as tied weights do: each gets its own copy.
        copies = {name: w.detach().cpu().clone().contiguous() for name, w in self.weights.items()}
        save_file(copies, folder / WEIGHTS, metadata={"format": "pt"})
        # Not save_pretrained: it refuses old configs that say how to generate text (max_length).
        self.config.to_json_file(folder / "config.json")
        self.tokenizer.save_pretrained(folder)

    def _write_head(self, folder: Path, network: nn.Module) -> None:
        head = {name: w for name, w in network.state_dict().items() if not _is_encoders(name)}
        save_file({name: w.cpu().clone().contiguous() for name, w in head.items()}, folder / HEAD)
        (folder / JOB).write_text(json.dumps(self.job.to_json()), encoding="utf-8")


def _is_encoders(name: str) -> bool:
    return name.startswith("encoder.")


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
    except RuntimeError as error:
        raise _unfit(f"the encoder of {name}", folder, error) from error


def load_head(network: nn.Module, folder: Path, name: str) -> None:
    """Gives a network on such an encoder the head that the run has left next to it."""
    try:
        found = network.load_state_dict(load_file(folder / HEAD), strict=False)
    except RuntimeError as error:
        raise _unfit(f"the head of {name}", folder, error) from error
    lost = [key for key in found.missing_keys if not _is_encoders(key)]
    if odd := lost + found.unexpected_keys:
        raise _unfit(f"the head of {name}", folder, f"{'no' if lost else 'unknown'} {odd[0]}")


def _unfit(what: str, folder: Path, error: object) -> JobError:
    reason = str(error).splitlines()[-1].strip()  # the first names the class alone
    return JobError(
        f"{what} in {folder} does not fit this model ({reason}): "
        "delete that folder, and the same command trains it again."
    )
