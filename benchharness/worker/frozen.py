"""Frozen features: the head alone is trained, on states of the encoder that are computed once.

Peters et al., arXiv:1903.05987, compare this with fine-tuning; the choices of layers are those of
Devlin et al., arXiv:1810.04805, section 5.3, and the mix that of Peters et al., arXiv:1802.05365.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from benchharness.heads.classifiers import TextClassifier
from benchharness.progress import Reporter
from benchharness.recipes.recipe import LAYER
from benchharness.tasks.errors import ModelError
from benchharness.training.batching import Features
from benchharness.training.compute import Compute
from benchharness.worker.layer_states import Source, every_layer, layer_states, network_digest
from benchharness.worker.technique import Prepared, Technique


class FrozenFeatures(Technique):
    """The encoder's own weights are left as they are."""

    whole_vocabulary = True  # it is not trained
    every_state = True  # they are computed for every layer, and kept for other heads

    def on_network(self, prepared: Prepared) -> None:
        """Puts the states where tokens were."""
        (task,) = (setup.task for setup in prepared.setups)
        network, splits, work = prepared.network, prepared.features, self.work
        source = source_of(network, splits, task.head, work.compute)
        choice = work.recipe.encoder.features
        prepared.features = freeze(network, splits, choice, source, work.report)

    def to_predict(self, network: Any) -> None:
        """Has the encoder compute the states that the head reads."""
        network.encoder = LiveEncoder(network.encoder, self.work.recipe.encoder.features)


technique = FrozenFeatures


class Sum(nn.Module):
    """The sum of the chosen layers' states, or the states of the only one."""

    def __init__(self, layers: int, size: int) -> None:  # noqa: ARG002  (as every combination)
        super().__init__()

    def forward(self, states: Tensor) -> Tensor:
        """States (layers, rows, tokens, size) to (rows, tokens, size)."""
        return states.sum(0)  # over layers


class Concatenation(nn.Module):
    """A linear layer on the chosen layers' states side by side, to the size of one of them.

    It makes any head fit, whose first layer may be pretrained. It starts as the mean of the layers,
    so that such a layer first sees states like those that it knows.
    """

    def __init__(self, layers: int, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(layers * size, size)
        with torch.no_grad():
            # (size, layers * size): identities side by side, each for a layer.
            self.linear.weight.copy_(torch.eye(size).repeat(1, layers) / layers)
            self.linear.bias.zero_()

    def forward(self, states: Tensor) -> Tensor:
        """States (layers, rows, tokens, size) to (rows, tokens, size)."""
        # (layers, rows, tokens, size) -> (rows, tokens, layers, size) -> (.., layers * size)
        joined: Tensor = self.linear(states.movedim(0, -2).flatten(-2))
        return joined


class ScalarMix(nn.Module):
    """A learned mean of the layers' states times a learned number (arXiv:1802.05365, section 3.2).

    Starts as the plain mean.
    """

    def __init__(self, layers: int, size: int) -> None:  # noqa: ARG002  (as every combination)
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, states: Tensor) -> Tensor:
        """States (layers, rows, tokens, size) to (rows, tokens, size)."""
        shares = self.scale * self.weights.softmax(0)  # (layers,)
        mixed: Tensor = torch.tensordot(shares, states, dims=1)
        return mixed


CHOSEN: Mapping[str, slice] = {
    "embeddings": slice(0, 1),
    "last": slice(-1, None),
    "second-to-last": slice(-2, -1),
    "sum-last-4": slice(-4, None),
    "concat-last-4": slice(-4, None),
    "sum-all": slice(1, None),
    "mix": slice(None),
}
"""The layers of each choice of features, counted with the embeddings as the first one."""

COMBINED: Mapping[str, Callable[[int, int], nn.Module]] = {
    "concat-last-4": Concatenation,
    "mix": ScalarMix,
}
"""What makes one state of theirs, by their number and size, where it is not their sum."""


