"""An encoder's network with the weights of its checkpoint."""

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

from benchharness.leaderboard.job import Trust
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
from benchharness.tasks.errors import ModelError, first_line

NOT_ENCODER = ("pooler", "classifier", "pre_classifier", "head", "lm_head", "cls", "qa_outputs")
"""Names of layers on top of an encoder: a checkpoint without them is still a whole encoder."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "big_bird": {"attention_type": "original_full"},
    "xlnet": {"use_mems_eval": False},
}
"""BigBird goes over to full attention at the first batch of short texts and never back, so what it
computes would depend on the order of batches; up to 704 tokens full attention is its own way. XLNet
would keep states for tokens that never follow."""


def load_config(folder: Path, trust: Trust = NOTHING) -> Any:
    """The config of a checkpoint; ModelError where it is not usable."""
    try:
        if family := unsaid_family(folder):
            said = read_object(folder / "config.json")
            config = transformers.AutoConfig.for_model(family, **said)
        else:
            config = transformers.AutoConfig.from_pretrained(
                folder, trust_remote_code=trust.remote_code, local_files_only=True
            )
    except Exception as error:  # whatever a damaged file makes transformers run into
        check_trusted(folder, error)
        raise ModelError(
            f"{shown(folder / 'config.json')} is not usable: {first_line(error)}"
        ) from error
    for name, value in SETTINGS.get(config.model_type, {}).items():
        setattr(config, name, value)
    if is_causal(read_config(folder / "config.json")):
        config.use_cache = False  # it would keep states for tokens that never follow
    return config


def is_foreign(network: nn.Module) -> bool:
    """True for a class that is no one of transformers: a checkpoint's own code, which was trusted.

    Of what it computes nothing is known but what its methods say, whatever its config calls it.
    """
    return not type(network).__module__.startswith("transformers.")


def takes_input(network: nn.Module, name: str) -> bool:
    """Whether a network's forward has a parameter of that name, or takes whatever it is given."""
    taken = signature(network.forward).parameters
    return name in taken or any(each.kind is Parameter.VAR_KEYWORD for each in taken.values())


def draw_network(config: Any, *, whole: bool = False) -> nn.Module:
    """A network with random weights."""
    network = _find_class(config, whole=whole).from_config(config, dtype=torch.float32)
    return _settle(network, config)


def check_trusted(folder: Path, error: Exception) -> None:
    """Raises ModelError where transformers says that a checkpoint comes with code of its own."""
    if "trust_remote_code" in str(error):
        raise ModelError(untrusted(folder)) from error


def load_network(
    folder: Path, config: Any, checkpoint: str, trust: Trust = NOTHING, *, whole: bool = False
) -> nn.Module:
    """The network with the checkpoint's weights; fp32 whatever they were saved in.

    `whole` asks for the decoder too, with the layer that says words. Raises ModelError where the
    weights cannot be read, are not the network's or are not finite.
    """
    name = called(checkpoint)
    network, info = read_weights(_find_class(config, whole=whole), folder, config, trust)
    if whole and not hasattr(network, "prepare_decoder_input_ids_from_labels"):
        raise ModelError(
            f"{name} is of the family {config.model_type}, whose network in transformers does not "
            "make the input of its decoder from an answer: use a checkpoint of T5 or BART."
        )
    # Layers on top of an encoder may be missing; transformers would make other weights up too.
    lost = sorted(key for key in info["missing_keys"] if whole or not _is_on_top(key))
    unread = info["unexpected_keys"]
    if lost:
        named = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
        part = "encoder and decoder" if whole else "encoder"
        raise ModelError(
            f"{name} lacks {len(lost)} weights of its {part} ({named}): "
            f"{wrapping(unread) or _cause(lost, unread)}"
        )
    if more := _layers_left_out(network, unread):
        raise ModelError(
            f"{name} has weights of more layers than its config.json says ({more}): get the "
            "config.json that belongs to them, or take these weights out; `--set layers=N` is a "
            "run with N of its layers."
        )
    broken = [name for name, weight in network.named_parameters() if not weight.isfinite().all()]
    if broken:
        raise ModelError(
            f"{name} has NaN or infinite numbers in {broken[0]} "
            f"({len(broken)} weights in all): get an undamaged copy."
        )
    return _settle(network, config)


