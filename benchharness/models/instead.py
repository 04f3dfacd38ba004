"""What people have instead of a checkpoint, and the way to one: the ends of sentences."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from benchharness.models.folder import count_tokens, read_object, shapes_in
from benchharness.models.spec import ADAPTER, find_weights

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


def instead(names: Collection[str], lacks: str, folder: Path | None) -> str:
    """What a folder or repository has where the `lacks` is not, and what to do with it."""
    if ADAPTER in names:
        return _merging(folder) if folder else _merge("another model", "MERGED", _MERGE)
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


_PEFT_CLASSES = {
    "CAUSAL_LM": "ForCausalLM",
    "FEATURE_EXTRACTION": "ForFeatureExtraction",
    "QUESTION_ANS": "ForQuestionAnswering",
    "SEQ_2_SEQ_LM": "ForSeq2SeqLM",
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
}
"""The endings of peft's classes, by the task that an adapter says."""


def _merging(folder: Path) -> str:
    """What is said of an adapter of peft: the command that makes a checkpoint of it."""
    adapter = read_object(folder / ADAPTER)
    base = str(adapter.get("base_model_name_or_path") or "BASE")
    own = "AutoPeftModel" + _PEFT_CLASSES.get(str(adapter.get("task_type")), "")
    merged = f"{folder}-merged"
    tokenizer = base if count_tokens(folder) is None else str(folder)
    labels = (
        f", num_labels={n}" if (n := _count_labels(folder / "adapter_model.safetensors")) else ""
    )
    command = (
        f"import peft, transformers; m = peft.{own}.from_pretrained({str(folder)!r}{labels}); "
        f"m.merge_and_unload().save_pretrained({merged!r}); "
        f"transformers.AutoTokenizer.from_pretrained({tokenizer!r}).save_pretrained({merged!r})"
    )
    return _merge(base, merged, shlex.join(["python", "-c", command]))


def _count_labels(weights: Path) -> int | None:
    """How many outputs a head has that was trained beside an adapter; None where there is none."""
    if not weights.is_file():
        return None
    # BERT's and RoBERTa's classifiers, those of models that read from left to right, and SQuAD's.
    heads = ("classifier.weight", "classifier.out_proj.weight", "score.weight", "qa_outputs.weight")
    return next((s[0] for name, s in shapes_in(weights).items() if name.endswith(heads)), None)


_MERGE = "AutoPeftModel's merge_and_unload().save_pretrained(MERGED)"


def _merge(base: str, merged: str, way: str) -> str:
    return (
        f"it holds a LoRA adapter of {base}: merge it, where peft is installed, by {way}, and give "
        f"{merged}."
    )
