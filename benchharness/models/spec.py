"""What a model is before its weights are loaded."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchharness.leaderboard.job import Stage, Start, Trust
from benchharness.tasks.errors import BenchError

NOTHING = Trust()


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One encoder checkpoint, or a baseline: its name on a board and where its files are.

    `checkpoint` is a hub id, an absolute folder, "builtin:NAME" for one whose weights are drawn
    from the seed, or "baseline:NAME" for what has no encoder. `revision` is a commit of the hub
    repository ("main" is resolved when jobs are planned) or a baseline's version, empty elsewhere.
    `family` is transformers' model_type, empty where only the hub knows it, and `recipe` names the
    recipe file that fits, where that is not the family's. `parameters` are in millions, as
    published, else counted; `backbone` is their number without embeddings and pooler; `max_tokens`
    includes the special tokens. All are None where unknown. `trust` is what the user allows it.

    `is_baseline` is true for what stands below the encoders on a board, without weights and seed.
    `builtin` is the folder inside the package of an encoder that is drawn from the seed instead of
    loaded, empty for any other. `start` says that the weights are another checkpoint's than those
    of the model that it is named after, `stage` which of several of one pretraining run they are.

    `tokenizer` says of what kind it is and whether it keeps the case; `lender` is the repository of
    the hub, "org/name@COMMIT", whose tokenizer it uses where its own has none; `pretraining` on
    which texts the checkpoint was trained, `hardware` on what and for how long, and `flops` with
    how many operations, as ELECTRA's paper counts them (arXiv:2003.10555, tables 3 and 4).
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
    lender: str = ""
    pretraining: str = ""
    flops: float | None = None
    hardware: str = ""
    cite: str = ""
    note: str = ""
    trust: Trust = NOTHING
    is_baseline: bool = False
    builtin: str = ""
    start: Start | None = None
    stage: Stage | None = None

    @property
    def is_builtin(self) -> bool:
        """True for an encoder that is drawn from the seed instead of loaded."""
        return bool(self.builtin)

    @property
    def is_folder(self) -> bool:
        """True where the checkpoint is a folder on this machine."""
        return Path(self.checkpoint).is_absolute()

    @property
    def is_hub(self) -> bool:
        """True where the checkpoint is fetched from the hub."""
        return not (self.is_builtin or self.is_baseline or self.is_folder)


# The known checkpoints, read from the files in models/known. Anything else runs unregistered.
#
# A file holds one family: what its checkpoints have in common at the top, then [models.NAME] with
# what is each one's own; the names are the fields of ModelSpec. A revision is the commit whose
# weights the published numbers are of, "main" where none could be confirmed. Where a comment says
# that sizes are counted, it was done on the architecture as transformers builds it, pooler
# included.

UNPINNED = "no commit could be confirmed, so the one that main names is recorded with each run"


def _known(path: Path) -> Iterator[ModelSpec]:
    shared = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, own in shared.pop("models").items():
        fields = shared | own  # what is its own wins
        if fields.get("revision") == "main":
            fields.setdefault("note", UNPINNED)
        yield ModelSpec(name=name, **fields | {"aliases": tuple(fields.get("aliases", ()))})


def _files() -> list[Path]:
    """One a family, the built-in encoder's first and the baselines' last."""
    found = (Path(__file__).parent / "known").glob("*.toml")
    ends = {"tiny": 0, "baselines": 2}
    return sorted(found, key=lambda path: (ends.get(path.stem, 1), path.stem))


MODELS: dict[str, ModelSpec] = {spec.name: spec for path in _files() for spec in _known(path)}

BASELINES = tuple(spec for spec in MODELS.values() if spec.is_baseline)


def add_model(model: ModelSpec) -> None:
    """Puts a model of somebody else's into the table; BenchError where a name of it is taken."""
    taken = {name for spec in MODELS.values() for name in _names(spec)}
    if found := sorted(taken.intersection(_names(model))):
        raise BenchError(f"there is a model {found[0]!r} already: give yours another name.")
    MODELS[model.name] = model


def _names(spec: ModelSpec) -> tuple[str, ...]:
    return (spec.name.lower(), *(alias.lower() for alias in spec.aliases))
