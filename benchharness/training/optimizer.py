"""Optimizer: groups of weights, their learning rates, and the part of the vocabulary to train."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.encoder import layers_of
from benchharness.encoder.network import is_foreign
from benchharness.recipes.recipe import ADAFACTOR, Recipe
from benchharness.training.batching import Features

Weights = list[nn.Parameter]

# Learning rate of each step: it rises linearly, then follows the recipe's schedule.

_SLANT = 32.0
"""Ratio of the highest to the lowest rate in the slanted triangular schedule, as in ULMFiT."""


def learning_rate(step: int, steps: int, recipe: Recipe) -> float:
    """Return the learning rate of a step: a linear warm-up, followed by the recipe's schedule.

    As in google-research/bert's optimization.py, the first step of a warm-up has rate 0 (in the
    slanted triangular schedule, 1/32 of the highest rate). The last step is never part of the
    warm-up, because a run of a single step would then change no weight.

    Args:
        step: Number of the step, from 0.
        steps: Number of all steps.
        recipe: Recipe with the highest rate, the warm-up and the schedule.
    """
    highest, schedule = recipe.optim.learning_rate, recipe.schedule
    asked = schedule.warmup_steps or math.ceil(steps * schedule.warmup_ratio)
    warmup = min(asked, steps - 1)
    behind = max(1, steps - warmup)
    done = (step - warmup) / behind  # finished share of the steps after the warm-up
    if schedule.schedule == "slanted-triangular":
        # Equation 3 of Howard and Ruder, arXiv:1801.06146; cut_frac is the share of the warm-up.
        share = step / warmup if step < warmup else 1 - done  # rises from 0 to 1, falls to 0
        return highest * ((1 + share * (_SLANT - 1)) / _SLANT)
    if step < warmup:
        return highest * step / warmup
    match schedule.schedule:
        case "linear":
            # Keep the order of operations: a different one would change the last bits of results.
            return highest * (steps - step) / behind
        case "constant":
            return highest
        # The next two schedules end at 0, like those of transformers (polynomial: with lr_end=0).
        case "cosine":
            return highest * (0.5 * (1 + math.cos(math.pi * done)))  # half a cosine wave
        case _:
            return highest * float((1 - done) ** schedule.schedule_power)


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Create the recipe's optimizer (AdamW or Adafactor) for the trained weights of a network."""
    groups, rate = param_groups(network, recipe), recipe.optim.learning_rate
    if recipe.optim.optimizer == ADAFACTOR:
        # The defaults are T5's: rates scaled by the weight, updates clipped at 1, decay_rate -0.8.
        # The class is imported only here, because its module loads transformers' Trainer and peft,
        # which takes 0.17 seconds.
        adafactor: Any = resolve_name("benchharness.training.adafactor:Adafactor")
        return adafactor(groups, lr=rate, relative_step=False)  # type: ignore[no-any-return]
    adam = recipe.adam
    assert adam is not None, "every other optimizer is a form of Adam"
    return torch.optim.AdamW(
        groups,
        lr=rate,
        betas=(adam.adam_beta1, adam.adam_beta2),
        eps=adam.adam_epsilon,
        fused=True,  # one pass over weights, gradients and moments instead of several
    )


