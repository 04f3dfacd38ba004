"""Frozen-features technique: only the head is trained, on precomputed states of the encoder.

Peters et al., arXiv:1903.05987, compare the technique with fine-tuning. The choices of layers are
from Devlin et al., arXiv:1810.04805, section 5.3; the scalar mix is from Peters et al.,
arXiv:1802.05365.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from benchharness.errors import ModelError
from benchharness.extensions.frozen.layer_states import (
    Source,
    every_layer,
    layer_states,
    network_digest,
)
from benchharness.heads.classifiers import TextClassifier
from benchharness.progress import Reporter
from benchharness.recipes.recipe import LAYER
from benchharness.training.batching import Features
from benchharness.training.compute import Compute
from benchharness.worker.technique import Prepared, Technique


class FrozenFeatures(Technique):
    """Technique that trains only the head, and leaves the encoder's weights unchanged."""

    whole_vocabulary = True  # the vocabulary is not trained, so cutting it would save nothing
    every_state = True  # the last layer must return all tokens, as the other layers do

    def on_network(self, prepared: Prepared) -> None:
        """Compute the encoder's states for the rows of all splits, and replace the encoder.

        The module that replaces the encoder looks up these states. Therefore `prepared.features`
        afterwards contains indices of states instead of token ids (see `freeze`).
        """
        (task,) = (setup.task for setup in prepared.setups)
        network, splits, work = prepared.network, prepared.features, self.work
        source = source_of(network, splits, task.head, work.compute)
        choice = work.recipe.encoder.features
        prepared.features = freeze(network, splits, choice, source, work.report)

    def to_predict(self, network: Any) -> None:
        """Make the encoder compute the states that the head reads, instead of looking them up."""
        network.encoder = LiveEncoder(network.encoder, self.work.recipe.encoder.features)


class Sum(nn.Module):
    """Module that adds up the states of the chosen layers.

    If only one layer is chosen, its states are returned unchanged. The arguments `layers` (number
    of chosen layers) and `size` (of a layer's states) are not used.
    """

    def __init__(self, layers: int, size: int) -> None:
        super().__init__()

    def forward(self, states: Tensor) -> Tensor:
        """Combine states `[layers, rows, tokens, size]` to `[rows, tokens, size]`."""
        return states.sum(0)  # over layers


