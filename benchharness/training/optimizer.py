"""Which weights learn, and at which rate: by the step's number, and by their layer."""

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

# The learning rate of a step: up linearly, then down by the recipe's schedule.

_SLANT = 32.0
"""How many times smaller than the highest the ends of a slanted triangle are: ULMFiT's ratio."""


def learning_rate(step: int, steps: int, recipe: Recipe) -> float:
    """The rate of a step counted from 0: up linearly to the warm-up's end, then as scheduled.

    As in google-research/bert's optimization.py, the first step of a warm-up has the rate 0. A
    warm-up never takes all steps: the only step of a run would change no weight.
    """
    highest, schedule = recipe.optim.learning_rate, recipe.schedule
    asked = schedule.warmup_steps or math.ceil(steps * schedule.warmup_ratio)
    warmup = min(asked, steps - 1)
    behind = max(1, steps - warmup)
    done = (step - warmup) / behind  # the share of the steps behind the warm-up
    if schedule.schedule == "slanted-triangular":
        # Howard and Ruder, arXiv:1801.06146, equation 3, whose cut_frac is the warm-up's share.
        share = step / warmup if step < warmup else 1 - done  # 0 to 1 to 0
        return highest * ((1 + share * (_SLANT - 1)) / _SLANT)
    if step < warmup:
        return highest * step / warmup
    match schedule.schedule:
        case "linear":
            # In this order since the first version: another one would round to other bits.
            return highest * (steps - step) / behind
        case "constant":
            return highest
        # Both end at 0, as transformers' schedules of these names do where their end is 0.
        case "cosine":
            return highest * (0.5 * (1 + math.cos(math.pi * done)))  # half a wave
        case _:
            return highest * float((1 - done) ** schedule.schedule_power)


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The optimizer that the recipe names, over the groups of the weights to be trained."""
    groups, rate = param_groups(network, recipe), recipe.optim.learning_rate
    if recipe.optim.optimizer == ADAFACTOR:
        # The other values are T5's: scaled by the weight, updates clipped at 1, decay to the -0.8.
        # On use: its module loads transformers' Trainer and peft, a sixth of a second.
        adafactor: Any = resolve_name("benchharness.training.adafactor:Adafactor")
        return adafactor(groups, lr=rate, relative_step=False)  # type: ignore[no-any-return]
    adam = recipe.adam
    assert adam is not None, "all but adafactor is Adam's"
    return torch.optim.AdamW(
        groups,
        lr=rate,
        betas=(adam.adam_beta1, adam.adam_beta2),
        eps=adam.adam_epsilon,
        fused=True,  # one pass over weights, gradients and moments instead of several
    )


def clip_in_step(optimizer: Any, weights: Weights, max_norm: float) -> torch.Tensor:
    """Has the next fused step divide gradients whose norm is above `max_norm`; returns the norm.

    As torch's clip_grad_norm_ does in two passes of its own over all gradients. The divisor is what
    torch's GradScaler gives to fused optimizers, by this attribute.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norm = nn.utils.get_total_norm(gradients)  # ()
    if type(optimizer).__name__ == "Adafactor":  # reads no such attribute
        nn.utils.clip_grads_with_norm_(weights, max_norm, norm)
        return norm
    # 1e-6 as in clip_grad_norm_, whose factor max_norm / (norm + 1e-6) is at most 1.
    optimizer.grad_scale = ((norm + 1e-6) / max_norm).clamp(min=1.0)
    return norm