def clip_in_step(optimizer: Any, weights: Weights, max_norm: float) -> torch.Tensor:
    """Clip the gradients of all weights to the norm `max_norm`; return their norm before clipping.

    torch's fused AdamW clips the gradients itself in its next step: it divides them by its
    attribute `grad_scale`, which torch's GradScaler also uses. The result is the same as with
    torch's clip_grad_norm_, which would need two more passes over all gradients. For every other
    optimizer, which would ignore this attribute, the gradients are clipped in place.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norm = nn.utils.get_total_norm(gradients)  # a scalar
    is_fused = isinstance(optimizer, torch.optim.AdamW) and optimizer.defaults["fused"]
    if not is_fused:
        nn.utils.clip_grads_with_norm_(weights, max_norm, norm)
        return norm
    # 1e-6 as in clip_grad_norm_, whose factor max_norm / (norm + 1e-6) is at most 1.
    optimizer.grad_scale = ((norm + 1e-6) / max_norm).clamp(min=1.0)
    return norm


def param_groups(network: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """Return the trained weights of a network as parameter groups for an optimizer.

    Biases and norms (all one-dimensional weights) have no weight decay. In addition to torch's
    keys, a group has two more:

    * "scale": the learning rate of the group is this number times the scheduled rate, as in
      google-research/electra's optimization.py. The head's scale is 1, or `head_learning_rate`
      divided by the recipe's learning rate. A layer's scale is `layer_decay` times the scale of the
      layer above it; that of the top layer is `layer_decay` to the power of `top_layer_depth`.
    * "from_epoch": the first epoch (from 0) in which the group is trained. It is 0, except for
      layers and embeddings with gradual unfreezing.
    """
    optim = recipe.optim
    return [
        {"params": weights, "weight_decay": decay, "scale": scale, "from_epoch": epoch}
        for part, scale, epoch in _parts(network, recipe)
        # Per step, mosaicml/composer's DecoupledAdamW subtracts decay * rate / (the group's highest
        # rate) times the weight; torch's AdamW subtracts decay * rate times the weight. Therefore
        # the decay is divided by the group's highest rate here.
        for decoupled in [optim.decoupled_weight_decay / (optim.learning_rate * scale)]
        for weights, decay in (
            # Weights without decay have one dimension; their names ("LayerNorm", "bias") differ
            # between families.
            ([w for w in part if w.ndim > 1], decoupled or optim.weight_decay),
            ([w for w in part if w.ndim < 2], 0.0),
        )
        if weights
    ]


def update_groups(groups: Iterable[dict[str, Any]], rate: float, epoch: int) -> None:
    """Set the learning rates of the groups of `param_groups`, and freeze or unfreeze their weights.

    A group is frozen before its "from_epoch" (gradual unfreezing as in Howard and Ruder,
    arXiv:1801.06146, section 3.3). The frozen groups are the lowest layers of the network, so the
    backward pass ends above them and takes less time.

    Args:
        groups: Parameter groups of the optimizer.
        rate: Scheduled learning rate of the next step.
        epoch: Number of the current epoch, from 0.
    """
    for group in groups:
        group["lr"] = rate * group["scale"]
        if group["from_epoch"]:  # most groups are trained from the start
            for weight in group["params"]:
                weight.requires_grad_(group["from_epoch"] <= epoch)


def _parts(network: Any, recipe: Recipe) -> Iterator[tuple[Weights, float, int]]:
    """Yield weights with their scale and first epoch, from the head down to the embeddings."""
    options, optim = recipe.encoder, recipe.optim
    is_gradual = options.unfreeze == "gradual"
    # If all layers are trained in the same way, use one group: it works for unknown encoders too.
    if not is_gradual and options.layer_decay == 1 and optim.head_learning_rate is None:
        yield _trained(network.parameters()), 1.0, 0
        return
    found = layers_of(network.encoder)
    below = [_trained(layer.parameters()) for layer in reversed(found.layers)]
    below.append(_trained(w for part in found.embeddings for w in part.parameters()))
    # The other weights belong to the head, including pretrained poolers and final norms.
    known = {id(weight) for weights in below for weight in weights}
    head = [w for w in _trained(network.parameters()) if id(w) not in known]
    yield head, (optim.head_learning_rate or optim.learning_rate) / optim.learning_rate, 0
    for number, weights in enumerate(below):
        scale = options.layer_decay ** (options.top_layer_depth + number)  # the top layer first
        yield weights, scale, number + 1 if is_gradual else 0


def _trained(weights: Iterable[nn.Parameter]) -> Weights:
    return [weight for weight in weights if weight.requires_grad]


# Conversion of an optimizer's moments to named tensors and back.


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state that an optimizer keeps for each weight, as named tensors.

    A name consists of the number of the weight and the name of the value, as in "12.exp_avg". Plain
    numbers, such as Adafactor's step count, become tensors too.
    """
    remembered = optimizer.state_dict()["state"]
    return {
        f"{i}.{name}": torch.as_tensor(value)
        for i, state in remembered.items()
        for name, value in state.items()
    }


def restore_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state that `moments` returned into an optimizer of the same weights.

    The tensors get the memory layout of their weights, because a fused step requires it.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        weight = weights[int(number)]
        # The step count, (), is stored as a moment too, but does not have the weight's shape.
        moment = torch.empty_like(weight if value.shape == weight.shape else value)
        state.setdefault(int(number), {})[name] = moment.detach().copy_(value)
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )


# Training only the rows of a vocabulary that occur in a job's texts.
#
# Half of a small encoder's weights, and four fifths of XLM-R's, are in the embedding of the
# vocabulary. The embedding of a token that never occurs has no gradient: AdamW leaves its moments
# at zero, and only the weight decay changes it, by the same factor for all tokens that never occur.
# To measure this factor, a row of ones that belongs to no token is added and trained (the probe).

SPECIAL = ("pad", "bos", "eos", "cls", "sep")
"""Names of special tokens whose ids a config may contain, as in `pad_token_id`."""


