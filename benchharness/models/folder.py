"""Read a checkpoint folder, as written by transformers' save_pretrained, without torch."""

import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchharness.errors import ModelError
from benchharness.leaderboard.job import Trust
from benchharness.models.families import is_causal
from benchharness.models.spec import (
    ADAPTER,
    NOTHING,
    ModelSpec,
    find_weights,
    known_family,
    merging,
    shown,
    sort_files,
)

if TYPE_CHECKING:
    from benchharness.models.pickles import PickledWeights

_AS_ROBERTA = ("camembert", "longformer", "mpnet", "roberta")
"""Families that count positions as RoBERTa does. A family whose name contains one of these names
does so too."""


_RELATIVE = ("deberta", "deberta-v2", "funnel", "mt5", "t5", "umt5", "xlnet")
"""Families with relative positions, which accept inputs of any length."""


_UNREADABLE = (OSError, ValueError, RecursionError)
"""Exceptions for a missing file, and for JSON that is damaged or nested too deeply."""


def describe_folder(folder: Path, trust: Trust = NOTHING) -> ModelSpec:
    """Return a description of the checkpoint in a folder.

    Args:
        folder: Folder of the checkpoint.
        trust: Permissions that the user gives the checkpoint.

    Raises:
        ModelError: The folder contains no checkpoint, or one that cannot be loaded.
    """
    weights = checkpoint_files(folder, trust)["weights"]
    config = read_config(folder / "config.json")
    if why := wrapping(weight_shapes(weights, trust)):
        raise ModelError(f"{folder} cannot be loaded: {why}")
    return ModelSpec(
        name=folder.name,
        checkpoint=str(folder),
        family=str(config["model_type"]),
        title=f"{config['model_type']} checkpoint in a folder",
        parameters=_count_parameters(weights, trust),
        max_tokens=longest_row(folder),
        trust=trust,
    )


def checkpoint_files(folder: Path, trust: Trust = NOTHING) -> dict[str, list[Path]]:
    """Return the files of a checkpoint, keyed by "config", "weights", "tokenizer" and "code".

    Files that have no effect on the loaded model are left out. Code is included only if the user
    trusts it. Pickled weights are parsed without running any code, so they need no permission of
    the user, unless a file also contains other objects.

    Raises:
        ModelError: A file is missing (the message then names files that the folder has instead),
            the folder contains a LoRA adapter, or pickled weights are damaged or need a permission.
    """
    names = _names_in(folder)
    if ADAPTER in names and not find_weights(names):
        raise ModelError(f"{shown(folder)} is not a checkpoint: {_merging(folder)}")
    groups = sort_files(names, shown(folder), trust, folder)
    files = {kind: [folder / name for name in found] for kind, found in groups.items()}
    for path in files["weights"]:
        if path.suffix == ".bin":
            _pickled(path, trust)
    return files


def _names_in(folder: Path) -> list[str]:
    """Return the files in a folder and in its subfolders, as paths relative to the folder."""
    found = sorted((*folder.glob("*"), *folder.glob("*/*")))
    return [path.relative_to(folder).as_posix() for path in found if path.is_file()]


def _pickled(path: Path, trust: Trust) -> "PickledWeights":
    from benchharness.models.pickles import weights_of  # noqa: PLC0415  (few checkpoints need it)

    return weights_of(path, trust)


_WRAPPERS = {
    "module.": "DataParallel or DistributedDataParallel",
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "FSDP",
    "_forward_module.": "Lightning Fabric",
}
"""Wrappers of networks in training programs, keyed by the prefix that they add to the names of the
weights."""


def wrapping(names: Collection[str]) -> str:
    """Return the end of an error message if a training program has saved a wrapped network.

    Wrappers such as FSDP add a prefix to the names of the weights.

    Args:
        names: The names of the weights.

    Returns:
        The text after the colon of the error message, or "" if no wrapper has added a prefix.
    """
    for mark, whose in _WRAPPERS.items():
        # A network may itself have a submodule called "module". So "module." must be at the
        # beginning of all names.
        inside = mark != "module."
        has = [mark in name if inside else name.startswith(mark) for name in names]
        if has and (all(has) or (inside and any(has))):
            return (
                f"the names of its weights contain {mark!r}, which {whose} has added. Save the "
                "unwrapped model (accelerator.unwrap_model(model).save_pretrained(FOLDER)), or "
                "remove this prefix from the names."
            )
    return ""


# Folders with a peft adapter instead of a checkpoint.

