"""Descriptions of models before their weights are loaded, and the list of known models."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from benchharness.errors import BenchError, ModelError
from benchharness.leaderboard.job import Stage, Start, Trust

NOTHING = Trust()


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Description of an encoder checkpoint or a baseline, before its weights are loaded.

    Attributes:
        name: Name on the leaderboard.
        checkpoint: Hub id, absolute path of a folder, "builtin:NAME" for an encoder whose weights
            are initialized randomly, or "baseline:NAME" for a baseline without an encoder.
        revision: Commit of the hub repository, or the version of a baseline; otherwise empty. The
            value "main" is resolved to a commit when jobs are planned.
        family: Model family (transformers' model_type); empty if it must be looked up on the hub.
        recipe: Name of the recipe file; empty for the recipe of the family.
        aliases: Other names that a user may type.
        title: Description for lists of models.
        parameters: Number of parameters in millions, as published or, if it is not published, as
            counted; None if unknown.
        backbone: Number of parameters in millions without embeddings and pooler; None if unknown.
        configuration: Numbers of layers and sizes, in the words of the paper.
        max_tokens: Maximum number of tokens per input, including special tokens; None if it is
            unknown or if there is no maximum.
        tokenizer: Kind of the tokenizer, and whether it distinguishes upper and lower case.
        lender: Other hub repository ("org/name@COMMIT") from which the tokenizer is downloaded,
            because the checkpoint's own repository has none; otherwise empty.
        pretraining: Texts on which the checkpoint was pretrained.
        flops: Number of floating-point operations of pretraining, as counted in ELECTRA's paper
            (arXiv:2003.10555, tables 3 and 4); None if the paper does not count them.
        hardware: Hardware and duration of pretraining.
        cite: Source of the facts in the other fields.
        note: Remark for users.
        trust: Permissions that the user gives the checkpoint.
        is_baseline: True for a baseline, which has no weights and no seed and is listed below the
            encoders on a leaderboard.
        builtin: Folder inside the package with the config and the vocabulary of an encoder whose
            weights are initialized randomly; otherwise empty.
        start: Origin of the weights, if they do not come from the model's own checkpoint; otherwise
            None.
        stage: Pretraining run and step at which the checkpoint was saved; None if they are unknown.
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
        """True for an encoder whose weights are initialized randomly, with the run's seed."""
        return bool(self.builtin)

    @property
    def is_folder(self) -> bool:
        """True if the checkpoint is a folder on this machine."""
        return Path(self.checkpoint).is_absolute()

    @property
    def is_hub(self) -> bool:
        """True if the checkpoint is fetched from the hub."""
        return not (self.is_builtin or self.is_baseline or self.is_folder)


# The known checkpoints are read from the files in models/known. Other models need no file there.
#
# Each file has one family of models. It begins with the fields that all checkpoints share;
# [models.NAME] then has the fields of one checkpoint. All names are fields of ModelSpec. A revision
# is the commit of the weights that gave the published scores, or "main" if no commit could be
# confirmed. If a comment says that sizes are counted, they were counted on the architecture as
# transformers builds it, including the pooler.

UNPINNED = "no commit could be confirmed, so each run records the commit that main points to"


def _known(path: Path) -> Iterator[ModelSpec]:
    shared = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, own in shared.pop("models").items():
        fields = shared | own  # a checkpoint's own fields override shared ones
        if fields.get("revision") == "main":
            fields.setdefault("note", UNPINNED)
        yield ModelSpec(name=name, **fields | {"aliases": tuple(fields.get("aliases", ()))})


def _files() -> list[Path]:
    """Return the files of known models, with the built-in encoder first and the baselines last."""
    found = (Path(__file__).parent / "known").glob("*.toml")
    ends = {"tiny": 0, "baselines": 2}
    return sorted(found, key=lambda path: (ends.get(path.stem, 1), path.stem))


MODELS: dict[str, ModelSpec] = {spec.name: spec for path in _files() for spec in _known(path)}

BASELINES = tuple(spec for spec in MODELS.values() if spec.is_baseline)


def add_model(model: ModelSpec) -> None:
    """Add a model of a plugin to the known models.

    Raises:
        BenchError: The name or an alias of the model is already in use.
    """
    taken = {name for spec in MODELS.values() for name in _names(spec)}
    if found := sorted(taken.intersection(_names(model))):
        raise BenchError(
            f"a model called {found[0]!r} exists already: give the new model another name."
        )
    MODELS[model.name] = model


def _names(spec: ModelSpec) -> tuple[str, ...]:
    return (spec.name.lower(), *(alias.lower() for alias in spec.aliases))


