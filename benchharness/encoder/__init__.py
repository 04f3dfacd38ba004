"""A network with its tokenizer, from wherever a checkpoint is, and the layers it is made of."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import processors
from torch import Tensor, nn
from transformers.initialization import no_init_weights
from transformers.utils import logging

import benchharness.encoder.imports  # noqa: F401  (before any network's code)
from benchharness.encoder.network import (
    draw_network,
    is_foreign,
    load_config,
    load_network,
    loadable,
    takes_input,
)
from benchharness.encoder.packing import NARROWED, PACKING
from benchharness.encoder.padding import SEES_PADDING, Reading, compute_by_length, try_out
from benchharness.encoder.tokenizer import TYPES, load_tokenizer
from benchharness.leaderboard.job import Trust
from benchharness.models.families import is_causal, is_unchecked
from benchharness.models.folder import (
    GPT,
    NO_LIMIT,
    check_tokens,
    checkpoint_files,
    longest_row,
    read_config,
)
from benchharness.models.spec import NOTHING, called
from benchharness.models.weights import download, fetch_code
from benchharness.recipes.recipe import kept_layers
from benchharness.tasks.errors import ModelError
from benchharness.tiny import folder as tiny_folder

BUILTIN_FOLDERS = {"builtin:tiny": tiny_folder}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A loaded encoder.

    `network` maps input ids, mask and token types to hidden states (rows, tokens, size) in fp32;
    layers that a family has pretrained above them are its `pooler`. Loaded whole, it is an encoder
    with a decoder, as transformers' class for conditional generation has them. `family` is
    transformers' model_type; `max_tokens` counts the special tokens. `is_causal` is true of a
    decoder alone, whose states have seen only what precedes them.
    """

    network: nn.Module
    tokenizer: Any
    config: Any
    family: str
    max_tokens: int
    is_causal: bool = False


def load_encoder(
    checkpoint: str,
    revision: str | None,
    seed: int | None,
    trust: Trust = NOTHING,
    *,
    whole: bool = False,
) -> Encoder:
    """The encoder of a checkpoint: "builtin:tiny", an absolute folder, or a hub id at a revision.

    `whole` asks for its decoder too. Weights that the checkpoint does not have (all of a built-in
    one's, a missing pooler) are drawn from the seed. Without a seed none are loaded: the folder is
    what a run has left, and whoever asks loads them. Raises ModelError where the checkpoint is
    absent, unreadable, incomplete, not finite, or needs more trust than it has.
    """
    if seed is not None:
        torch.manual_seed(seed)  # for weights that the checkpoint lacks, and then for the head's
    folder = find_folder(checkpoint, revision, trust)
    config = load_config(folder, trust)
    tokenizer = load_tokenizer(folder, config, trust, checkpoint, was_kept=seed is None)
    # What nobody has checked is tried on the weights that are drawn.
    is_empty = seed is None and not is_unchecked(read_config(folder / "config.json"))
    with no_init_weights() if is_empty else nullcontext():
        network: Any = (
            draw_network(config, whole=whole)
            if seed is None or checkpoint in BUILTIN_FOLDERS
            else load_network(folder, config, checkpoint, trust, whole=whole)
        )
    if not isinstance(getattr(config, "hidden_size", None), int):
        raise ModelError(
            f"the config of {called(checkpoint)} has no hidden_size, the width of what the encoder "
            "gives a head: add it to config.json, or to the attribute_map of its code."
        )
    if is_foreign(network):
        _take_as_it_is(network, tokenizer)
    reading = Reading(is_causal=False, sees_padding=False)  # as one with its decoder
    if not whole:
        reading = _how_it_reads(network, config, folder, called(checkpoint))
    if reading.sees_padding:
        compute_by_length(network)
    if reading.is_causal:
        _mark_texts(tokenizer, network, config)
    check_tokens(called(checkpoint), len(tokenizer), _count_rows(network, config))
    return Encoder(
        network=network,
        tokenizer=tokenizer,
        config=config,
        family=config.model_type,
        max_tokens=longest_row(folder) or NO_LIMIT,
        is_causal=reading.is_causal,
    )


