"""What a model is before its weights are loaded."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from benchharness.leaderboard.job import Stage, Start, Trust
from benchharness.tasks.errors import BenchError, ModelError

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
    includes the special tokens. All are None where unknown. `configuration` says of layers and
    sizes what the paper's table has. `trust` is what the user allows it.

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
    configuration: str = ""
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


# Which files make a checkpoint, by their names: those of a folder, or of a repository's list.

VOCABULARY_FILES = (
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
)
"""Without any of these transformers makes a tokenizer that knows five tokens, and says nothing."""

TOKENIZER_FILES = (
    "added_tokens.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer_config.json",
    *VOCABULARY_FILES,
)

ADAPTER = "adapter_config.json"
"""What peft's save_pretrained writes instead of a checkpoint's config.json."""

_SAFETENSORS, _PICKLED = "model{}.safetensors", "pytorch_model{}.bin"
_PART = re.compile(r"-(\d+)-of-(\d+)\.\w+$")

Groups = dict[str, list[str]]
"""The names of a checkpoint's files: its "config", "weights", "tokenizer" and "code"."""


def sort_files(
    names: Collection[str], place: str, trust: Trust = NOTHING, folder: Path | None = None
) -> Groups:
    """The files that a loaded checkpoint depends on, of all that a folder or repository has.

    `names` are relative to it, `place` is its name for people, and `folder` where it is on this
    machine, unless it is a repository. Safetensors come before pickled weights, one file before
    parts. Code is among the files where it is trusted. Raises ModelError naming what is missing,
    and what is there instead.
    """
    if "config.json" not in names:
        raise ModelError(f"{place} is not a checkpoint: {_instead(names, 'config.json', folder)}")
    weights = find_weights(names)
    if not weights:
        raise ModelError(f"{place} is not a checkpoint: {_instead(names, 'weights', folder)}")
    if ADAPTER in names and folder is not None:  # of a repository it is not fetched
        raise ModelError(
            f"{place} has whole weights and a LoRA adapter ({ADAPTER}), which transformers would "
            "put on them: remove the adapter's files to read the weights alone, or merge it by "
            "peft's merge_and_unload() and give the result."
        )
    if missing := sorted(set(_parts_of(weights[0])).difference(names)):
        raise ModelError(
            f"{place} is not whole: it lacks {', '.join(missing[:3])}; copy the checkpoint again."
        )
    tokenizer = [name for name in TOKENIZER_FILES if name in names]
    if not set(tokenizer).intersection(VOCABULARY_FILES):
        raise ModelError(
            f"{place} is not a checkpoint: it has no vocabulary; expected tokenizer.json or "
            "vocab.txt next to config.json (the tokenizer's save_pretrained writes it)."
        )
    code = sorted(name for name in names if re.fullmatch(r"[^/]+\.py", name))
    return {
        "config": ["config.json"],
        "weights": weights,
        "tokenizer": tokenizer,
        "code": code if trust.remote_code else [],
    }


def find_weights(names: Collection[str]) -> list[str]:
    """The files of weights that are read, of all names; empty where there are none."""
    for form in (_SAFETENSORS, _PICKLED):
        if (whole := form.format("")) in names:
            return [whole]
        pattern = re.compile(re.escape(form).replace(r"\{\}", r"-\d+-of-\d+"))
        if parts := sorted(name for name in names if pattern.fullmatch(name)):
            return parts
    return []


def index_of(weights: str) -> str:
    """The file that says which weight is in which part; empty of weights in one file."""
    found = _PART.search(weights)
    return f"{weights[: found.start()]}{Path(weights).suffix}.index.json" if found else ""


def _parts_of(weights: str) -> list[str]:
    """All files that belong to one part of weights, its index among them."""
    found = _PART.search(weights)
    if found is None:
        return []
    digits, count = len(found[1]), int(found[2])
    start, end = weights[: found.start()], Path(weights).suffix
    parts = [f"{start}-{n:0{digits}}-of-{found[2]}{end}" for n in range(1, min(count, 10**4) + 1)]
    return [*parts, index_of(weights)]


# What people have instead of a checkpoint, and the way from there to one.

_OTHERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "TensorFlow's": (
        ("tf_model*.h5", "*.ckpt.index", "*.ckpt.data-*", "*.ckpt-*", "saved_model.pb"),
        "convert them by transformers 4 and TensorFlow (AutoModel's from_tf=True)",
    ),
    "Flax's": (
        ("flax_model*.msgpack",),
        "convert them by transformers 4 and Flax (AutoModel's from_flax=True)",
    ),
    "GGUF's": (("*.gguf",), "they are rounded: get the checkpoint that they were made from"),
    "ONNX's": (("*.onnx",), "get the checkpoint that they were exported from"),
    "OpenVINO's": (("openvino_model*",), "get the checkpoint that they were exported from"),
    "rust-bert's": (("rust_model.ot",), "get the checkpoint that they were made from"),
    "a variant's": (
        ("model.*.safetensors", "pytorch_model.*.bin", "model-*.safetensors"),
        "load them where they were made (variant=...) and save_pretrained them to a folder",
    ),
}
"""Weights that are not read: the names of their files, and what to do."""


def _instead(names: Collection[str], lacks: str, folder: Path | None) -> str:
    """What a folder or repository has where the `lacks` is not, and what to do with it."""
    if ADAPTER in names:
        return merging("another model", "MERGED", "peft's merge_and_unload()")
    if inner := _inner(names):
        more = f" and {len(inner) - _FEW} more" if len(inner) > _FEW else ""
        if folder is None:
            return f"its checkpoints are in {', '.join(inner[:_FEW])}{more}: download one of them."
        shown = ", ".join(str(folder / name) for name in inner[:_FEW])
        return f"its checkpoints are {shown}{more}; give one of them."
    for whose, (patterns, way) in _OTHERS.items():
        if found := _matching(names, patterns):
            return (
                f"it has no {lacks}; {found[0]} holds {whose} weights, which are not read: {way}."
            )
    return f"it has no {lacks}; {bare(_bare(names))}"


_FEW = 5
"""Folders in an error."""


def _inner(names: Iterable[str]) -> list[str]:
    """The folders one level below that hold checkpoints, or adapters, by the numbers in them."""
    inside: dict[str, list[str]] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        inside.setdefault(folder, []).append(file)
    found = (f for f, own in inside.items() if f and (ADAPTER in own or find_weights(own)))
    return sorted(found, key=lambda name: _natural(Path(name)))


def _natural(path: Path) -> tuple[list[int], str]:
    """Folders by the numbers in their names, checkpoint-9 before checkpoint-10."""
    return [int(digits) for digits in re.findall(r"\d+", path.name)], path.name


def _matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The names that fit one of the patterns, wherever they are."""
    inner = {name: name.rpartition("/")[2] for name in names}
    return sorted(n for n, last in inner.items() if any(fnmatchcase(last, p) for p in patterns))


_BARE = (".bin", ".ckpt", ".pt", ".pth", ".safetensors")


def _bare(names: Iterable[str]) -> list[str]:
    return [name for name in names if "/" not in name and Path(name).suffix in _BARE]


def bare(weights: Collection[str]) -> str:
    """The end of a sentence about files of weights without their config.json, if there are any."""
    if not weights:
        return (
            "expected model.safetensors next to config.json in a folder that save_pretrained wrote."
        )
    return (
        f"{min(weights)} is weights alone, without the network that they are of: load them where "
        "they were made, and save both there, by model.save_pretrained(FOLDER) and "
        "tokenizer.save_pretrained(FOLDER)."
    )


def merging(base: str, merged: str, way: str) -> str:
    """The end of a sentence about an adapter of peft: how a checkpoint is made of it."""
    return (
        f"it holds a LoRA adapter of {base}: merge it, where peft is installed, by {way}, and give "
        f"{merged}."
    )


# How a checkpoint is called in a sentence.


def called(hub_id: str) -> str:
    """A repository of the hub by the name of the known model too, as people type either."""
    names = [spec.name for spec in MODELS.values() if spec.checkpoint == hub_id]
    return f"{names[0]} ({hub_id})" if names else hub_id


def shown(path: Path) -> str:
    """A checkpoint's folder, or a file in it, as people know it.

    A model of the hub has its own name, and not that of a folder of its cache.
    """
    hub_id, inside = _on_hub(path)
    if not hub_id:
        return str(path)
    return f"{inside} of {called(hub_id)}" if inside else called(hub_id)


def known_family(path: Path) -> str:
    """The family that the table gives the model whose folder or file this is; mostly empty."""
    hub_id, _ = _on_hub(path)
    return next((spec.family for spec in MODELS.values() if spec.checkpoint == hub_id), "")


def _on_hub(path: Path) -> tuple[str, str]:
    """Of a path in the hub's cache, the repository and the file in it; else nothing."""
    for folder in (path, *path.parents):
        # CACHE/models--ORG--NAME/snapshots/COMMIT
        repository = folder.parent.parent.name
        if folder.parent.name == "snapshots" and repository.startswith("models--"):
            inside = "" if folder == path else str(path.relative_to(folder))
            return "/".join(repository.split("--")[1:]), inside
    return "", ""