# Find the files of a checkpoint among all files of a folder or hub repository.

VOCABULARY_FILES = (
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
)
"""Names of vocabulary files. A tokenizer needs at least one of them: without any, transformers
silently makes a tokenizer that knows only five tokens."""

TOKENIZER_FILES = (
    "added_tokens.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer_config.json",
    *VOCABULARY_FILES,
)

ADAPTER = "adapter_config.json"
"""Name of the file that peft's save_pretrained writes instead of a checkpoint's config.json."""

_SAFETENSORS, _PICKLED = "model{}.safetensors", "pytorch_model{}.bin"
_PART = re.compile(r"-(\d+)-of-(\d+)\.\w+$")

Groups = dict[str, list[str]]
"""Type of the names of a checkpoint's files, keyed by "config", "weights", "tokenizer" and "code".
"""


def sort_files(
    names: Collection[str], place: str, trust: Trust = NOTHING, folder: Path | None = None
) -> Groups:
    """Select the files that a loaded checkpoint depends on, grouped by kind.

    Weights in safetensors format take precedence over pickled weights, and weights in a single file
    over weights in several parts.

    Args:
        names: Paths of all files in a folder or a hub repository, relative to it.
        place: Name of the folder or repository in messages.
        trust: Permissions that the user gives the checkpoint; code is included only if it is
            trusted.
        folder: The folder on this machine; None for a repository.

    Raises:
        ModelError: A needed file is missing (the message also names files found instead), or a
            folder contains a LoRA adapter next to complete weights.
    """
    if "config.json" not in names:
        raise ModelError(f"{place} is not a checkpoint: {_instead(names, 'config.json', folder)}")
    weights = find_weights(names)
    if not weights:
        raise ModelError(f"{place} is not a checkpoint: {_instead(names, 'weights', folder)}")
    if ADAPTER in names and folder is not None:  # adapters in repositories are not downloaded
        raise ModelError(
            f"{place} has complete weights and a LoRA adapter ({ADAPTER}), which transformers "
            "would apply to them: remove the adapter's files to use only the weights, or merge the "
            "adapter with peft's merge_and_unload() and use the result."
        )
    if missing := sorted(set(_parts_of(weights[0])).difference(names)):
        raise ModelError(
            f"{place} is incomplete: it lacks {', '.join(missing[:3])}; copy the checkpoint again."
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
    """Return the names of the files from which the weights are read; empty if there are none.

    `names` contains the names of all files of the checkpoint. Safetensors take precedence over
    pickled weights, and a single file over several parts.
    """
    for form in (_SAFETENSORS, _PICKLED):
        if (whole := form.format("")) in names:
            return [whole]
        pattern = re.compile(re.escape(form).replace(r"\{\}", r"-\d+-of-\d+"))
        if parts := sorted(name for name in names if pattern.fullmatch(name)):
            return parts
    return []


def index_of(weights: str) -> str:
    """Return the name of the index file, which lists the weights in each of several weight files.

    `weights` is the name of one of these weight files. For weights in a single file, the result is
    "".
    """
    found = _PART.search(weights)
    return f"{weights[: found.start()]}{Path(weights).suffix}.index.json" if found else ""


def _parts_of(weights: str) -> list[str]:
    """Return the names of all parts and of the index, given the name of one part."""
    found = _PART.search(weights)
    if found is None:
        return []
    digits, count = len(found[1]), int(found[2])
    start, end = weights[: found.start()], Path(weights).suffix
    parts = [f"{start}-{n:0{digits}}-of-{found[2]}{end}" for n in range(1, min(count, 10**4) + 1)]
    return [*parts, index_of(weights)]


# Error messages for folders that contain other files instead of a checkpoint.

_OTHERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "TensorFlow's": (
        ("tf_model*.h5", "*.ckpt.index", "*.ckpt.data-*", "*.ckpt-*", "saved_model.pb"),
        "convert them with transformers 4 and TensorFlow (AutoModel's from_tf=True)",
    ),
    "Flax's": (
        ("flax_model*.msgpack",),
        "convert them with transformers 4 and Flax (AutoModel's from_flax=True)",
    ),
    "GGUF's": (("*.gguf",), "use the checkpoint that they were made from, which is not quantized"),
    "ONNX's": (("*.onnx",), "use the checkpoint that they were exported from"),
    "OpenVINO's": (("openvino_model*",), "use the checkpoint that they were exported from"),
    "rust-bert's": (("rust_model.ot",), "use the checkpoint that they were made from"),
    "a variant's": (
        ("model.*.safetensors", "pytorch_model.*.bin", "model-*.safetensors"),
        "load them with from_pretrained(..., variant=...) and save them with save_pretrained",
    ),
}
"""Patterns of file names and advice for the user, for weights in formats that are not supported."""