def _how_it_reads(network: Any, config: Any, folder: Path, checkpoint: str) -> Reading:
    """Return how a network reads a row: by its family, or as a trial of it shows."""
    said = read_config(folder / "config.json")
    if is_unchecked(said):
        return try_out(network, config, checkpoint)
    return Reading(is_causal=is_causal(said), sees_padding=config.model_type in SEES_PADDING)


def _count_rows(network: Any, config: Any) -> int | None:
    """How many tokens a network knows; None where neither it nor its config says so."""
    try:
        rows = network.get_input_embeddings().num_embeddings
    except (NotImplementedError, AttributeError):  # code of the checkpoint's own without it
        rows = getattr(config, "vocab_size", None)
    return rows if isinstance(rows, int) else None


def _take_as_it_is(network: nn.Module, tokenizer: Any) -> None:
    """Give a checkpoint's own code the inputs that it names, and take a bare tensor from it."""
    if not takes_input(network, TYPES):
        tokenizer.model_input_names = [n for n in tokenizer.model_input_names if n != TYPES]
    network.register_forward_hook(
        lambda _network, _inputs, output: (output,) if isinstance(output, Tensor) else output
    )


def find_folder(checkpoint: str, revision: str | None, trust: Trust) -> Path:
    """The whole folder of a checkpoint; a hub id is never looked up in the current folder.

    transformers says nothing of what is loaded from here on: what it warns of is refused or known.
    """
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if checkpoint in BUILTIN_FOLDERS:
        return BUILTIN_FOLDERS[checkpoint]()
    folder = Path(checkpoint)
    if not folder.is_absolute():
        folder = download(checkpoint, revision, trust)
    checkpoint_files(folder, trust)
    fetch_code(folder, trust)
    return folder


def prepare_checkpoint(checkpoint: str, revision: str, trust: Trust = NOTHING) -> Path:
    """The folder of a checkpoint of the hub, once all is there that a run of it needs.

    Its config and its tokenizer have been loaded then, and its weights are as they will be read.
    Raises ModelError as `load_encoder` does, but for what only reading the weights can tell.
    """
    folder = find_folder(checkpoint, revision, trust)
    config = load_config(folder, trust)
    tokenizer = load_tokenizer(folder, config, trust, checkpoint)
    if not is_causal(read_config(folder / "config.json")):  # a decoder gets what it lacks
        check_tokens(called(checkpoint), len(tokenizer), getattr(config, "vocab_size", None))
    with loadable(folder, trust):
        return folder


def check_reach(max_tokens: int, reach: int) -> None:
    """Raises ModelError where a job was planned with longer rows than its checkpoint reads."""
    if max_tokens > reach:
        raise ModelError(
            f"this checkpoint reads at most {reach} tokens, and the job has max_tokens="
            f"{max_tokens}: --set max_tokens={reach}."
        )


# The tokens that GPT's tokenizer lacks.

START, DELIMITER, CLASSIFY = "_start_", "_delimiter_", "_classify_"
"""The tokens that openai/finetune-transformer-lm, train.py, adds to GPT's vocabulary."""


