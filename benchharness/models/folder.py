"""A checkpoint folder as transformers' save_pretrained writes it, read without torch."""

import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

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
from benchharness.tasks.errors import ModelError

if TYPE_CHECKING:
    from benchharness.models.pickles import PickledWeights

_AS_ROBERTA = ("camembert", "longformer", "mpnet", "roberta")
"""Families, and all whose names hold one of these, that count positions as RoBERTa does."""


_RELATIVE = ("deberta", "deberta-v2", "funnel", "mt5", "t5", "umt5", "xlnet")
"""Families that know how far tokens are from each other, and take rows of any length."""


_UNREADABLE = (OSError, ValueError, RecursionError)
"""What a missing file, or JSON that is damaged or nested without end, raises."""


def describe_folder(folder: Path, trust: Trust = NOTHING) -> ModelSpec:
    """The ModelSpec of an absolute folder; ModelError where it is no checkpoint."""
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
    """The files that a loaded checkpoint depends on: its config, weights and tokenizer, sorted.

    Pickled weights are read without running anything, so they need no trust unless a file holds
    more than weights. Code is among the files where it is trusted. Raises ModelError naming what is
    missing, and what is there instead.
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
    """The files of a folder and of those in it, relative to it."""
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


# An adapter of peft instead of a checkpoint.

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
    return merging(base, merged, shlex.join(["python", "-c", command]))


def _count_labels(weights: Path) -> int | None:
    """How many outputs a head has that was trained beside an adapter; None where there is none."""
    if not weights.is_file():
        return None
    # BERT's and RoBERTa's classifiers, those of models that read from left to right, and SQuAD's.
    heads = ("classifier.weight", "classifier.out_proj.weight", "score.weight", "qa_outputs.weight")
    return next((s[0] for name, s in shapes_in(weights).items() if name.endswith(heads)), None)


# Whether transformers can load a folder as an encoder at all, told without importing it.

_ENCODERS_ALONE = ("mt5", "t5", "t5gemma", "umt5")
"""Encoders with a decoder of which transformers gives the encoder alone."""


def check_loadable(folder: Path, trust: Trust = NOTHING, *, whole: bool = False) -> None:
    """Raises ModelError where a folder's config says that it cannot be loaded as an encoder.

    Where the `whole` is asked for it is one with a decoder. That is only what is quickly told: an
    unknown family, code that is not there or not trusted, or that has no encoder, and a decoder
    beside the encoder. Weights are looked at by the worker.
    """
    config = read_config(folder / "config.json")
    family, code = str(config["model_type"]), config.get("auto_map") or {}
    is_known = _is_known_family(family)
    if not is_known and "AutoConfig" not in code:
        raise ModelError(
            f"{shown(folder)} is of the family {family!r}, which this version of transformers does "
            "not know, and brings no code of its own (auto_map in config.json): another version "
            "may."
        )
    if not is_known and not trust.remote_code:
        raise ModelError(untrusted(folder))
    if whole:
        if not has_decoder(config):
            raise ModelError(no_decoder(f"{shown(folder)} holds {family}, which"))
    elif trust.remote_code and ("AutoModel" in code or not is_known):
        _check_code(folder, code)
    elif has_decoder(config) and family not in _ENCODERS_ALONE:
        raise ModelError(
            f"{shown(folder)} holds {family}, an encoder with a decoder, and transformers does not "
            "give its encoder alone: give --text-to-text, or use an encoder, or a checkpoint of T5."
        )
    if not is_causal(config) and not trust.remote_code:
        check_tokens(shown(folder), count_tokens(folder) or 0, config.get("vocab_size"))


GPT = ("gpt2", "openai-gpt")
"""Families that get a start, a delimiter and an end for their texts, as GPT's paper has them."""


def check_tokens(checkpoint: str, tokens: int, rows: int | None) -> None:
    """Raises ModelError for a tokenizer with more tokens than its network has embeddings."""
    if rows is not None and tokens > rows:
        raise ModelError(
            f"the tokenizer of {checkpoint} has {tokens} tokens and its network only {rows} "
            "embeddings: they do not belong together."
        )


def count_tokens(folder: Path) -> int | None:
    """How many tokens a folder's tokenizer.json has; None where it has none, or is damaged."""
    tokenizer = read_object(folder / "tokenizer.json")
    try:
        words = tokenizer["model"]["vocab"]  # a list of pairs where tokens have probabilities
        known = set(words) if isinstance(words, dict) else {word for word, _ in words}
        return len(known | {token["content"] for token in tokenizer.get("added_tokens") or ()})
    except (KeyError, TypeError, ValueError):
        return None


def has_decoder(config: Mapping[str, Any]) -> bool:
    """Whether a checkpoint answers in words."""
    return bool(config.get("is_encoder_decoder"))


def no_decoder(what: str) -> str:
    """What is said of a model without one that is to answer in words."""
    return (
        f"{what} has no decoder to answer with: --text-to-text is for encoders with one (T5, mT5, "
        "Flan-T5, BART)."
    )


def untrusted(folder: Path) -> str:
    """What is said of a checkpoint whose code would have to run."""
    return (
        f"{shown(folder)} needs the Python code that comes with it, which is not run unless it is "
        "trusted: read it, then give --trust-remote-code."
    )