def _cause(lost: Collection[str], unread: Collection[str]) -> str:
    """Why weights may be missing: names with something before them, or another network."""
    ends = {key.removesuffix(name) for name in lost for key in unread if key.endswith(f".{name}")}
    if len(ends) == 1:
        mark = ends.pop()
        return (
            f"their names begin with {mark!r}, as those of a larger network: save the encoder "
            "alone, by its save_pretrained(FOLDER)."
        )
    return "it is damaged, or not of the family that its config.json says."


_DIGITS = re.compile(r"(?<=\.)\d+(?=\.)")


def _layers_left_out(network: nn.Module, unread: Iterable[str]) -> str:
    """A weight of a layer that the network would have if its config said more of them."""
    known = {_DIGITS.sub("N", key) for key in network.state_dict()}
    prefix = f"{getattr(network, 'base_model_prefix', '')}."
    for key in sorted(filter(_DIGITS.search, unread)):
        # A network that is saved with a head has its own name before those of its weights.
        if not known.isdisjoint(_DIGITS.sub("N", each) for each in (key, key.removeprefix(prefix))):
            return key
    return ""


def _is_on_top(key: str) -> bool:
    names = key.split(".")
    return names[0] in NOT_ENCODER or "position_ids" in names


def loadable(folder: Path, trust: Trust) -> AbstractContextManager[Path]:
    """The folder from which transformers loads weights: another one where they are pickled."""
    weights = checkpoint_files(folder, trust)["weights"]
    if all(path.suffix != ".bin" for path in weights):
        return nullcontext(folder)
    from benchharness.models import converted  # noqa: PLC0415  (few checkpoints need it)

    return converted.loadable(folder, trust)


def read_weights(loader: Any, folder: Path, config: Any, trust: Trust) -> tuple[Any, Any]:
    """What a class of transformers makes of a checkpoint's weights, in fp32, and what it says.

    Raises ModelError where they cannot be read.
    """
    with loadable(folder, trust) as place:
        try:
            network, info = loader.from_pretrained(
                place,
                config=config,
                dtype=torch.float32,
                trust_remote_code=trust.remote_code,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, by their names
            )
        except Exception as error:  # whatever a damaged file makes transformers run into
            raise ModelError(
                f"the weights in {shown(folder)} cannot be loaded ({first_line(error)}): copy the "
                "checkpoint again."
            ) from error
    for name, found, expected in sorted(info["mismatched_keys"]):
        raise ModelError(
            f"{name} in {shown(folder)} has the size {' x '.join(map(str, found))}, and its "
            f"config.json says {' x '.join(map(str, expected))}: they do not belong together."
        )
    if is_foreign(network):
        network, info["missing_keys"] = _build_again(network, info["missing_keys"], folder)
    return network, info


# A checkpoint's own code.
#
# transformers builds a network without memory, on the device "meta", and then fills what the
# checkpoint holds. What else `__init__` computes, such as a table of positions, it fills in classes
# of its own alone: in others it is whatever stood in memory, or stays without any.


