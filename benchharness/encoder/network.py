"""Load an encoder's network with the weights of its checkpoint."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES
from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention

from benchharness.errors import ModelError, first_line
from benchharness.leaderboard.job import Trust
from benchharness.leaderboard.text import counted
from benchharness.models.families import is_causal
from benchharness.models.folder import (
    checkpoint_files,
    no_decoder,
    read_config,
    read_object,
    unsaid_family,
    untrusted,
    wrapping,
)
from benchharness.models.spec import NOTHING, called, shown

NOT_ENCODER = ("pooler", "classifier", "pre_classifier", "head", "lm_head", "cls", "qa_outputs")
"""Names of modules on top of an encoder. A checkpoint without them is still a complete encoder."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "big_bird": {"attention_type": "original_full"},
    "xlnet": {"use_mems_eval": False},
}
"""Config values that a family needs, keyed by model_type.

BigBird would switch to full attention at the first batch of short texts and never switch back, so
its results would depend on the order of batches; up to 704 tokens it chooses full attention anyway.
XLNet would cache states for a later segment of the text, which never follows here.
"""


WITH_HEAD: Mapping[str, Mapping[str, str]] = {
    "modernbert": {},
    "modernbert-decoder": {"^lm_head": "head"},
}
"""Families with pretrained layers between the encoder and any output layer, which become the pooler
of the encoder. The values map names of these layers in checkpoints of language models to their
names in transformers' text classifiers."""


def load_config(folder: Path, trust: Trust = NOTHING) -> Any:
    """Load the config of a checkpoint, and set the values that SETTINGS has for its family.

    For a decoder, the cache of states (`use_cache`) is turned off.

    Args:
        folder: Folder of the checkpoint.
        trust: Permissions that the user grants to the checkpoint.

    Raises:
        ModelError: The config is not usable, or it needs code that `trust` does not allow.
    """
    try:
        if family := unsaid_family(folder):
            said = read_object(folder / "config.json")
            config = transformers.AutoConfig.for_model(family, **said)
        else:
            config = transformers.AutoConfig.from_pretrained(
                folder, trust_remote_code=trust.remote_code, local_files_only=True
            )
    except Exception as error:  # a damaged file can make transformers raise anything
        check_trusted(folder, error)
        raise ModelError(
            f"{shown(folder / 'config.json')} is not usable: {first_line(error)}"
        ) from error
    for name, value in SETTINGS.get(config.model_type, {}).items():
        setattr(config, name, value)
    if is_causal(read_config(folder / "config.json")):
        config.use_cache = False  # no tokens are generated, so a cache would not be used
    return config


def is_foreign(network: nn.Module) -> bool:
    """Return whether the class of a network is not part of transformers, but of its checkpoint.

    Such a class may differ from transformers' own class for the same model_type.
    """
    return not type(network).__module__.startswith("transformers.")


def takes_input(network: nn.Module, name: str) -> bool:
    """Return whether a network's forward accepts a keyword argument called `name`."""
    taken = signature(network.forward).parameters
    return name in taken or any(each.kind is Parameter.VAR_KEYWORD for each in taken.values())


def draw_network(config: Any, *, whole: bool = False) -> nn.Module:
    """Create a network with random fp32 weights; if `whole` is true, include the decoder.

    Raises ModelError if the model has no decoder although `whole` is true, or if transformers
    cannot load the encoder of an encoder-decoder model alone.
    """
    network = _find_class(config, whole=whole).from_config(config, dtype=torch.float32)
    return _settle(network, config)


def check_trusted(folder: Path, error: Exception) -> None:
    """Raise ModelError if transformers raised `error` because the checkpoint's code is not trusted.

    For all other errors, do nothing. `folder` is the folder of the checkpoint.
    """
    if "trust_remote_code" in str(error):
        raise ModelError(untrusted(folder)) from error


def load_network(
    folder: Path, config: Any, checkpoint: str, trust: Trust = NOTHING, *, whole: bool = False
) -> nn.Module:
    """Load the network with the checkpoint's weights, converted to fp32.

    Args:
        folder: Folder of the checkpoint.
        config: Config of the checkpoint.
        checkpoint: Hub id or folder, for messages.
        trust: Permissions that the user grants to the checkpoint.
        whole: Whether to load the decoder too, with its language-model head.

    Raises:
        ModelError: The weights cannot be read, do not fit the config or are not finite; or the
            model has no usable decoder although `whole` is true; or transformers cannot load the
            encoder of an encoder-decoder model alone.
    """
    name = called(checkpoint)
    network, info = read_weights(_find_class(config, whole=whole), folder, config, trust)
    if whole and not hasattr(network, "prepare_decoder_input_ids_from_labels"):
        raise ModelError(
            f"{name} belongs to the family {config.model_type}, whose class in transformers cannot "
            "create decoder inputs from target texts: use a checkpoint of T5 or BART."
        )
    # If the decoder is not loaded, layers on top of the encoder may be missing. Any other missing
    # weight is an error, because transformers would silently initialize it at random.
    lost = sorted(key for key in info["missing_keys"] if whole or not _is_on_top(key))
    unread = info["unexpected_keys"]
    if lost:
        named = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
        part = "encoder and decoder" if whole else "encoder"
        raise ModelError(
            f"{name} lacks {counted(len(lost), 'weight')} of its {part} ({named}): "
            f"{wrapping(unread) or _cause(lost, unread)}"
        )
    if more := _layers_left_out(network, unread):
        raise ModelError(
            f"{name} has weights of more layers than its config.json specifies ({more}): use the "
            "config.json that belongs to the weights, or remove the additional weights. To run "
            "only N of its layers, pass --set layers=N."
        )
    broken = [name for name, weight in network.named_parameters() if not weight.isfinite().all()]
    if broken:
        more = f" and {counted(len(broken) - 1, 'other weight')}" if len(broken) > 1 else ""
        raise ModelError(
            f"{name} has NaN or infinite numbers in {broken[0]}{more}: download an undamaged copy."
        )
    return _settle(network, config)