def _check_code(folder: Path, code: Mapping[str, Any]) -> None:
    """A checkpoint's code has to offer an encoder, and to be there; "repo--module.Class" is not."""
    if "AutoModel" not in code:
        raise ModelError(
            f"the code of {shown(folder)} offers {', '.join(sorted(code))} and no AutoModel, by "
            "which an encoder is loaded: add it to auto_map in config.json."
        )
    # "modeling.Encoder" is of modeling.py beside it, "ORG/NAME--modeling.Encoder" of the hub.
    places = {str(code[name]) for name in ("AutoConfig", "AutoModel") if name in code}
    modules = {place.rpartition(".")[0] for place in places if "--" not in place}
    if missing := sorted(m for m in modules if not (folder / f"{m}.py").is_file()):
        raise ModelError(
            f"{shown(folder)} lacks {missing[0]}.py, which its config.json names (auto_map): copy "
            "the checkpoint again."
        )


@cache
def _is_known_family(family: str) -> bool:
    """Whether a table of transformers names it; importing the tables would take seconds."""
    found = find_spec("transformers")
    folders = found.submodule_search_locations if found else None
    tables = [path for folder in folders or () for path in Path(folder, "models/auto").glob("*.py")]
    word = f'"{family}"'
    return not tables or any(word in path.read_text(encoding="utf-8") for path in tables)


def read_config(path: Path) -> Mapping[str, Any]:
    """What a checkpoint's config.json says; ModelError where it is none of transformers.

    Some were uploaded without their family; that of a known model is in the table.
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
    """The family of a known model whose config.json does not say it; mostly empty."""
    said = read_object(folder / "config.json")
    return known_family(folder) if said and "model_type" not in said else ""


def longest_row(folder: Path) -> int | None:
    """The most tokens of a row that the checkpoint of a folder reads; None without a limit.

    Of its network's positions and its tokenizer's limit the smaller one counts.
    """
    config, limits = read_config(folder / "config.json"), []
    if is_unbounded(config["model_type"], config):
        return None
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if isinstance(positions, int) and positions > 0:
        # RoBERTa's first ones, up to the padding's, are not for tokens; MPNet's is always 1.
        family = config["model_type"]
        found = 1 if family == "mpnet" else config.get("pad_token_id")
        padding = found if isinstance(found, int) else 0  # the worker refuses what is no number
        as_roberta = any(name in family for name in _AS_ROBERTA)
        limits.append(positions - (padding + 1) * as_roberta)  # 514 positions are 512 tokens
    limit = read_object(folder / "tokenizer_config.json").get("model_max_length")
    if isinstance(limit, int | float) and 0 < limit < NO_LIMIT:  # else the worker says so
        limits.append(int(limit))
    return min(limits, default=None)


NO_LIMIT = 10**9
"""Tokens; transformers writes 10**30 where a tokenizer has no limit, more than numpy holds."""


def is_unbounded(family: str, config: Mapping[str, Any] = MappingProxyType({})) -> bool:
    """Whether a network of a family takes rows of any length, whatever its tokenizer says.

    DeBERTa may have positions too, by a value of its config; the known checkpoints have none.
    """
    has_positions = "deberta" in family and config.get("position_biased_input", bool(config))
    return family in _RELATIVE and not has_positions


def _count_parameters(weights: list[Path], trust: Trust) -> float:
    """Millions of parameters by the headers of the files, those that are shared once."""
    return round(sum(_count_numbers(path, trust) for path in weights) / 1e6, 1)


def _count_numbers(path: Path, trust: Trust) -> int:
    if path.suffix == ".bin":
        return _pickled(path, trust).count()
    return sum(map(prod, shapes_in(path).values()))


def sizes_in(folder: Path, trust: Trust = NOTHING) -> tuple[dict[str, int], int]:
    """How many numbers each tensor of a checkpoint has, and the bytes of its tokenizer's files."""
    files = checkpoint_files(folder, trust)
    shapes = weight_shapes(files["weights"], trust)
    tokenizer = sum(path.stat().st_size for path in files["tokenizer"])
    return {name: prod(shape) for name, shape in shapes.items()}, tokenizer


def weight_shapes(weights: Iterable[Path], trust: Trust = NOTHING) -> dict[str, Sequence[int]]:
    """The shape of each tensor of a checkpoint's weights, in whatever form they are."""
    shapes: dict[str, Sequence[int]] = {}
    for path in weights:
        if path.suffix == ".bin":
            shapes |= {name: each.shape for name, each in _pickled(path, trust).tensors.items()}
        else:
            shapes |= shapes_in(path)
    return shapes


def shapes_in(path: Path) -> dict[str, list[int]]:
    """The shapes of a safetensors file's tensors: it starts with a length and a JSON table."""
    try:
        with path.open("rb") as file:
            # {"encoder.weight": {"shape": [768, 768], "data_offsets": [0, 2359296]}, ...}
            length = int.from_bytes(file.read(8), "little")  # of the JSON table behind it
            if length > path.stat().st_size:
                raise ValueError(f"a header of {length} bytes in {path.stat().st_size}")
            header = json.loads(file.read(length))
        shapes = {name: t["shape"] for name, t in header.items() if name != "__metadata__"}
        if not all(isinstance(size, int) for shape in shapes.values() for size in shape):
            raise ValueError("a shape that is none")
    except (*_UNREADABLE, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{shown(path)} is not a whole safetensors file ({error}); copy the checkpoint again."
        ) from None
    return shapes


def read_object(path: Path) -> dict[str, Any]:
    """A file's JSON object; nothing where there is no such file, or it holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except _UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}


def stated_pooling(folder: Path) -> str:
    """How sentence-transformers makes one vector of a folder's tokens; empty where it does not."""
    modes = read_object(folder / "1_Pooling" / "config.json")
    # {"pooling_mode_mean_tokens": true, ...}, of which several may be true, or one word for all:
    # {"pooling_mode": "lasttoken"}.
    chosen = [name for name, value in modes.items() if value is True and "pooling_mode" in name]
    return str(modes.get("pooling_mode") or ", ".join(chosen)).replace("pooling_mode_", "")
