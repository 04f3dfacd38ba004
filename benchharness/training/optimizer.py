"""Optimizer: the weights that are trained, their learning rates, and the trained vocabulary."""

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
    """Return the learning rate of a step, counted from 0: linear warm-up, then the schedule.

    As in google-research/bert's optimization.py, the first step of a warm-up has rate 0. A warm-up
    never takes all steps, because a run of one step would then change no weight.
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
        # The next two end at 0, like transformers' schedules (the polynomial one with lr_end=0).
        case "cosine":
            return highest * (0.5 * (1 + math.cos(math.pi * done)))  # half a cosine wave
        case _:
            return highest * float((1 - done) ** schedule.schedule_power)


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Return the recipe's optimizer for the trained weights of a network."""
    groups, rate = param_groups(network, recipe), recipe.optim.learning_rate
    if recipe.optim.optimizer == ADAFACTOR:
        # The defaults are T5's: rates scaled by the weight, updates clipped at 1, decay_rate -0.8.
        # Imported on use, because its module loads transformers' Trainer and peft (0.17 seconds).
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
    """Make the next fused step clip gradients to the norm `max_norm`; return their current norm.

    The result is the same as with torch's clip_grad_norm_, which needs two more passes over all
    gradients. The divisor is passed to the optimizer in the attribute that torch's GradScaler uses.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norm = nn.utils.get_total_norm(gradients)  # a scalar
    if type(optimizer).__name__ == "Adafactor":  # it does not read `grad_scale`
        nn.utils.clip_grads_with_norm_(weights, max_norm, norm)
        return norm
    # 1e-6 as in clip_grad_norm_, whose factor max_norm / (norm + 1e-6) is at most 1.
    optimizer.grad_scale = ((norm + 1e-6) / max_norm).clamp(min=1.0)
    return norm


def param_groups(network: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """Return the trained weights of a network as parameter groups for an optimizer.

    The learning rate of a group is its `scale` times the scheduled rate, as in
    google-research/electra's optimization.py. The head's scale is 1, or `head_learning_rate`
    divided by the recipe's learning rate. A layer's scale is `layer_decay` times the scale of the
    layer above it. `from_epoch` is the first epoch in which a group is trained. Biases and norms
    (all one-dimensional weights) have no weight decay.
    """
    optim = recipe.optim
    return [
        {"params": weights, "weight_decay": decay, "scale": scale, "from_epoch": epoch}
        for part, scale, epoch in _parts(network, recipe)
        # Per step, mosaicml/composer's DecoupledAdamW subtracts decay * rate / (the group's highest
        # rate) times the weight; torch's AdamW subtracts decay * rate times the weight. So the
        # decay is divided by the highest rate.
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
    """Set the learning rates of an optimizer's groups; freeze groups before their first epoch.

    Gradual unfreezing follows Howard and Ruder, arXiv:1801.06146, section 3.3. Frozen groups cost
    no time, because the backward pass ends above them.
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
    # The other weights belong to the head, including pretrained poolers and last norms.
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
    """Return the optimizer's state of each weight: "12.exp_avg" belongs to weight number 12.

    Adafactor's step count is a plain number, which becomes a tensor.
    """
    remembered = optimizer.state_dict()["state"]
    return {
        f"{i}.{name}": torch.as_tensor(value)
        for i, state in remembered.items()
        for name, value in state.items()
    }


def restore_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state that `moments` returned into an optimizer of the same weights.

    Each moment gets the memory layout of its weight, which a fused step requires.
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
# Half of a small encoder's weights, and four fifths of XLM-R's, are its vocabulary. A row that
# never occurs has no gradient: AdamW leaves its moments at zero, and only the weight decay changes
# it, by the same factor as all such rows. So a single probe row of ones is trained to measure it.

SPECIAL = ("pad", "bos", "eos", "cls", "sep")
"""Special tokens whose ids a config may contain."""


@dataclass(frozen=True, kw_only=True)
class UsedVocabulary:
    """Original embedding of a network whose vocabulary was cut to some of its `rows`.

    `network` is the encoder with the smaller embedding; `embedding` is the original one.
    """

    network: Any
    embedding: nn.Embedding
    rows: NDArray[np.int64]

    def restore(self) -> None:
        """Put the full embedding back, with the weights that training all rows would have given."""
        trained = self.network.get_input_embeddings().weight.detach()  # (used + 1, size)
        whole = self.embedding.to(trained.device)  # (vocabulary, size)
        with torch.no_grad():
            # The probe row was 1 and has only decayed, as every row without a gradient would have.
            whole.weight.mul_(trained[-1, 0])
            whole.weight[torch.from_numpy(self.rows)] = trained[:-1]
        self.network.set_input_embeddings(whole)


def can_be_cut(network: Any) -> bool:
    """Return whether an encoder uses token ids only to look up rows of one plain embedding.

    Gemma and BioGPT scale the embedded tokens, CANINE hashes characters, and Gemma 3n has a second
    embedding for the same ids. Custom code of a checkpoint may also lack the required methods.
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
    # False for code that ties the embedding to other weights, or keeps its own reference to it.
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
    """Cut an encoder's vocabulary to the token ids in the features; return renumbered features.

    Also returns the UsedVocabulary that restores the full vocabulary. Rows up to the last special
    token keep their ids, because networks look for some special tokens by id.
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
