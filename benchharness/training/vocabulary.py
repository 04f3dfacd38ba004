"""Training the rows of a vocabulary that occur in a job's texts, and no others.

Half of a small encoder's weights, and four fifths of XLM-R's, are its vocabulary. A row that never
occurs has no gradient: AdamW leaves its moments at zero, and only the weight decay changes it, by
the same factor as all such rows. So one probe of ones is trained for all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchharness.encoder.network import is_foreign
from benchharness.training.batching import Features

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
    """Whether an encoder's vocabulary can be cut, as that of transformers' own can.

    Code of a checkpoint's own may lack the methods, or compute with the embedding in another way.
    """
    if not is_foreign(network):
        return True
    try:
        whole = network.get_input_embeddings()
        if type(whole) is not nn.Embedding:
            return False
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


def cut_vocabulary(
    network: Any, features: Mapping[str, Features]
) -> tuple[dict[str, Features], UsedVocabulary]:
    """Cuts an encoder's vocabulary down to what occurs in the features, whose ids it renumbers.

    Rows up to the last special token stay where they are, because networks look for some of them.
    """
    whole = network.get_input_embeddings()
    known = (getattr(network.config, f"{name}_token_id", None) for name in SPECIAL)
    special = np.arange(min(1 + max(token or 0 for token in known), len(whole.weight)))
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
    renumbered = {name: _renumber(part, used) for name, part in features.items()}
    return renumbered, UsedVocabulary(network=network, embedding=whole, rows=used)


def _renumber(features: Features, rows: NDArray[np.int64]) -> Features:
    return replace(
        features,
        # rows are sorted, so where an id stands among them is its new number.
        token_ids=np.searchsorted(rows, features.token_ids).astype(np.int32),
        pad_id=int(np.searchsorted(rows, features.pad_id)),
    )
