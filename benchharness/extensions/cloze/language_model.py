"""Load a checkpoint with its pretraining head, and compute log-probabilities of tokens.

A masked language model predicts a token from all other tokens, a causal one from the tokens before
it. The head is a product with the whole vocabulary, so it is computed only at the positions that
are scored. A hook on the encoder selects the states at these positions before transformers' network
applies its head, so no family needs special code here.

A masked language model is read at one position of a text. For families whose last layer can be
computed at the first token alone, the token at that position is moved to the front. Each token
keeps its position id, so attention computes the same.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from benchharness.encoder import BUILTIN_FOLDERS, find_folder, use_first_token
from benchharness.encoder.network import fix_attention, load_config, read_weights
from benchharness.encoder.packing import NARROWED, PACKABLE, Packing, is_packed, use_packed_rows
from benchharness.encoder.tokenizer import TYPES, load_tokenizer
from benchharness.errors import ModelError
from benchharness.leaderboard.job import Trust
from benchharness.models.families import is_causal
from benchharness.models.folder import NO_LIMIT, longest_row, read_config
from benchharness.models.spec import NOTHING, called


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Input of a language model: a text, and the tokens that are scored at some of its positions.

    Attributes:
        token_ids: Tokens of the whole text.
        types: Token types (segment ids) of the whole text; None if the model has none.
        places: Distinct positions at which the language-model head is computed. For a masked model
            this is one position, which holds the mask token. At each position, a causal model
            predicts the token that follows it.
        asked: Pairs (index in `places`, id of a token that is scored there).
    """

    token_ids: tuple[int, ...]
    types: tuple[int, ...] | None
    places: tuple[int, ...]
    asked: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """A loaded language model with its tokenizer.

    Attributes:
        network: Network of transformers with its pretraining head, in fp32 and evaluation mode.
        tokenizer: Tokenizer of transformers.
        is_causal: True for a causal model, False for a masked language model.
        max_tokens: Maximum length of a text in tokens, including special tokens; NO_LIMIT if the
            model has no limit.
    """

    network: Any
    tokenizer: Any
    is_causal: bool
    max_tokens: int

    @property
    def packs(self) -> bool:
        """True if a batch may contain texts of different lengths."""
        return is_packed(self.network)

    def prepare(self, device: torch.device) -> None:
        """Prepare the network for `log_probabilities`; call this once.

        The network is moved to `device`. Hooks are added that select the fastest attention, and the
        positions at which the head is computed.
        """
        self.network.to(device)
        encoder = self.network.base_model
        # This hook must be registered before the hooks of packing, because they use the packing
        # that it passes.
        encoder.register_forward_pre_hook(_give_packing, with_kwargs=True)
        use_packed_rows(encoder, device.type)
        # A causal model is scored at several positions, so its last layer must compute them all.
        takes_positions = encoder.config.model_type in PACKABLE
        if self.packs and takes_positions and not self.is_causal:
            use_first_token(encoder)
        encoder.register_forward_hook(_take_places)

    def log_probabilities(self, readings: Sequence[Reading]) -> Tensor:
        """Return the log-probabilities of the tokens that are scored in a batch of inputs.

        Args:
            readings: Inputs of the batch. They must have the same length unless `packs` is true. A
                masked language model needs exactly one position in the `places` of each.

        Returns:
            One value per pair in the `asked` of the first reading, then of the second one etc.,
            `[tokens]`, in the dtype of the weights.
        """
        device = (weight := next(self.network.parameters())).device
        lengths = np.array([len(reading) for reading in readings])  # (readings,)
        width = int(lengths.max())
        is_first = any(getattr(m, NARROWED, False) for m in self.network.modules())
        ids = np.full((len(readings), width), self.tokenizer.pad_token_id or 0)  # (readings, width)
        types = np.zeros_like(ids)
        positions, places, asked = [], list[int](), list[tuple[int, int]]()
        for row, reading in enumerate(readings):
            order = np.arange(len(reading))  # for each token of the row, its position in the text
            if is_first:
                (place,) = reading.places  # a masked language model is read at one position
                order = np.concatenate([[place], np.delete(order, place)])
            ids[row, : len(order)] = np.array(reading.token_ids)[order]
            if reading.types is not None:
                types[row, : len(order)] = np.array(reading.types)[order]
            positions.append(order)
            asked += [(len(places) + which, token) for which, token in reading.asked]
            # Index of each position in the states of the batch, whose first two axes are flattened.
            # Their shape is (rows, 1, size) if only the first token is computed, else
            # (rows, width, size).
            places += [row] if is_first else [row * width + place for place in reading.places]
        inputs = {"input_ids": ids, "attention_mask": (np.arange(width) < lengths[:, None]) * 1}
        if readings[0].types is not None:
            inputs[TYPES] = types
        tensors = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}
        packing = None
        if self.packs:
            packing = replace(
                Packing.of_lengths(lengths, width, device),
                # Each token keeps the position id that it had before the mask was moved.
                positions=torch.from_numpy(np.concatenate(positions)).to(device),
            )
        told = _AT.set(_At(torch.tensor(places, device=device), packing))
        try:
            logits = self.network(**tensors).logits[0].to(weight.dtype)  # (places, vocabulary)
        finally:
            _AT.reset(told)
        which, token = torch.tensor(asked, device=device).T  # (asked,) each
        found: Tensor = logits[which, token] - logits.logsumexp(1)[which]  # (asked,)
        return found