def _cause(lost: Collection[str], unread: Collection[str]) -> str:
    """Describe the likely cause of missing weights: a prefix in the file's names, or damage."""
    ends = {key.removesuffix(name) for name in lost for key in unread if key.endswith(f".{name}")}
    if len(ends) == 1:
        mark = ends.pop()
        return (
            f"the names in its file begin with {mark!r}, like those of a larger network. Save only "
            "the encoder, with its save_pretrained(FOLDER)."
        )
    return "the checkpoint is damaged, or its config.json specifies the wrong family."


_DIGITS = re.compile(r"(?<=\.)\d+(?=\.)")


def _layers_left_out(network: nn.Module, unread: Iterable[str]) -> str:
    """Return the name of an unread weight of a layer that the network lacks, or "" if none."""
    known = {_DIGITS.sub("N", key) for key in network.state_dict()}
    prefix = f"{getattr(network, 'base_model_prefix', '')}."
    for key in sorted(filter(_DIGITS.search, unread)):
        # A network that was saved with a head has its base-model prefix before the names of its
        # weights.
        if not known.isdisjoint(_DIGITS.sub("N", each) for each in (key, key.removeprefix(prefix))):
            return key
    return ""


def _is_on_top(key: str) -> bool:
    names = key.split(".")
    return names[0] in NOT_ENCODER or "position_ids" in names


def loadable(folder: Path, trust: Trust) -> AbstractContextManager[Path]:
    """Return a context manager that yields the folder from which to load the weights.

    This is `folder` itself, or a converted copy if the weights are pickled. `trust` contains the
    permissions that the user grants to the checkpoint.
    """
    weights = checkpoint_files(folder, trust)["weights"]
    if all(path.suffix != ".bin" for path in weights):
        return nullcontext(folder)
    from benchharness.models import converted  # noqa: PLC0415  (few checkpoints need it)

    return converted.loadable(folder, trust)


def read_weights(loader: Any, folder: Path, config: Any, trust: Trust) -> tuple[Any, Any]:
    """Load a checkpoint's weights in fp32.

    Args:
        loader: Class of transformers with the method `from_pretrained`.
        folder: Folder of the checkpoint.
        config: Config of the checkpoint.
        trust: Permissions that the user grants to the checkpoint.

    Returns:
        The network, and transformers' loading info: a dict with the names of the weights that are
        missing ("missing_keys") or not used ("unexpected_keys").

    Raises:
        ModelError: The weights cannot be read, or their shapes do not match the config.
    """
    is_classifier = loader is transformers.AutoModelForSequenceClassification
    names = WITH_HEAD.get(config.model_type, {}) if is_classifier else {}
    with loadable(folder, trust) as place:
        try:
            network, info = loader.from_pretrained(
                place,
                config=config,
                dtype=torch.float32,
                trust_remote_code=trust.remote_code,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # reported below with the weights' names
                key_mapping=dict(names) or None,
            )
        except Exception as error:  # a damaged file can make transformers raise anything
            raise ModelError(
                f"the weights in {shown(folder)} cannot be loaded ({first_line(error)}): copy the "
                "checkpoint again."
            ) from error
    for name, found, expected in sorted(info["mismatched_keys"]):
        raise ModelError(
            f"{name} in {shown(folder)} has the size {' x '.join(map(str, found))}, but the "
            f"folder's config.json specifies {' x '.join(map(str, expected))}: use the config.json "
            "that belongs to the weights."
        )
    if is_foreign(network):
        network, info["missing_keys"] = _build_again(network, info["missing_keys"], folder)
    return network, info


# Networks whose code comes with the checkpoint.
#
# transformers creates a network without memory, on the device "meta", and then loads the
# checkpoint's tensors into it. Tensors that `__init__` computes and the checkpoint lacks, such as a
# table of positions, are computed again only in transformers' own classes. In classes that come
# with a checkpoint, these tensors have uninitialized memory or no memory.