def _mark_texts(tokenizer: Any, network: Any, config: Any) -> None:
    """Have a decoder's tokenizer put a token between two texts, and one at the end of a row.

    Texts are classified at the last token. What the tokenizer puts around texts by itself stays;
    what is missing is its separator, or its end of a text. GPT gets tokens of its own, as Radford
    et al. 2018, section 3.3, have them: a start, a delimiter and an end. Their embeddings start
    from random numbers, as the separator of a tokenizer that has neither token.
    """
    if not tokenizer.is_fast or tokenizer.cls_token == CLASSIFY:
        return  # a checkpoint that a run has left has them
    if config.model_type in GPT:
        tokenizer.add_special_tokens(
            {"bos_token": START, "sep_token": DELIMITER, "cls_token": CLASSIFY}
        )
        _put_around(tokenizer, [START], [DELIMITER], [CLASSIFY])
    else:
        end = tokenizer.sep_token or tokenizer.eos_token
        if end is None:
            end = DELIMITER
            tokenizer.add_special_tokens({"sep_token": end})
        before, between, after = _around(tokenizer)
        if not between or not after:
            _put_around(tokenizer, before, between or [end], after or [end])
    tokens = len(tokenizer)
    embeddings: nn.Embedding = network.get_input_embeddings()
    if tokens > embeddings.num_embeddings:
        # From the initial distribution, as in GPT's paper, not from the mean of all embeddings.
        network.resize_token_embeddings(tokens, mean_resizing=False)
        config.vocab_size = tokens  # the network has a copy


def _around(tokenizer: Any) -> tuple[list[str], list[str], list[str]]:
    """Return the special tokens that a tokenizer puts before, between and after two texts."""
    found = tokenizer("a", "a", return_special_tokens_mask=True)
    tokens = tokenizer.convert_ids_to_tokens(found["input_ids"])
    is_special = found["special_tokens_mask"]
    first, last = is_special.index(0), len(tokens) - 1 - is_special[::-1].index(0)
    inner = zip(tokens[first:last], is_special[first:last], strict=True)
    return tokens[:first], [token for token, special in inner if special], tokens[last + 1 :]


def _put_around(
    tokenizer: Any, before: Sequence[str], between: Sequence[str], after: Sequence[str]
) -> None:
    """Have a fast tokenizer put these special tokens before, between and after texts."""
    marks = dict.fromkeys([*before, *between, *after])
    template = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *between, "$B", *after],
        special_tokens=[(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in marks],
    )
    # Byte-level BPE makes offsets leave out the space that begins a token: it still runs, first.
    own = tokenizer.backend_tokenizer.post_processor
    parts: Any = own if isinstance(own, processors.Sequence) else [own]
    kept = [part for part in parts if isinstance(part, processors.ByteLevel)]
    tokenizer.backend_tokenizer.post_processor = processors.Sequence([*kept, template])


# Dropout other than the checkpoint's own: some papers fine-tune without it.

NUMBERS = ("dropout", "attention_dropout")
"""How modules of transformers call a rate that they keep as a number instead of as a layer."""

CLASSIFIER_RATES = (
    "classifier_dropout",
    "classifier_dropout_prob",
    "cls_dropout",
    "qa_dropout",
    "seq_classif_dropout",
    "summary_last_dropout",
)
"""How configs of transformers call the rate right before the output layer."""


def set_dropout(encoder: Encoder, rate: float | None, classifier_rate: float | None) -> None:
    """Gives an encoder, and the head that is made for it, these rates; None leaves its own.

    To be called before the head is made, which reads its rate from the config.
    """
    modules: Iterator[Any] = encoder.network.modules()
    if rate is not None:
        for module in modules:
            if isinstance(module, nn.Dropout):  # FastDropout takes its rate from here later
                module.p = rate
            for name in NUMBERS:
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, rate)
    if classifier_rate is not None:
        for name in CLASSIFIER_RATES:
            setattr(encoder.config, name, classifier_rate)  # a family reads one of them


# What an encoder is made of from the bottom up, for whatever treats its layers differently.


