"""What a model is before its weights are loaded."""

from dataclasses import dataclass
from pathlib import Path

from benchharness.models.trust import NOTHING, Trust

__all__ = ["BUILTIN", "FLOOR", "ModelSpec"]

BUILTIN = "builtin:"
FLOOR = "floor:"


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One encoder checkpoint, or a floor: its name on a board and where its files are.

    `checkpoint` is a hub id, an absolute folder, "builtin:NAME" for one whose weights are drawn
    from the seed, or "floor:NAME" for what has no encoder. `revision` is a commit of the hub
    repository ("main" is resolved when jobs are planned) or a floor's version, empty elsewhere.
    `family` is transformers' model_type, empty where only the hub knows it, and `recipe` names the
    recipe file that fits, where that is not the family's. `parameters` are in millions, as
    published, else counted; `backbone` is their number without embeddings and pooler; `max_tokens`
    includes the special tokens. All are None where unknown. `trust` is what the user allows it.

    `tokenizer` says of what kind it is and whether it keeps the case; `pretraining` on which texts
    the checkpoint was trained, `hardware` on what and for how long, and `flops` with how many
    operations, as ELECTRA's paper counts them (arXiv:2003.10555, tables 3 and 4).
    """

    name: str
    checkpoint: str
    revision: str = ""
    family: str = ""
    recipe: str = ""
    aliases: tuple[str, ...] = ()
    title: str = ""
    parameters: float | None = None
    backbone: float | None = None
    max_tokens: int | None = None
    tokenizer: str = ""
    pretraining: str = ""
    flops: float | None = None
    hardware: str = ""
    cite: str = ""
    note: str = ""
    trust: Trust = NOTHING

    @property
    def is_builtin(self) -> bool:
        """True for an encoder that is drawn from the seed instead of loaded."""
        return self.checkpoint.startswith(BUILTIN)

    @property
    def is_floor(self) -> bool:
        """True for what stands below the encoders on a board: it has no weights and no seed."""
        return self.checkpoint.startswith(FLOOR)

    @property
    def is_folder(self) -> bool:
        """True where the checkpoint is a folder on this machine."""
        return Path(self.checkpoint).is_absolute()

    @property
    def is_hub(self) -> bool:
        """True where the checkpoint is fetched from the hub."""
        return not (self.is_builtin or self.is_floor or self.is_folder)