def _build_again(network: Any, missing: set[str], folder: Path) -> tuple[nn.Module, set[str]]:
    """Create a network again, in memory instead of on "meta", and copy its loaded weights to it.

    Returns the network and the names of the weights that are still missing. Raises ModelError if
    the network cannot be built, or if one of its tensors has no value.
    """
    own = type(network)
    loaded = {name: t for name, t in network.state_dict().items() if name not in missing}
    try:
        with torch.random.fork_rng(devices=[]), _unwritten_is_nan():
            built = own._from_config(network.config, dtype=torch.float32)
        built.load_state_dict(loaded, strict=False)  # missing weights are checked below
    except Exception as error:  # third-party code can raise anything
        raise ModelError(
            f"{own.__name__}, a class in {shown(folder)}, cannot be created in memory "
            f"({first_line(error)}): its __init__ must need only the config."
        ) from error
    for name, tensor in _tensors(built.eval()):
        if name not in loaded and (tensor.is_meta or bool(tensor.isnan().any())):
            raise ModelError(
                f"{own.__name__}, a class in {shown(folder)}, gives {name} no value, and the "
                "checkpoint does not contain one: compute it in __init__, or save it with the "
                "weights."
            )
    # If __init__ ties several weights, the checkpoint stores them under only one of their names.
    places = {name: tensor.data_ptr() for name, tensor in built.state_dict().items()}
    filled = {place for name, place in places.items() if name in loaded}
    return built, {name for name in missing if places.get(name) not in filled}


@contextmanager
def _unwritten_is_nan() -> Iterator[None]:
    """Context manager in which torch fills uninitialized memory with NaN (deterministic mode)."""
    filling: Any = torch.utils.deterministic
    before = torch.get_deterministic_debug_mode(), filling.fill_uninitialized_memory
    torch.set_deterministic_debug_mode("warn")  # "error" would refuse nondeterministic operations
    filling.fill_uninitialized_memory = True  # an earlier job of this process may have set False
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        filling.fill_uninitialized_memory = before[1]


def _tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and values of all tensors of a network: weights, buffers and others.

    Tensors in lists, tuples and dicts of a module are included.
    """
    for prefix, module in network.named_modules():
        yield from _within(vars(module), f"{prefix}." if prefix else "")


def _within(values: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Tensor]]:
    for name, value in values.items():
        if isinstance(value, Tensor):
            yield f"{prefix}{name}", value
        elif isinstance(value, list | tuple):
            yield from _within(dict(enumerate(value)), f"{prefix}{name}.")
        elif isinstance(value, dict):  # torch keeps weights and buffers in dicts
            is_own = name in ("_parameters", "_buffers")
            yield from _within(value, prefix if is_own else f"{prefix}{name}.")


def _find_class(config: Any, *, whole: bool = False) -> Any:
    """Return the transformers class that matches a checkpoint's weights.

    For T5 this is the class of the encoder alone, and for ModernBERT and its decoder a class with
    the pretrained head. Raises ModelError if `whole` is true and the model has no decoder, or if
    transformers has no class for the encoder alone.
    """
    if whole:
        if not config.is_encoder_decoder:
            raise ModelError(no_decoder(config.model_type))
        return transformers.AutoModelForSeq2SeqLM
    if config.model_type in WITH_HEAD:
        return transformers.AutoModelForSequenceClassification
    # The mapping also contains classes of whole models. Only its classes for T5 and related
    # families consist of an encoder alone.
    name = MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES.get(config.model_type, "")
    if name.endswith("EncoderModel"):
        return transformers.AutoModelForTextEncoding
    if config.is_encoder_decoder:
        raise ModelError(
            f"{config.model_type} is an encoder with a decoder, and transformers cannot load its "
            "encoder alone: pass --text-to-text, or use a checkpoint of an encoder or of T5."
        )
    return transformers.AutoModel


def _settle(network: Any, config: Any) -> nn.Module:
    """Return the encoder of a network; a pretrained head (see WITH_HEAD) becomes its pooler."""
    encoder: nn.Module = network
    if config.model_type in WITH_HEAD:
        encoder = network.model
        encoder.pooler = network.head  # dense layer, activation and norm
    fix_attention(encoder)
    return encoder


def fix_attention(network: nn.Module) -> None:
    """Make every DeBERTa v1 attention module compute in fp32, also under autocast."""
    for module in network.modules():
        if type(module) is DisentangledSelfAttention:
            module.__class__ = _Fp32Attention  # keeps weights and their names


# DeBERTa v1's attention in fp32: transformers' code for it cannot be computed in bf16.
#
# That code fills scores at padding with the lowest number of the queries' dtype. Under autocast the
# queries are fp32, but the scores are bf16, which cannot represent that number. Version 2 has
# separate code without this problem.


class _Fp32Attention(DisentangledSelfAttention):
    def forward(self, hidden_states: Tensor, *args: Any, **options: Any) -> Any:
        with torch.autocast(hidden_states.device.type, enabled=False):
            return super().forward(hidden_states.float(), *args, **options)