class Concatenation(nn.Module):
    """Linear layer from the chosen layers' concatenated states to the size of one layer's states.

    The output has the size of an ordinary state, so any head can be used, including heads with a
    pretrained first layer. The linear layer is initialized to compute the mean of the chosen
    layers, so that the pretrained layer of a head begins with states that are similar to those that
    it was pretrained on.

    Args:
        layers: Number of chosen layers.
        size: Size of a layer's states.
    """

    def __init__(self, layers: int, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(layers * size, size)
        with torch.no_grad():
            # (size, layers * size): one identity matrix per layer, side by side.
            self.linear.weight.copy_(torch.eye(size).repeat(1, layers) / layers)
            self.linear.bias.zero_()

    def forward(self, states: Tensor) -> Tensor:
        """Combine states `[layers, rows, tokens, size]` to `[rows, tokens, size]`."""
        # (layers, rows, tokens, size) -> (rows, tokens, layers, size) -> (.., layers * size)
        joined: Tensor = self.linear(states.movedim(0, -2).flatten(-2))
        return joined


class ScalarMix(nn.Module):
    """Learned weighted mean of the chosen layers' states, times a learned scale.

    This is the scalar mix of arXiv:1802.05365, section 3.2. It is initialized to the plain mean.

    Args:
        layers: Number of chosen layers.
        size: Size of a layer's states; not used.
    """

    def __init__(self, layers: int, size: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, states: Tensor) -> Tensor:
        """Combine states `[layers, rows, tokens, size]` to `[rows, tokens, size]`."""
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
"""Slice of the layers that is selected, keyed by the value of `features`. Index 0 stands for the
embeddings. A value such as "layer-3" is not listed: it selects the layer with this index."""

COMBINED: Mapping[str, Callable[[int, int], nn.Module]] = {
    "concat-last-4": Concatenation,
    "mix": ScalarMix,
}
"""Class of the module that combines the states of the selected layers, keyed by the value of
`features`; Sum for all other values.

The class is called with the number of selected layers and the size of their states.
"""


class FrozenEncoder(nn.Module):
    """Module that replaces an encoder and looks up precomputed states.

    Its `input_ids` are not tokens but indices of states, counted over all splits.

    Args:
        encoder: Encoder that is replaced. It is not called, but is kept as a submodule, so that its
            parameters are counted.
        tables: Precomputed states of each split, `[layers + 1, states, size]`, beginning with the
            embeddings.
        features: Value of the recipe's `features`, which selects layers and a combination of them.
        per_row: Whether each row has only one index, because the head reads only one state per row.
    """

    def __init__(
        self, encoder: Any, tables: Sequence[Tensor], features: str, per_row: bool
    ) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        # The tables are not buffers: they are mapped from disk, and to(device) would read them all.
        self.tables = [table[_chosen(features, table, encoder)] for table in tables]
        self.firsts = np.cumsum([0, *(table.shape[1] for table in tables)]).tolist()
        self.per_row = per_row
        layers, _, size = self.tables[0].shape
        self.combined = COMBINED.get(features, Sum)(layers, size)

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode of the trained layers, but not of the encoder.

        Visiting all modules of the encoder would take longer than a training step.
        """
        self.training = mode
        self.combined.train(mode)
        return self

    def forward(self, input_ids: Tensor, **_: Tensor) -> tuple[Tensor]:
        """Return a tuple with the fp32 states `[rows, tokens, size]` that have the given indices.

        `input_ids` `[rows, tokens]` contains the indices, which must be of the same split.
        """
        # If rows have only one index, the other columns are padding.
        places = (input_ids[:, :1] if self.per_row else input_ids).cpu()
        number = bisect_right(self.firsts, int(places[0, 0])) - 1
        # (layers, places, size) at (rows, tokens) -> (layers, rows, tokens, size)
        states = self.tables[number][:, places - self.firsts[number]]
        return (self.combined(states.to(input_ids.device).float()),)  # a tuple, as encoders return


class LiveEncoder(nn.Module):
    """Module that computes states with an encoder, and combines layers like a FrozenEncoder.

    It is used for prediction with a trained network, because states that are needed only once need
    not be stored. The module that combines the layers is called `combined`, as in a FrozenEncoder,
    so that its trained weights can be loaded.

    Args:
        encoder: Encoder that computes the states.
        features: Value of the recipe's `features`, as for FrozenEncoder.
    """

    def __init__(self, encoder: Any, features: str) -> None:
        super().__init__()
        self.encoder, self.config, self.features = encoder, encoder.config, features
        chosen = CHOSEN.get(features, slice(1))
        layers = len(range(encoder.config.num_hidden_layers + 1)[chosen])
        self.combined = COMBINED.get(features, Sum)(layers, encoder.config.hidden_size)

    def forward(self, **inputs: Any) -> tuple[Tensor]:
        """Return a tuple with the states `[rows, tokens, size]`, combined as in a FrozenEncoder.

        The inputs are the same as for the encoder.
        """
        table = every_layer(self.encoder, inputs)  # (layers + 1, rows, tokens, size)
        if torch.is_autocast_enabled(table.device.type):  # cached states are rounded too
            table = table.bfloat16().float()
        return (self.combined(table[_chosen(self.features, table, self.encoder)]),)


def _chosen(features: str, table: Tensor, encoder: Any) -> slice:
    layers, family = len(table) - 1, encoder.config.model_type  # index 0 is the embeddings
    if features.startswith(LAYER):
        number = int(features.removeprefix(LAYER))
        if number > layers:
            raise ModelError(
                f"features={features} does not exist: this {family} encoder has {layers} layers, "
                f"layer-1 to layer-{layers}."
            )
        return slice(number, number + 1)
    chosen = CHOSEN[features]
    wanted = -(chosen.start or -1)  # number of layers that a slice from the end needs
    if layers < wanted:
        raise ModelError(
            f"features={features} reads the last {wanted} layers, but this {family} encoder has "
            f"only {layers}: use features=last or features=mix."
        )
    return chosen


def source_of(network: Any, splits: Mapping[str, Features], head: str, compute: Compute) -> Source:
    """Return a description of the encoder states that a network reads.

    Args:
        network: Network of a head, with its encoder.
        splits: Encoded rows of each split.
        head: Head type, such as "pair".
        compute: Device and precision.
    """
    # If words are marked, the head also pools the states of their tokens.
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
    """Replace a network's encoder with a FrozenEncoder, and its tokens with indices of states.

    States that are not in the cache on disk are computed.

    Args:
        network: Network of a head, whose encoder is replaced.
        splits: Encoded rows of each split, keyed by the name of the split.
        choice: Value of the recipe's `features`, which selects layers of the encoder.
        source: Description of the states that the network reads.
        report: Function that is called with the progress.

    Returns:
        Rows with indices of states as token ids, keyed by the name of the split. If the head reads
        one state per row, as most classifiers do, each row has one index. If the head reads only
        some of the tokens, the rows have indices only for these tokens.
    """
    tables = [layer_states(source, split, report) for split in splits.values()]
    per_row = source.tokens != "all"
    network.encoder = FrozenEncoder(network.encoder, tables, choice, per_row)
    return {
        name: _at_places(split.without_unread(), first, per_row)
        for (name, split), first in zip(splits.items(), network.encoder.firsts, strict=False)
    }


def _at_places(features: Features, first: int, per_row: bool) -> Features:
    """Replace the tokens of rows by indices of states; the lowest index, `first`, is padding."""
    places = len(features) if per_row else len(features.token_ids)
    return replace(
        features,
        token_ids=np.arange(first, first + places, dtype=np.int32),
        token_types=None,
        starts=np.arange(places + 1) if per_row else features.starts,  # (rows + 1,) in both cases
        pad_id=first,
    )