_PEFT_CLASSES = {
    "CAUSAL_LM": "ForCausalLM",
    "FEATURE_EXTRACTION": "ForFeatureExtraction",
    "QUESTION_ANS": "ForQuestionAnswering",
    "SEQ_2_SEQ_LM": "ForSeq2SeqLM",
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
}
"""Suffixes of peft's class names, keyed by the `task_type` in the config of an adapter."""


def _merging(folder: Path) -> str:
    """Return the end of an error message, with the command that merges a folder's peft adapter."""
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
    return merging(base, merged, shlex.join(["python", "-c", command]))


def _count_labels(weights: Path) -> int | None:
    """Return the number of outputs of the head that was saved with an adapter; None without one."""
    if not weights.is_file():
        return None
    # Names of the output weights: classifiers of BERT, RoBERTa and decoders, and the
    # question-answering head.
    heads = ("classifier.weight", "classifier.out_proj.weight", "score.weight", "qa_outputs.weight")
    return next((s[0] for name, s in shapes_in(weights).items() if name.endswith(heads)), None)


# Check whether transformers can load a folder as an encoder, without importing transformers.

_ENCODERS_ALONE = ("mt5", "t5", "t5gemma", "umt5")
"""Encoder-decoder families whose encoder transformers can load without the decoder."""


def check_loadable(folder: Path, trust: Trust = NOTHING, *, whole: bool = False) -> None:
    """Raise ModelError if quick checks show that a checkpoint cannot be loaded as an encoder.

    The checks detect an unknown model family; quantized weights; code that is missing, not trusted
    or without an encoder class; an encoder-decoder model from which transformers cannot load only
    the encoder; and a tokenizer with more tokens than there are embeddings. The weights are checked
    later, in the worker process.

    Args:
        folder: The folder of the checkpoint.
        trust: Permissions that the user gives the checkpoint.
        whole: Whether the checkpoint is loaded with its decoder. If so, a checkpoint without a
            decoder raises ModelError.
    """
    config = read_config(folder / "config.json")
    family, code = str(config["model_type"]), config.get("auto_map") or {}
    is_known = _is_known_family(family)
    if not is_known and "AutoConfig" not in code:
        raise ModelError(
            f"{shown(folder)} belongs to the family {family!r}, which this version of transformers "
            "does not know, and comes without code of its own (auto_map in config.json): try "
            "another version of transformers."
        )
    if not is_known and not trust.remote_code:
        raise ModelError(untrusted(folder))
    _check_quantization(folder, config)
    if whole:
        if not has_decoder(config):
            raise ModelError(no_decoder(f"{shown(folder)} contains {family}, which"))
    elif trust.remote_code and ("AutoModel" in code or not is_known):
        _check_code(folder, code)
    elif has_decoder(config) and family not in _ENCODERS_ALONE:
        raise ModelError(
            f"{shown(folder)} contains {family}, an encoder-decoder model, and transformers cannot "
            "load its encoder alone: pass --text-to-text, or use an encoder or a checkpoint of T5."
        )
    if not is_causal(config) and not trust.remote_code:
        check_tokens(shown(folder), count_tokens(folder) or 0, config.get("vocab_size"))


GPT = ("gpt2", "openai-gpt")
"""Model families whose inputs get a start token, a delimiter and an end token, as in the paper of
GPT."""


def check_tokens(checkpoint: str, tokens: int, rows: int | None) -> None:
    """Raise ModelError if a tokenizer has more tokens than its network has embeddings.

    Args:
        checkpoint: The name of the checkpoint, for the error message.
        tokens: The number of tokens of the tokenizer.
        rows: The number of embeddings; if it is None, nothing is checked.
    """
    if rows is not None and tokens > rows:
        raise ModelError(
            f"the tokenizer of {checkpoint} has {tokens} tokens, but its network has only {rows} "
            "embeddings: they do not belong together."
        )


def count_tokens(folder: Path) -> int | None:
    """Return the number of tokens in a folder's tokenizer.json; None if it is absent or damaged."""
    tokenizer = read_object(folder / "tokenizer.json")
    try:
        words = tokenizer["model"]["vocab"]  # a dict, or a list of (token, score) pairs
        known = set(words) if isinstance(words, dict) else {word for word, _ in words}
        return len(known | {token["content"] for token in tokenizer.get("added_tokens") or ()})
    except (KeyError, TypeError, ValueError):
        return None


def has_decoder(config: Mapping[str, Any]) -> bool:
    """Return whether a checkpoint with this config has a decoder in addition to an encoder."""
    return bool(config.get("is_encoder_decoder"))


def no_decoder(what: str) -> str:
    """Return the error message for a text-to-text task with a model that has no decoder.

    `what` is a phrase for the model, with which the message begins.
    """
    return (
        f"{what} has no decoder to generate text with: --text-to-text needs an encoder-decoder "
        "model (T5, mT5, Flan-T5, BART)."
    )


