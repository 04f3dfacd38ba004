"""Load an encoder and its tokenizer from any checkpoint, and access the encoder's layers."""

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

import benchharness.encoder.imports  # noqa: F401  (must precede the code of networks)
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
from benchharness.errors import ModelError
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
from benchharness.tiny import folder as tiny_folder

BUILTIN_FOLDERS = {"builtin:tiny": tiny_folder}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A loaded encoder with its tokenizer and config.

    Attributes:
        network: Module with fp32 weights and the inputs of transformers' encoders: `input_ids`,
            `attention_mask` and, if the family has them, `token_type_ids`, all `[batch, tokens]`.
            The first element of its output contains the hidden states
            `[batch, tokens, hidden_size]`.
            Its attribute `pooler` holds the pretrained layers on top of the encoder, if the family
            has such layers. If the encoder was loaded with `whole`, the network is transformers'
            encoder-decoder for conditional generation.
        tokenizer: Tokenizer of the checkpoint.
        config: Config of the network.
        family: transformers' model_type.
        max_tokens: Maximum number of tokens per row, including special tokens; 10**9 (NO_LIMIT) if
            the checkpoint's files specify no maximum.
        is_causal: True for a decoder-only network, in which a token attends only to itself and to
            earlier tokens.
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
    """Load the encoder of a checkpoint, with its tokenizer and config.

    Args:
        checkpoint: "builtin:tiny", an absolute folder, or a hub id.
        revision: Commit of the hub repository; not used for a folder or a built-in encoder.
        seed: Seed for the weights that the checkpoint lacks: all weights of a built-in encoder, or
            a missing pooler. None for a folder that was saved by a run: this function then loads no
            weights, and its caller has to load them afterwards.
        trust: Permissions that the user grants to the checkpoint.
        whole: Whether to load the decoder too, which then generates the answers of tasks as text.

    Raises:
        ModelError: The checkpoint is missing, unreadable or incomplete, has NaN or infinite
            weights, has a tokenizer with more tokens than the encoder has embeddings, lacks a
            decoder although `whole` is true, or needs a permission that `trust` does not grant.
    """
    if seed is not None:
        torch.manual_seed(seed)  # for weights that the checkpoint lacks, and later for the head
    folder = find_folder(checkpoint, revision, trust)
    config = load_config(folder, trust)
    tokenizer = load_tokenizer(folder, config, trust, checkpoint, was_kept=seed is None)
    # A network of an unknown family is tested in a forward pass, so its weights are initialized.
    is_empty = seed is None and not is_unchecked(read_config(folder / "config.json"))
    with no_init_weights() if is_empty else nullcontext():
        network: Any = (
            draw_network(config, whole=whole)
            if seed is None or checkpoint in BUILTIN_FOLDERS
            else load_network(folder, config, checkpoint, trust, whole=whole)
        )
    if not isinstance(getattr(config, "hidden_size", None), int):
        raise ModelError(
            f"the config of {called(checkpoint)} has no hidden_size, which is the size of the "
            "encoder's output states: add it to config.json, or to the attribute_map of the class "
            "of the config."
        )
    if is_foreign(network):
        _take_as_it_is(network, tokenizer)
    # An encoder with a decoder is not causal, and padding does not change its states.
    reading = Reading(is_causal=False, sees_padding=False)
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
    """Return whether a network is causal, and whether padding changes its states.

    For checked families both properties are known; for all others, `try_out` tests the network.
    """
    said = read_config(folder / "config.json")
    if is_unchecked(said):
        return try_out(network, config, checkpoint)
    return Reading(is_causal=is_causal(said), sees_padding=config.model_type in SEES_PADDING)


def _count_rows(network: Any, config: Any) -> int | None:
    """Return the number of a network's token embeddings, or None if it is unknown."""
    try:
        rows = network.get_input_embeddings().num_embeddings
    except (NotImplementedError, AttributeError):  # custom code may lack this method
        rows = getattr(config, "vocab_size", None)
    return rows if isinstance(rows, int) else None


def _take_as_it_is(network: nn.Module, tokenizer: Any) -> None:
    """Adapt a network with custom code to the conventions of other networks.

    The tokenizer returns token types only if the network accepts them, and a bare tensor that the
    network returns is wrapped in a tuple.
    """
    if not takes_input(network, TYPES):
        tokenizer.model_input_names = [n for n in tokenizer.model_input_names if n != TYPES]
    network.register_forward_hook(
        lambda _network, _inputs, output: (output,) if isinstance(output, Tensor) else output
    )