def param_groups(network: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """An optimizer's groups of the weights that are to be trained.

    `scale` is what the schedule's rate is multiplied with, as google-research/electra's
    optimization.py does: the head's is 1, or its own rate over the recipe's, and each layer's is
    `layer_decay` times that of the layer above it. `from_epoch` is the first epoch in which a group
    learns. Biases and norms (whatever has one dimension) are left out of the weight decay.
    """
    optim = recipe.optim
    return [
        {"params": weights, "weight_decay": decay, "scale": scale, "from_epoch": epoch}
        for part, scale, epoch in _parts(network, recipe)
        # mosaicml/composer's DecoupledAdamW takes decay * rate / (the group's highest rate) of a
        # weight, and torch's AdamW decay * rate, so the one's is the other's over that rate.
        for decoupled in [optim.decoupled_weight_decay / (optim.learning_rate * scale)]
        for weights, decay in (
            # By dimensions and not by names, as BERT's "LayerNorm" and "bias", which differ.
            ([w for w in part if w.ndim > 1], decoupled or optim.weight_decay),
            ([w for w in part if w.ndim < 2], 0.0),
        )
        if weights
    ]


def update_groups(groups: Iterable[dict[str, Any]], rate: float, epoch: int) -> None:
    """Sets the rates of an optimizer's groups for a step, and freezes those whose turn is later.

    Howard and Ruder, arXiv:1801.06146, section 3.3, for the latter. A frozen group costs nothing:
    the backward pass ends above it.
    """
    for group in groups:
        group["lr"] = rate * group["scale"]
        if group["from_epoch"]:  # the others, most groups, are trained from the start
            for weight in group["params"]:
                weight.requires_grad_(group["from_epoch"] <= epoch)


def _parts(network: Any, recipe: Recipe) -> Iterator[tuple[Weights, float, int]]:
    """Weights with their scale and first epoch, from the head down to the embeddings."""
    options, optim = recipe.encoder, recipe.optim
    is_gradual = options.unfreeze == "gradual"
    # One group where all layers learn alike: what of an encoder is a layer need not be known then.
    if not is_gradual and options.layer_decay == 1 and optim.head_learning_rate is None:
        yield _trained(network.parameters()), 1.0, 0
        return
    found = layers_of(network.encoder)
    below = [_trained(layer.parameters()) for layer in reversed(found.layers)]
    below.append(_trained(w for part in found.embeddings for w in part.parameters()))
    # What is left is the head's: poolers and last norms, which are pretrained, learn as it does.
    known = {id(weight) for weights in below for weight in weights}
    head = [w for w in _trained(network.parameters()) if id(w) not in known]
    yield head, (optim.head_learning_rate or optim.learning_rate) / optim.learning_rate, 0
    for number, weights in enumerate(below):
        scale = options.layer_decay ** (options.top_layer_depth + number)  # the top layer first
        yield weights, scale, number + 1 if is_gradual else 0


def _trained(weights: Iterable[nn.Parameter]) -> Weights:
    return [weight for weight in weights if weight.requires_grad]


# The moments of an optimizer as named tensors, and back.


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimizer remembers of each weight: "12.exp_avg" is that of the twelfth.

    Adafactor counts its steps in a plain number, which becomes a tensor.
    """
    remembered = optimizer.state_dict()["state"]
    return {
        f"{i}.{name}": torch.as_tensor(value)
        for i, state in remembered.items()
        for name, value in state.items()
    }


def restore_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Gives an optimizer of the same weights what another one remembered.

    Moments lie in memory as their weights do, because a fused step takes them in that order.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        weight = weights[int(number)]
        # The step count, (), is a moment too, and has not the weight's shape.
        moment = torch.empty_like(weight if value.shape == weight.shape else value)
        state.setdefault(int(number), {})[name] = moment.detach().copy_(value)
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )


# Training the rows of a vocabulary that occur in a job's texts, and no others.
#
# Half of a small encoder's weights, and four fifths of XLM-R's, are its vocabulary. A row that
# never occurs has no gradient: AdamW leaves its moments at zero, and only the weight decay changes
# it, by the same factor as all such rows. So one probe of ones is trained for all of them.

SPECIAL = ("pad", "bos", "eos", "cls", "sep")
"""Tokens that a config may know by their ids."""


@dataclass(frozen=True, kw_only=True)
class UsedVocabulary:
    """A network's whole `embedding`, and the numbers of those of its rows that are trained."""

    network: Any
    embedding: nn.Embedding
    rows: NDArray[np.int64]

    def restore(self) -> None:
        """Gives the network its whole embedding back, as training all of it would have left it."""
        trained = self.network.get_input_embeddings().weight.detach()  # (used + 1, size)
        whole = self.embedding.to(trained.device)  # (vocabulary, size)
        with torch.no_grad():
            # The probe was 1 and has only decayed, as every row without a gradient would have.
            whole.weight.mul_(trained[-1, 0])
            whole.weight[torch.from_numpy(self.rows)] = trained[:-1]
        self.network.set_input_embeddings(whole)


def can_be_cut(network: Any) -> bool:
    """Return whether an encoder computes with its vocabulary as a plain embedding, and once.

    Gemma and BioGPT scale what they look up, CANINE hashes characters, and Gemma 3n has a second
    table by the same ids. Code of a checkpoint's own may lack the methods, too.
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
    # Neither what ties it elsewhere nor what keeps its own copy computes with other rows.
    is_used_elsewhere = any(weight is whole.weight for weight in network.parameters())
    has_taken = network.get_input_embeddings() is stand_in
    network.set_input_embeddings(whole)
    return has_taken and not is_used_elsewhere


def _has_other_table(network: nn.Module, whole: nn.Embedding) -> bool:
    """Return whether another embedding has a row for each token too."""
    tables = (module for module in network.modules() if isinstance(module, nn.Embedding))
    rows = len(whole.weight)
    return any(len(t.weight) >= rows and t.weight is not whole.weight for t in tables)


def cut_vocabulary(
    network: Any, features: Mapping[str, Features]
) -> tuple[dict[str, Features], UsedVocabulary]:
    """Cuts an encoder's vocabulary down to what occurs in the features, whose ids it renumbers.

    Rows up to the last special token stay where they are, because networks look for some of them.
    """
    whole = network.get_input_embeddings()
    known = (getattr(network.config, f"{name}_token_id", None) or 0 for name in SPECIAL)
    # Llama's config has a list of the tokens that end an answer.
    special = np.arange(min(1 + max(int(np.max(each)) for each in known), len(whole.weight)))
    # The padding id, which no text has, is looked up in padded batches.
    ids = [np.append(part.token_ids, part.pad_id) for part in features.values()]
    used = np.unique(np.concatenate([special, *ids]))  # (used,), rising
    # An embedding of some rows of another, with the probe behind them.
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
            # The used ids are sorted, so where one stands among them is its new number.
            token_ids=np.searchsorted(used, part.token_ids).astype(np.int32),
            pad_id=int(np.searchsorted(used, part.pad_id)),
        )
        for name, part in features.items()
    }
    return renumbered, UsedVocabulary(network=network, embedding=whole, rows=used)