class FrozenEncoder(nn.Module):
    """Gives the states that an encoder has computed, in its place under a head.

    `input_ids` are not tokens but places, counted through the tables (layers + 1, places, size) of
    all splits. Where `per_row`, a place is a row, whose other tokens the head does not read. The
    encoder is kept for its parameters to be counted, and is not called.
    """

    def __init__(
        self, encoder: Any, tables: Sequence[Tensor], features: str, per_row: bool
    ) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        # Not buffers: they are mapped from disk, and to(device) would read all of them.
        self.tables = [table[_chosen(features, table, encoder)] for table in tables]
        self.firsts = np.cumsum([0, *(table.shape[1] for table in tables)]).tolist()
        self.per_row = per_row
        layers, _, size = self.tables[0].shape
        self.combined = COMBINED.get(features, Sum)(layers, size)

    def train(self, mode: bool = True) -> Self:
        """Switches only what learns: walking through the encoder takes longer than a step."""
        self.training = mode
        self.combined.train(mode)
        return self

    def forward(self, input_ids: Tensor, **_: Tensor) -> tuple[Tensor]:
        """The states (rows, tokens, size) of places (rows, tokens) of one split, in fp32."""
        # Of rows of one token the width is rounded up too: what is behind it is padding.
        places = (input_ids[:, :1] if self.per_row else input_ids).cpu()
        number = bisect_right(self.firsts, int(places[0, 0])) - 1
        # (layers, places, size) at (rows, tokens) -> (layers, rows, tokens, size)
        states = self.tables[number][:, places - self.firsts[number]]
        return (self.combined(states.to(input_ids.device).float()),)  # as an encoder's output[0]


class LiveEncoder(nn.Module):
    """The same of tokens, whose states it computes each time: for rows that come once.

    `combined` has the weights that a FrozenEncoder's has, by the same names.
    """

    def __init__(self, encoder: Any, features: str) -> None:
        super().__init__()
        self.encoder, self.config, self.features = encoder, encoder.config, features
        chosen = CHOSEN.get(features, slice(1))
        layers = len(range(encoder.config.num_hidden_layers + 1)[chosen])
        self.combined = COMBINED.get(features, Sum)(layers, encoder.config.hidden_size)

    def forward(self, **inputs: Any) -> tuple[Tensor]:
        """The states (rows, tokens, size) of tokens (rows, tokens)."""
        table = every_layer(self.encoder, inputs)  # (layers + 1, rows, tokens, size)
        if torch.is_autocast_enabled(table.device.type):  # as they are kept
            table = table.bfloat16().float()
        return (self.combined(table[_chosen(self.features, table, self.encoder)]),)


def _chosen(features: str, table: Tensor, encoder: Any) -> slice:
    layers, family = len(table) - 1, encoder.config.model_type  # the table has embeddings first
    if features.startswith(LAYER):
        number = int(features.removeprefix(LAYER))
        if number > layers:
            raise ModelError(
                f"features={features}: this {family} encoder has {layers} layers, layer-1 to "
                f"layer-{layers}."
            )
        return slice(number, number + 1)
    chosen = CHOSEN[features]
    wanted = -(chosen.start or -1)  # of those that count from the end
    if layers < wanted:
        raise ModelError(
            f"features={features} reads the last {wanted} layers, and this {family} encoder has "
            f"{layers}: choose last or mix."
        )
    return chosen


def source_of(network: Any, splits: Mapping[str, Features], head: str, compute: Compute) -> Source:
    """What a network with a head of this type reads of its encoder."""
    # Marked words are pooled from their own tokens' states.
    has_marks = any(split.marks is not None for split in splits.values())
    reads = network.classifier.reads if isinstance(network.classifier, TextClassifier) else "all"
    return Source(
        network=network.encoder,
        identity=network_digest(network.encoder),
        tokens="all" if has_marks or reads not in ("first", "last") else str(reads),
        head=head,
        compute=compute,
    )


def freeze(
    network: Any, splits: Mapping[str, Features], choice: str, source: Source, report: Reporter
) -> dict[str, Features]:
    """Replaces a network's encoder with a FrozenEncoder; gives the splits as it reads them.

    `choice` is the recipe's `features`. The states of every split are computed where they are not
    kept yet. Where the head reads one state of a row, as most classifiers do, its rows have one
    token from now on, and where it reads some of the tokens, they have these alone.
    """
    tables = [layer_states(source, split, report) for split in splits.values()]
    per_row = source.tokens != "all"
    network.encoder = FrozenEncoder(network.encoder, tables, choice, per_row)
    return {
        name: _at_places(split.without_unread(), first, per_row)
        for (name, split), first in zip(splits.items(), network.encoder.firsts, strict=False)
    }


def _at_places(features: Features, first: int, per_row: bool) -> Features:
    """The same rows with places for tokens; padding has the place of the split's first one."""
    places = len(features) if per_row else len(features.token_ids)
    return replace(
        features,
        token_ids=np.arange(first, first + places, dtype=np.int32),
        token_types=None,
        starts=np.arange(places + 1) if per_row else features.starts,  # (rows + 1,) both ways
        pad_id=first,
    )