def find_folder(checkpoint: str, revision: str | None, trust: Trust) -> Path:
    """Download a checkpoint if necessary, check that it is complete, and return its folder.

    As a side effect, transformers logs only errors and shows no progress bars from now on, because
    benchharness itself reports every problem that transformers would warn about while loading.

    Args:
        checkpoint: "builtin:tiny", an absolute folder, or a hub id. Everything except the first two
            is a hub id, even if the current folder contains a folder with this name.
        revision: Commit of the hub repository; not used for a folder or a built-in encoder.
        trust: Permissions that the user grants to the checkpoint.

    Raises:
        ModelError: The checkpoint cannot be downloaded, is incomplete, or needs a permission that
            `trust` does not grant.
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
    """Download a hub checkpoint with everything that a run needs, and return its folder.

    The config and the tokenizer are loaded once as a check, and pickled weights are converted.

    Args:
        checkpoint: Hub id.
        revision: Commit of the hub repository.
        trust: Permissions that the user grants to the checkpoint.

    Raises:
        ModelError: As in `load_encoder`, except for problems that only appear when the weights are
            loaded.
    """
    folder = find_folder(checkpoint, revision, trust)
    config = load_config(folder, trust)
    tokenizer = load_tokenizer(folder, config, trust, checkpoint)
    # A decoder is not checked: when it is loaded, it gets embeddings for all tokens of its
    # tokenizer.
    if not is_causal(read_config(folder / "config.json")):
        check_tokens(called(checkpoint), len(tokenizer), getattr(config, "vocab_size", None))
    with loadable(folder, trust):
        return folder


def check_reach(max_tokens: int, reach: int) -> None:
    """Raise ModelError if rows of a job are longer than the rows that its encoder can read.

    Args:
        max_tokens: Maximum number of tokens per row in the job.
        reach: Maximum number of tokens per row that the encoder can read.
    """
    if max_tokens > reach:
        raise ModelError(
            f"this checkpoint reads at most {reach} tokens, but the job has max_tokens="
            f"{max_tokens}: pass --set max_tokens={reach}."
        )


# Special tokens for classification, which the tokenizer of a decoder may lack.

START, DELIMITER, CLASSIFY = "_start_", "_delimiter_", "_classify_"
"""Special tokens at the start of a row, between its two texts and at its end. They are added to
GPT's vocabulary, as in train.py of openai/finetune-transformer-lm."""


def _mark_texts(tokenizer: Any, network: Any, config: Any) -> None:
    """Make a decoder's tokenizer add a token between two texts, and one at the end of each row.

    The head reads the last token. Special tokens that the tokenizer already adds are kept.
    If it adds no separator or no end token, its separator or end-of-text token is used, or a new
    delimiter if it has neither. GPT gets three new tokens, a start, a delimiter and an end, as in
    Radford et al. 2018, section 3.3. Embeddings of new tokens are initialized at random.
    """
    if not tokenizer.is_fast or tokenizer.cls_token == CLASSIFY:
        return  # a checkpoint that was saved by a run already has these tokens
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
        # New embeddings are drawn from the initial distribution, as in GPT's paper. transformers'
        # default would draw them around the mean of all embeddings.
        network.resize_token_embeddings(tokens, mean_resizing=False)
        config.vocab_size = tokens  # the network's own copy of the config was already updated


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
    """Make a fast tokenizer put these special tokens before, between and after texts."""
    marks = dict.fromkeys([*before, *between, *after])
    template = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *between, "$B", *after],
        special_tokens=[(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in marks],
    )
    # The byte-level BPE step, which excludes a token's leading space from its offsets, must be kept
    # as the first step.
    own = tokenizer.backend_tokenizer.post_processor
    parts: Any = own if isinstance(own, processors.Sequence) else [own]
    kept = [part for part in parts if isinstance(part, processors.ByteLevel)]
    tokenizer.backend_tokenizer.post_processor = processors.Sequence([*kept, template])


# Dropout rates that replace the checkpoint's: some papers fine-tune without dropout.

NUMBERS = ("dropout", "attention_dropout")
"""Names of attributes in which modules of transformers store a dropout rate as a number, instead of
using an nn.Dropout."""

CLASSIFIER_RATES = (
    "classifier_dropout",
    "classifier_dropout_prob",
    "cls_dropout",
    "qa_dropout",
    "seq_classif_dropout",
    "summary_last_dropout",
)
"""Names that configs of transformers give to the dropout rate right before the output layer."""


def set_dropout(encoder: Encoder, rate: float | None, classifier_rate: float | None) -> None:
    """Set the dropout rates of an encoder and of the head that will be created for it.

    This must be called before the head is created, because the head reads its rate from the
    encoder's config.

    Args:
        encoder: Encoder to change in place.
        rate: Dropout rate of all modules of the encoder, including attention; None for the rates of
            the checkpoint's config.
        classifier_rate: Dropout rate before the output layer of the head; None for the rate of the
            checkpoint's config.
    """
    modules: Iterator[Any] = encoder.network.modules()
    if rate is not None:
        for module in modules:
            if isinstance(module, nn.Dropout):  # FastDropout will copy this rate
                module.p = rate
            for name in NUMBERS:
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, rate)
    if classifier_rate is not None:
        for name in CLASSIFIER_RATES:
            setattr(encoder.config, name, classifier_rate)  # each family reads one of these names


# Splitting an encoder into embeddings and layers, for code that treats its layers differently.