# The hooks read the positions at which the head is computed from a context variable, because the
# networks of transformers do not pass unknown arguments on to their encoder.


@dataclass(frozen=True)
class _At:
    places: Tensor
    packing: Packing | None


_AT: ContextVar[_At | None] = ContextVar("_AT", default=None)


def _give_packing(_: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> Any:
    at = _AT.get()
    if at is None or at.packing is None:
        return args, inputs
    # The networks of some families pass the token ids as a positional argument.
    named = {"input_ids": args[0]} if args else {}
    return args[1:], {**named, **inputs, "packing": at.packing}


def _take_places(_: nn.Module, _inputs: Any, output: Any) -> Any:
    """Select the states at the positions to score: `[rows, width, size]` to `[1, places, size]`."""
    at = _AT.get()
    if at is None or output is None:
        return output
    output["last_hidden_state"] = output[0].flatten(0, 1)[at.places][None]  # (1, places, size)
    return output


# Loading a language model.


def load_language_model(
    checkpoint: str, revision: str | None, seed: int, trust: Trust = NOTHING
) -> LanguageModel:
    """Load a checkpoint as a language model.

    Args:
        checkpoint: "builtin:NAME", an absolute folder, or a hub id.
        revision: Commit of the hub repository; None for other checkpoints.
        seed: Seed for the weights of a built-in checkpoint, which are random.
        trust: What the user allows the checkpoint to do (run its own code, use pickle files).

    Raises:
        ModelError: The checkpoint is missing or unreadable, has NaN or infinite weights, belongs to
            a family without a language-model head, was saved without that head, or has no suitable
            tokenizer.
    """
    folder = find_folder(checkpoint, revision, trust)
    config = load_config(folder, trust)
    reads_forward = is_causal(read_config(folder / "config.json"))
    loader = _find_class(config, checkpoint, is_causal=reads_forward)
    tokenizer = load_tokenizer(folder, config, trust, checkpoint)
    if not reads_forward and tokenizer.mask_token_id is None:
        raise ModelError(
            f"the tokenizer of {called(checkpoint)} has no mask token, which a masked language "
            "model needs: add mask_token to its tokenizer_config.json."
        )
    if not tokenizer.is_fast:
        raise ModelError(
            f"the tokenizer of {called(checkpoint)} does not return the positions of tokens in a "
            "text: scoring without training needs a fast tokenizer (tokenizer.json)."
        )
    if checkpoint in BUILTIN_FOLDERS:
        torch.manual_seed(seed)  # seeds the random weights that are initialized next
        network = loader.from_config(config, dtype=torch.float32)
    else:
        network = _load(loader, folder, config, checkpoint, trust)
    fix_attention(network)
    return LanguageModel(
        network=network.eval(),
        tokenizer=tokenizer,
        is_causal=reads_forward,
        max_tokens=longest_row(folder) or NO_LIMIT,
    )


def _find_class(config: Any, checkpoint: str, *, is_causal: bool) -> Any:
    family = config.model_type
    if is_causal:
        return transformers.AutoModelForCausalLM
    if family in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not config.is_encoder_decoder:
        return transformers.AutoModelForMaskedLM
    raise ModelError(
        f"{called(checkpoint)} belongs to the family {family}, for which transformers has no "
        "language model, so it cannot be scored without training: omit --shots 0."
    )


def _load(loader: Any, folder: Path, config: Any, checkpoint: str, trust: Trust) -> Any:
    network, info = read_weights(loader, folder, config, trust)
    if lost := sorted(info["missing_keys"]):
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise ModelError(
            f"{called(checkpoint)} was saved without its language-model head (it lacks "
            f"{lost[0]}{more}), so it cannot be scored without training: omit --shots 0."
        )
    if any(not weight.isfinite().all() for weight in network.parameters()):
        raise ModelError(
            f"{called(checkpoint)} has NaN or infinite weights: download an undamaged copy."
        )
    return network