def _instead(names: Collection[str], lacks: str, folder: Path | None) -> str:
    """Return the end of an error message, with the files found instead of `lacks`, and advice."""
    if ADAPTER in names:
        return merging("another model", "MERGED", "peft's merge_and_unload()")
    if inner := _inner(names):
        more = f" and {len(inner) - _FEW} more" if len(inner) > _FEW else ""
        if folder is None:
            return f"it contains checkpoints in {', '.join(inner[:_FEW])}{more}; download one."
        shown = ", ".join(str(folder / name) for name in inner[:_FEW])
        return f"it contains the checkpoints {shown}{more}; use one of them."
    for whose, (patterns, way) in _OTHERS.items():
        if found := _matching(names, patterns):
            return (
                f"it has no {lacks}; {found[0]} contains {whose} weights, which are not supported: "
                f"{way}."
            )
    return f"it has no {lacks}; {bare(_bare(names))}"


_FEW = 5
"""Largest number of folders that an error message lists."""


def _inner(names: Iterable[str]) -> list[str]:
    """Return subfolders with checkpoints or adapters, sorted by the numbers in their names."""
    inside: dict[str, list[str]] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        inside.setdefault(folder, []).append(file)
    found = (f for f, own in inside.items() if f and (ADAPTER in own or find_weights(own)))
    return sorted(found, key=lambda name: _natural(Path(name)))


def _natural(path: Path) -> tuple[list[int], str]:
    """Return a sort key by the numbers in a folder's name: checkpoint-9 before checkpoint-10."""
    return [int(digits) for digits in re.findall(r"\d+", path.name)], path.name


def _matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Return the paths whose file name matches one of the patterns."""
    inner = {name: name.rpartition("/")[2] for name in names}
    return sorted(n for n, last in inner.items() if any(fnmatchcase(last, p) for p in patterns))


_BARE = (".bin", ".ckpt", ".pt", ".pth", ".safetensors")


def _bare(names: Iterable[str]) -> list[str]:
    return [name for name in names if "/" not in name and Path(name).suffix in _BARE]


def bare(weights: Collection[str]) -> str:
    """Return the end of an error message about weights without a config.json.

    `weights` contains the names of the files with weights. If it is empty, the text states which
    files a checkpoint has.
    """
    if not weights:
        return (
            "expected model.safetensors next to config.json in a folder that save_pretrained wrote."
        )
    return (
        f"{min(weights)} contains only weights, without the config of the network. Load them in "
        "the program that trained the model, and save the model with "
        "model.save_pretrained(FOLDER) and tokenizer.save_pretrained(FOLDER)."
    )


def merging(base: str, merged: str, way: str) -> str:
    """Return the end of an error message about a folder with a LoRA adapter of peft.

    Args:
        base: The checkpoint to which the adapter belongs.
        merged: The folder for the merged checkpoint.
        way: The command or function that merges the adapter.
    """
    return (
        f"it contains a LoRA adapter for {base}. Merge it where peft is installed, with {way}, and "
        f"use {merged}."
    )


# Format the name of a checkpoint for messages.


def called(hub_id: str) -> str:
    """Return a hub id for messages; for a known model, in the form "NAME (HUB ID)"."""
    names = [spec.name for spec in MODELS.values() if spec.checkpoint == hub_id]
    return f"{names[0]} ({hub_id})" if names else hub_id


def shown(path: Path) -> str:
    """Return the path of a checkpoint's folder, or of a file in it, for messages.

    If the folder is in the hub's cache, its path is replaced by the name of the model.
    """
    hub_id, inside = _on_hub(path)
    if not hub_id:
        return str(path)
    return f"{inside} of {called(hub_id)}" if inside else called(hub_id)


def known_family(path: Path) -> str:
    """Return the family of the known model to which a path in the hub's cache belongs.

    For all other paths, the result is "".
    """
    hub_id, _ = _on_hub(path)
    return next((spec.family for spec in MODELS.values() if spec.checkpoint == hub_id), "")


def _on_hub(path: Path) -> tuple[str, str]:
    """Split a path in the hub's cache into hub id and relative file; "" and "" for other paths."""
    for folder in (path, *path.parents):
        # CACHE/models--ORG--NAME/snapshots/COMMIT
        repository = folder.parent.parent.name
        if folder.parent.name == "snapshots" and repository.startswith("models--"):
            inside = "" if folder == path else str(path.relative_to(folder))
            return "/".join(repository.split("--")[1:]), inside
    return "", ""