def untrusted(folder: Path) -> str:
    """Return the error message for a checkpoint that needs its own code without permission.

    `folder` is the folder of the checkpoint.
    """
    return (
        f"{shown(folder)} needs the Python code that comes with it, which is not run without your "
        "permission: read the code, then pass --trust-remote-code."
    )


def _check_quantization(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise ModelError if the config of a checkpoint says that its weights are quantized."""
    how = config.get("quantization_config")
    if how:
        method = how.get("quant_method", "unknown method") if isinstance(how, dict) else how
        raise ModelError(
            f"the weights of {shown(folder)} are quantized ({method}), and quantized weights "
            "cannot be fine-tuned: use the checkpoint that they were made from, with --set "
            "lora_rank=8 to train it in less memory. If only the quantized weights exist, load "
            "them with transformers and save model.dequantize() with save_pretrained(FOLDER)."
        )


def _check_code(folder: Path, code: Mapping[str, Any]) -> None:
    """Raise ModelError if a checkpoint's code offers no encoder, or if its file is missing.

    If the code is in another repository ("repo--module.Class"), its file is not checked.
    """
    if "AutoModel" not in code:
        raise ModelError(
            f"the code of {shown(folder)} offers {', '.join(sorted(code))}, but not AutoModel, "
            "which is needed to load an encoder: add AutoModel to auto_map in config.json."
        )
    # "modeling.Encoder" is in modeling.py in the folder, and "ORG/NAME--modeling.Encoder" is on the
    # hub.
    places = {str(code[name]) for name in ("AutoConfig", "AutoModel") if name in code}
    modules = {place.rpartition(".")[0] for place in places if "--" not in place}
    if missing := sorted(m for m in modules if not (folder / f"{m}.py").is_file()):
        raise ModelError(
            f"{shown(folder)} lacks {missing[0]}.py, which its config.json names (auto_map): copy "
            "the checkpoint again."
        )


@cache
def _is_known_family(family: str) -> bool:
    """Return whether transformers knows a model family.

    The source files of transformers are searched as text, because importing it takes seconds.
    """
    found = find_spec("transformers")
    folders = found.submodule_search_locations if found else None
    tables = [path for folder in folders or () for path in Path(folder, "models/auto").glob("*.py")]
    word = f'"{family}"'
    return not tables or any(word in path.read_text(encoding="utf-8") for path in tables)


def read_config(path: Path) -> Mapping[str, Any]:
    """Return the content of a checkpoint's config.json, which is the file `path`.

    Some configs were uploaded without a model_type. If the checkpoint belongs to a known model,
    benchharness adds the model_type.

    Raises:
        ModelError: The file cannot be read, or has no model_type.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except _UNREADABLE as error:
        raise ModelError(
            f"{shown(path)} is not readable JSON ({error}); copy the checkpoint again."
        ) from None
    if isinstance(config, dict) and (family := unsaid_family(path.parent)):
        return {**config, "model_type": family}
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelError(
            f"{shown(path)} has no model_type, so the encoder's family is unknown; expected a "
            "config.json that transformers wrote."
        )
    return config


def unsaid_family(folder: Path) -> str:
    """Return the family of a known model if its config.json does not state the family.

    For all other checkpoints, the result is "".
    """
    said = read_object(folder / "config.json")
    return known_family(folder) if said and "model_type" not in said else ""


def longest_row(folder: Path) -> int | None:
    """Return the maximum number of tokens per input of a checkpoint; None if it has no limit.

    It is the smaller of the network's number of usable positions and the tokenizer's limit, or None
    if the folder states neither of them. A network with relative positions has no limit; the
    tokenizer's limit is then ignored.
    """
    config, limits = read_config(folder / "config.json"), []
    if is_unbounded(config["model_type"], config):
        return None
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if isinstance(positions, int) and positions > 0:
        # In RoBERTa, the positions up to the padding id are not used for tokens. MPNet's padding id
        # is always 1.
        family = config["model_type"]
        found = 1 if family == "mpnet" else config.get("pad_token_id")
        padding = found if isinstance(found, int) else 0  # the worker rejects other types
        as_roberta = any(name in family for name in _AS_ROBERTA)
        limits.append(positions - (padding + 1) * as_roberta)  # 514 positions hold 512 tokens
    limit = read_object(folder / "tokenizer_config.json").get("model_max_length")
    if isinstance(limit, int | float) and 0 < limit < NO_LIMIT:  # the worker reports other values
        limits.append(int(limit))
    return min(limits, default=None)


NO_LIMIT = 10**9
"""Number of tokens from which a tokenizer's maximum length counts as no limit. If a tokenizer has
no limit, transformers writes 10**30, which is too large for numpy's integers."""


def is_unbounded(family: str, config: Mapping[str, Any] = MappingProxyType({})) -> bool:
    """Return whether networks of a family accept inputs of any length.

    This is the case for families without absolute positions. DeBERTa has absolute positions unless
    its config sets `position_biased_input` to false. A limit of the tokenizer is ignored.

    Args:
        family: The family (transformers' model_type).
        config: The content of config.json. If it is empty, DeBERTa counts as a family without
            absolute positions, because the known checkpoints of DeBERTa have none.
    """
    has_positions = "deberta" in family and config.get("position_biased_input", bool(config))
    return family in _RELATIVE and not has_positions


def _count_parameters(weights: list[Path], trust: Trust) -> float:
    """Return the number of parameters in weight files, in millions; shared weights count once."""
    return round(sum(_count_numbers(path, trust) for path in weights) / 1e6, 1)


def _count_numbers(path: Path, trust: Trust) -> int:
    if path.suffix == ".bin":
        return _pickled(path, trust).count()
    return sum(map(prod, shapes_in(path).values()))


def sizes_in(folder: Path, trust: Trust = NOTHING) -> tuple[dict[str, int], int]:
    """Return the sizes of a checkpoint's tensors and of its tokenizer.

    Args:
        folder: The folder of the checkpoint.
        trust: Permissions that the user gives the checkpoint.

    Returns:
        The number of elements of each tensor, keyed by the name of the tensor, and the size of all
        tokenizer files together in bytes.
    """
    files = checkpoint_files(folder, trust)
    shapes = weight_shapes(files["weights"], trust)
    tokenizer = sum(path.stat().st_size for path in files["tokenizer"])
    return {name: prod(shape) for name, shape in shapes.items()}, tokenizer


def weight_shapes(weights: Iterable[Path], trust: Trust = NOTHING) -> dict[str, Sequence[int]]:
    """Return the shapes of the tensors in safetensors or pickled files, keyed by name.

    Args:
        weights: The paths of the files.
        trust: Permissions that the user gives the checkpoint.

    Raises:
        ModelError: A file is damaged, or a pickled file needs a permission.
    """
    shapes: dict[str, Sequence[int]] = {}
    for path in weights:
        if path.suffix == ".bin":
            shapes |= {name: each.shape for name, each in _pickled(path, trust).tensors.items()}
        else:
            shapes |= shapes_in(path)
    return shapes


def shapes_in(path: Path) -> dict[str, list[int]]:
    """Return the shapes of the tensors in a safetensors file, keyed by name.

    Only the header of the file is read.

    Raises:
        ModelError: The file is damaged or incomplete.
    """
    try:
        with path.open("rb") as file:
            # {"encoder.weight": {"shape": [768, 768], "data_offsets": [0, 2359296]}, ...}
            length = int.from_bytes(file.read(8), "little")  # length of the JSON that follows
            if length > path.stat().st_size:
                raise ValueError(
                    f"its header has {length} bytes, but the file has only {path.stat().st_size}"
                )
            header = json.loads(file.read(length))
        shapes = {name: t["shape"] for name, t in header.items() if name != "__metadata__"}
        if not all(isinstance(size, int) for shape in shapes.values() for size in shape):
            raise ValueError("a shape is not a list of integers")
    except (*_UNREADABLE, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{shown(path)} is not a complete safetensors file ({error}); copy it again."
        ) from None
    return shapes


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; {} if the file is absent or contains anything else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except _UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}


MEAN, FIRST, LAST = "mean", "first", "last"
"""Ways to compute one vector for a text from the states of its tokens: the mean of all states, or
the state of the first or the last token."""

POOLINGS = {"mean_tokens": MEAN, "cls_token": FIRST, "lasttoken": LAST}
"""Values MEAN, FIRST and LAST, keyed by the names of these poolings in sentence-transformers."""


def stated_pooling(folder: Path) -> str:
    """Return how a sentence-transformers model computes one vector for a text from token states.

    The result is a name in sentence-transformers, such as "mean_tokens" (several names are
    separated by commas), or "" if the folder does not state it.
    """
    modes = read_object(folder / "1_Pooling" / "config.json")
    # The file either has one flag per pooling, such as {"pooling_mode_mean_tokens": true, ...}, and
    # several flags may be true; or it has a single value, such as {"pooling_mode": "lasttoken"}.
    chosen = [name for name, value in modes.items() if value is True and "pooling_mode" in name]
    return str(modes.get("pooling_mode") or ", ".join(chosen)).replace("pooling_mode_", "")