@dataclass(frozen=True, kw_only=True)
class UsedVocabulary:
    """Record of an encoder whose vocabulary was cut, from which the vocabulary can be restored.

    Attributes:
        network: Encoder, which now has a smaller embedding.
        embedding: Original embedding of the encoder.
        rows: Token ids that were kept, in ascending order: row i of the smaller embedding belongs
            to the token rows[i]. The smaller embedding has one more row, which belongs to no token.
            It shows how much the weight decay changes the embeddings of tokens that do not occur.
    """

    network: Any
    embedding: nn.Embedding
    rows: NDArray[np.int64]

    def restore(self) -> None:
        """Put the full embedding back.

        Except for rounding, its weights are the same as if all of it had been trained.
        """
        trained = self.network.get_input_embeddings().weight.detach()  # (used + 1, size)
        whole = self.embedding.to(trained.device)  # (vocabulary, size)
        with torch.no_grad():
            # The values of the probe were 1 and have only decayed, like every row without gradient.
            whole.weight.mul_(trained[-1, 0])
            whole.weight[torch.from_numpy(self.rows)] = trained[:-1]
        self.network.set_input_embeddings(whole)


def can_be_cut(network: Any) -> bool:
    """Return whether the vocabulary of an encoder can be cut.

    This requires that the encoder uses token ids only to look up rows of one plain embedding.
    Counterexamples are Gemma and BioGPT, which scale the embedded tokens, CANINE, which hashes
    characters, Gemma 3n, which has a second embedding for the same ids, and code of a checkpoint
    that lacks transformers' methods for replacing the embedding.
    """
    try:
        whole = network.get_input_embeddings()
        if type(whole) is not nn.Embedding or _has_other_table(network, whole):
            return False
        if not is_foreign(network):
            return True
        rows, size = whole.weight.shape
        stand_in = nn.Embedding(rows, size, _weight=torch.empty_like(whole.weight))
        network.set_input_embeddings(stand_in)
    except (NotImplementedError, AttributeError):
        return False
    # The vocabulary cannot be cut if the network ties the embedding to other weights, or keeps
    # another reference to it.
    is_used_elsewhere = any(weight is whole.weight for weight in network.parameters())
    has_taken = network.get_input_embeddings() is stand_in
    network.set_input_embeddings(whole)
    return has_taken and not is_used_elsewhere


def _has_other_table(network: nn.Module, whole: nn.Embedding) -> bool:
    """Return whether the network has another embedding with at least as many rows as `whole`."""
    tables = (module for module in network.modules() if isinstance(module, nn.Embedding))
    rows = len(whole.weight)
    return any(len(t.weight) >= rows and t.weight is not whole.weight for t in tables)


def cut_vocabulary(
    network: Any, features: Mapping[str, Features]
) -> tuple[dict[str, Features], UsedVocabulary]:
    """Cut an encoder's vocabulary to the token ids that occur in the data, and renumber them.

    All ids up to the highest id of a special token in the config are kept, and stay the same,
    because networks look for some special tokens by id.

    Args:
        network: Encoder, whose embedding is replaced with a smaller one.
        features: Encoded rows of each split, keyed by the name of the split.

    Returns:
        The features with the new token ids, and a record that restores the full vocabulary.
    """
    whole = network.get_input_embeddings()
    known = (getattr(network.config, f"{name}_token_id", None) or 0 for name in SPECIAL)
    # np.max, because a config such as Llama's may have a list of end-of-text tokens.
    special = np.arange(min(1 + max(int(np.max(each)) for each in known), len(whole.weight)))
    # The padding id, which no text has, is looked up in padded batches.
    ids = [np.append(part.token_ids, part.pad_id) for part in features.values()]
    used = np.unique(np.concatenate([special, *ids]))  # (used,), sorted
    # The new embedding: the used rows, followed by the probe.
    weight = whole.weight.detach()
    probe = weight.new_ones(1, weight.shape[1])
    # (used + 1, size). No text has the probe's id, so it never gets a gradient.
    kept = torch.cat([weight[torch.from_numpy(used)], probe])
    network.set_input_embeddings(
        nn.Embedding(len(kept), kept.shape[1], padding_idx=whole.padding_idx, _weight=kept)
    )
    renumbered = {
        name: replace(
            part,
            # The used ids are sorted, so the position of an id among them is its new id.
            token_ids=np.searchsorted(used, part.token_ids).astype(np.int32),
            pad_id=int(np.searchsorted(used, part.pad_id)),
        )
        for name, part in features.items()
    }
    return renumbered, UsedVocabulary(network=network, embedding=whole, rows=used)