ON_TOP = {"pooler", "ln", "ln_f", "norm", "final_norm", "final_layer_norm"}
"""Names of what comes after the last layer: MegatronBERT, GPT-2, EuroBERT, ModernBERT and T5 end in
a norm."""


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The parts of an encoder: what stands below the first layer, and the layers in their order.

    `embeddings` have all that the layers share too, such as relative positions. A layer that is
    passed several times (ALBERT's) stands here once. What comes after the last layer is in neither:
    it belongs with the head.
    """

    embeddings: tuple[nn.Module, ...]
    layers: tuple[nn.Module, ...]


def layers_of(network: nn.Module) -> Layers:
    """The parts of an encoder's network, that of any family which lists its layers."""
    parts = list(_parts(network))
    # By their weights: T5 has its embeddings twice, and only the second ones are called.
    below = {tuple(map(id, part.parameters())): part for part, is_layer in parts if not is_layer}
    return Layers(
        embeddings=tuple(below.values()),
        layers=tuple(part for part, is_layer in parts if is_layer),
    )


def _parts(module: nn.Module) -> Iterator[tuple[nn.Module, bool]]:
    """The parts in their order, each with whether it is a layer."""
    # Every family keeps its layers in a ModuleList, at its top or further inside. Funnel's has one
    # for each of its blocks.
    are_layers = isinstance(module, nn.ModuleList)
    for name, child in module.named_children():
        if are_layers and not isinstance(child, nn.ModuleList):
            yield child, True
        elif any(isinstance(inner, nn.ModuleList) for inner in child.modules()):
            yield from _parts(child)
        elif name not in ON_TOP and any(True for _ in child.parameters()):
            yield child, False  # embeddings, and what all layers share


# An encoder of some of its layers.

CUT = frozenset({"distilbert"})
"""Families beside FAMILIES, below, of which some of the layers are an encoder too."""


def keep_layers(encoder: Encoder, wanted: int | str) -> None:
    """Takes all layers but some out of a loaded encoder; 0 keeps all.

    `wanted` is as `kept_layers` takes it. Raises ModelError as that does, and for a family whose
    layers do not stand for themselves.
    """
    if not wanted:
        return
    family, network = encoder.family, encoder.network
    if family not in FAMILIES | CUT or is_foreign(network):
        raise ModelError(
            f"layers can be left out of {', '.join(sorted(FAMILIES | CUT))}, and this model is "
            f"{family}: leave layers out."
        )
    layers = layers_of(network).layers
    kept = kept_layers(wanted, len(layers))
    # convbert, deberta and the others keep them in one list, wherever it is.
    name = next(n for n, part in network.named_modules() if list(part.children()) == [*layers])
    parent, _, own = name.rpartition(".")
    setattr(network.get_submodule(parent), own, nn.ModuleList(layers[i] for i in kept))
    encoder.config.num_hidden_layers = len(kept)  # DistilBERT's n_layers by another name


# The last layer of an encoder at the first token alone, where a head reads no other state.
#
# Its keys and values come from all tokens; its queries, its output and its feed-forward part are
# computed once a row: a sixth of the work of an encoder of six layers is nearly saved.

FAMILIES = frozenset(
    {
        "bert",
        "camembert",
        "convbert",
        "deberta",
        "deberta-v2",
        "electra",
        "ernie",
        "megatron-bert",
        "roberta",
        "xlm-roberta",
    }
)
"""Families (transformers' model_type) whose layers add the residual behind attention in a module of
its own, `attention.output`, and whose tokens meet nowhere after it."""


def use_first_token(network: Any) -> None:
    """Has the last layer give first tokens' states alone, (rows, 1, size), if its family allows.

    For heads that read nothing else. All other layers' states are of all tokens, as before.
    """
    if network.config.model_type not in FAMILIES or is_foreign(network):
        return
    layers = layers_of(network).layers
    # DeBERTa-v2's first layer is followed by a convolution over all tokens.
    if len(layers) < 2:
        return
    attention = layers[-1].get_submodule("attention")
    # Its inputs are attention's output and the residual: both are narrowed, and so all after it is.
    attention.get_submodule("output").register_forward_pre_hook(_narrow)
    setattr(attention.get_submodule("self"), NARROWED, True)


def _narrow(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The first tokens' states, of (rows, tokens, size) or of packed (1, tokens, size)."""
    packing = PACKING.get()
    # (1, tokens, size) -> (1, rows, size) of a packed row; (rows, tokens, size) -> (rows, 1, size)
    first = inputs[0].new_zeros(1, dtype=torch.long) if packing is None else packing.firsts
    return tuple(states.index_select(1, first) for states in inputs)
