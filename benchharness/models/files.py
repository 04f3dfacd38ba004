"""Which files make a checkpoint, by their names: those of a folder, or of a hub repository's list.

Nothing is opened here, so a repository is judged before any of it is fetched.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from benchharness.leaderboard.job import Trust
from benchharness.models.spec import MODELS, NOTHING
from benchharness.tasks.errors import ModelError

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
    machine, unless it is a repository. Safetensors come before pickled
    weights, one file before parts. Code is among the files where it is trusted. Raises ModelError
    naming what is missing, and what is there instead.
    """
    if "config.json" not in names:
        raise ModelError(f"{place} is not a checkpoint: {_instead(names, 'config.json', folder)}")
    weights = find_weights(names)
    if not weights:
        raise ModelError(f"{place} is not a checkpoint: {_instead(names, 'weights', folder)}")
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
    """What there is where the `lacks` is not, and what to do with it."""
    if ADAPTER in names:
        return merging("another model", "MERGED")
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
    return sorted(found, key=lambda name: natural(Path(name)))


def natural(path: Path) -> tuple[list[int], str]:
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


def merging(base: str, merged: str, command: str = "") -> str:
    """The end of a sentence about an adapter of peft: how a checkpoint is made of it."""
    way = command or "AutoPeftModel's merge_and_unload().save_pretrained(MERGED)"
    return (
        f"it holds a LoRA adapter of {base}: merge it, where peft is installed, by {way}, and give "
        f"{merged}."
    )


_WRAPPERS = {
    "module.": "DataParallel or DistributedDataParallel",
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "FSDP",
    "_forward_module.": "Lightning Fabric",
}
"""What is put before the names of a network's weights, and by whom."""


def wrapping(names: Collection[str]) -> str:
    """The end of a sentence about weights of a wrapped network; empty where they are of none."""
    for mark, whose in _WRAPPERS.items():
        inside = mark != "module."  # which networks call parts of theirs
        has = [mark in name if inside else name.startswith(mark) for name in names]
        if has and (all(has) or (inside and any(has))):
            return (
                f"the names of its weights hold {mark!r}, which {whose} puts there: save what is "
                "wrapped (accelerator.unwrap_model(model).save_pretrained(FOLDER)), or take the "
                "mark out of the names."
            )
    return ""


# How a checkpoint is called in a sentence.


def called(hub_id: str) -> str:
    """A repository of the hub by the name of the known model too, as people type either."""
    names = [spec.name for spec in MODELS.values() if spec.checkpoint == hub_id]
    return f"{names[0]} ({hub_id})" if names else hub_id


def shown(path: Path) -> str:
    """A checkpoint's folder, or a file in it, as people know it.

    A model of the hub has its own name, and not that of a folder of its cache.
    """
    for folder in (path, *path.parents):
        # CACHE/models--ORG--NAME/snapshots/COMMIT
        repository = folder.parent.parent.name
        if folder.parent.name == "snapshots" and repository.startswith("models--"):
            name = called("/".join(repository.split("--")[1:]))
            return name if folder == path else f"{path.relative_to(folder)} of {name}"
    return str(path)