def _build_again(network: Any, missing: set[str], folder: Path) -> tuple[nn.Module, set[str]]:
    """The network built in memory, with the weights that were loaded, and the names it still lacks.

    ModelError where something in it has no value even so.
    """
    own = type(network)
    loaded = {name: t for name, t in network.state_dict().items() if name not in missing}
    try:
        with torch.random.fork_rng(devices=[]), _unwritten_is_nan():
            built = own._from_config(network.config, dtype=torch.float32)
        built.load_state_dict(loaded, strict=False)  # what is missing is looked at below
    except Exception as error:  # whatever code that is not ours runs into
        raise ModelError(
            f"{own.__name__}, the code in {shown(folder)}, cannot be built in memory "
            f"({first_line(error)}): it has to be made by its config alone."
        ) from error
    for name, tensor in _tensors(built.eval()):
        if name not in loaded and (tensor.is_meta or bool(tensor.isnan().any())):
            raise ModelError(
                f"{own.__name__}, the code in {shown(folder)}, gives {name} no value, and the "
                "checkpoint does not hold it: have __init__ compute it, or save it with the "
                "weights."
            )
    # Weights that __init__ ties are in the checkpoint under one of their names.
    places = {name: tensor.data_ptr() for name, tensor in built.state_dict().items()}
    filled = {place for name, place in places.items() if name in loaded}
    return built, {name for name in missing if places.get(name) not in filled}


@contextmanager
def _unwritten_is_nan() -> Iterator[None]:
    """Memory that is taken and not written is NaN, which torch does where all is deterministic."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")  # "error" would refuse operations too
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


def _tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Weights, buffers and other tensors of all modules, by name, also those in lists and dicts."""
    for prefix, module in network.named_modules():
        yield from _within(vars(module), f"{prefix}." if prefix else "")


def _within(values: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Tensor]]:
    for name, value in values.items():
        if isinstance(value, Tensor):
            yield f"{prefix}{name}", value
        elif isinstance(value, list | tuple):
            yield from _within(dict(enumerate(value)), f"{prefix}{name}.")
        elif isinstance(value, dict):  # torch keeps the first two of a module's own in such ones
            is_own = name in ("_parameters", "_buffers")
            yield from _within(value, prefix if is_own else f"{prefix}{name}.")


def _find_class(config: Any, *, whole: bool = False) -> Any:
    """The class whose weights a checkpoint has: of T5 the encoder, of ModernBERT the head too.

    ModelError where the `whole` of an encoder with a decoder is asked for and there is none.
    """
    if whole:
        if not config.is_encoder_decoder:
            raise ModelError(no_decoder(config.model_type))
        return transformers.AutoModelForSeq2SeqLM
    if config.model_type == "modernbert":
        return transformers.AutoModelForSequenceClassification
    # The names of that mapping are of whole models too; T5's and its kin's are encoders alone.
    name = MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES.get(config.model_type, "")
    if name.endswith("EncoderModel"):
        return transformers.AutoModelForTextEncoding
    if config.is_encoder_decoder:
        raise ModelError(
            f"{config.model_type} is an encoder with a decoder, and transformers does not give its "
            "encoder alone: give --text-to-text, or use an encoder, or a checkpoint of T5."
        )
    return transformers.AutoModel


def _settle(network: Any, config: Any) -> nn.Module:
    """The encoder of a network; ModernBERT's, whose head is pretrained with it, as its pooler."""
    encoder: nn.Module = network
    if config.model_type == "modernbert":
        encoder = network.model
        encoder.pooler = network.head  # dense layer, activation and norm
    fix_attention(encoder)
    return encoder


def fix_attention(network: nn.Module) -> None:
    """Computes DeBERTa v1's attention of every layer in fp32, whatever the precision around it."""
    for module in network.modules():
        if type(module) is DisentangledSelfAttention:
            module.__class__ = _Fp32Attention  # keeps weights and names as they are


# DeBERTa v1's attention in fp32: transformers' code for it cannot be computed in bf16.
#
# It fills the places of padding with the lowest number of the queries' type, which autocast leaves
# fp32, in scores that autocast makes bf16, where that number does not exist. Version 2 is another
# code without the fault.


class _Fp32Attention(DisentangledSelfAttention):
    def forward(self, hidden_states: Tensor, *args: Any, **options: Any) -> Any:
        with torch.autocast(hidden_states.device.type, enabled=False):
            return super().forward(hidden_states.float(), *args, **options)