ON_TOP = {"pooler", "ln", "ln_f", "norm", "final_norm", "final_layer_norm"}
"""Names of modules after the last layer: the pooler, and the final norms of MegatronBERT, GPT-2,
EuroBERT, ModernBERT and T5."""


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The embeddings and the layers of an encoder, for code that treats them differently.

    Modules after the last layer (see ON_TOP) are in neither of the two fields, because they are
    treated as a part of the head.

    Attributes:
        embeddings: Modules below the first layer, and modules that all layers share, such as
            relative positions.
        layers: Layers from bottom to top. A layer that is applied several times, as in ALBERT, is
            listed once.
    """

    embeddings: tuple[nn.Module, ...]
    layers: tuple[nn.Module, ...]


def layers_of(network: nn.Module) -> Layers:
    """Return the embeddings and layers of a network.

    The network must have its layers in a ModuleList, as every family of transformers does.
    """
    parts = list(_parts(network))
    # Each module is keyed by its weights, because T5 registers its embeddings as two modules with
    # the same weights, and calls only the second module.
    below = {tuple(map(id, part.parameters())): part for part, is_layer in parts if not is_layer}
    return Layers(
        embeddings=tuple(below.values()),
        layers=tuple(part for part, is_layer in parts if is_layer),
    )


def _parts(module: nn.Module) -> Iterator[tuple[nn.Module, bool]]:
    """Yield the parts of a module in order, each with a flag that is true for a layer."""
    # Every family keeps its layers in a ModuleList, at the top or nested. Funnel has one ModuleList
    # for each of its blocks.
    are_layers = isinstance(module, nn.ModuleList)
    for name, child in module.named_children():
        if are_layers and not isinstance(child, nn.ModuleList):
            yield child, True
        elif any(isinstance(inner, nn.ModuleList) for inner in child.modules()):
            yield from _parts(child)
        elif name not in ON_TOP and any(True for _ in child.parameters()):
            yield child, False  # embeddings, or a module that all layers share


# Removal of some of an encoder's layers.

CUT = frozenset({"distilbert"})
"""Families (transformers' model_type) from which layers can be removed, in addition to FAMILIES
below."""


def keep_layers(encoder: Encoder, wanted: int | str) -> None:
    """Remove some layers of a loaded encoder.

    Args:
        encoder: Encoder to change in place.
        wanted: Number of layers to keep, which are spread evenly from the first to the last; or the
            numbers of the layers to keep, from 0, as in "0+2+4". With 0, all layers are kept.

    Raises:
        ModelError: The encoder has too few layers, or layers of its family cannot be removed.
    """
    if not wanted:
        return
    family, network = encoder.family, encoder.network
    if family not in FAMILIES | CUT or is_foreign(network):
        raise ModelError(
            f"the setting 'layers' works only for the families "
            f"{', '.join(sorted(FAMILIES | CUT))}, but this model belongs to the family {family}: "
            "omit this setting."
        )
    layers = layers_of(network).layers
    kept = kept_layers(wanted, len(layers))
    # Every supported family keeps its layers in one list, but the name of the list differs.
    name = next(n for n, part in network.named_modules() if list(part.children()) == [*layers])
    parent, _, own = name.rpartition(".")
    setattr(network.get_submodule(parent), own, nn.ModuleList(layers[i] for i in kept))
    encoder.config.num_hidden_layers = len(kept)  # DistilBERT maps this name to n_layers


# Computing the last layer at the first token only, for heads that read no other state.
#
# The last layer's keys and values come from all tokens; its queries, output and feed-forward part
# are computed once per row. For an encoder with six layers this saves nearly a sixth of the work.

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
"""Families (transformers' model_type) whose last layer can be computed at the first token only.
Their layers add the residual after attention in a separate module, `attention.output`, and no
operation after this module mixes tokens."""


def use_first_token(network: Any) -> None:
    """Make an encoder's last layer return only the state of each row's first token.

    The encoder then returns states `[batch, 1, size]`, which is enough for heads that read no other
    state. All other layers still compute the states of all tokens. Encoders with a single layer,
    encoders of families that are not in FAMILIES, and encoders whose code comes with the checkpoint
    are left unchanged.
    """
    if network.config.model_type not in FAMILIES or is_foreign(network):
        return
    layers = layers_of(network).layers
    # An encoder with a single layer is left unchanged: in DeBERTa-v2, a convolution over all tokens
    # follows the first layer.
    if len(layers) < 2:
        return
    attention = layers[-1].get_submodule("attention")
    # The inputs of this module are the attention output and the residual. The hook reduces both to
    # the first token, so everything after them is computed for the first token only.
    attention.get_submodule("output").register_forward_pre_hook(_narrow)
    setattr(attention.get_submodule("self"), NARROWED, True)


def _narrow(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Select the states of first tokens from a packed row or a padded batch.

    A packed row `[1, tokens, size]` becomes `[1, batch, size]`, and a padded batch
    `[batch, tokens, size]` becomes `[batch, 1, size]`.
    """
    packing = PACKING.get()
    # In a packed row, select the first token of each sequence; in a padded batch, token 0 of each
    # row.
    first = inputs[0].new_zeros(1, dtype=torch.long) if packing is None else packing.firsts
    return tuple(states.index_select(1, first) for states in inputs)
