"""Ranking head: embeds queries and documents as vectors and ranks documents by cosine similarity.

Training uses in-batch negatives (Henderson et al., arXiv:1705.00652). An item is a query and a
relevant document. The other documents of the batch are its negatives, except those that are
relevant to the same query. Therefore the loss depends on the whole batch, even if it is computed in
parts.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchharness.encoder import Encoder
from benchharness.errors import DataError
from benchharness.extensions.retrieval.hyperparameters import RankingOptions
from benchharness.extensions.retrieval.task import QueryExample, RankingPrediction, RankingTask
from benchharness.heads import Head, Limits
from benchharness.heads.classifiers import last_state, take_pooler
from benchharness.heads.tokens import Frame, join, tokenize_ids
from benchharness.models.folder import FIRST, LAST
from benchharness.tasks.read import SplitRows, part_of
from benchharness.training.batching import MICRO_BATCH_TOKENS, Features

KEPT = 100
"""Number of documents in a predicted ranking, which is as many as recall@100 needs."""

BLOCK = 2**26
"""Maximum number of similarities that are in memory at once. They need 256 MB in fp32."""


def learned(rows: SplitRows) -> SplitRows:
    """Return a training pair for each relevant document of each query, if the corpus contains it.

    Raises DataError if there are no such pairs.
    """
    queries: Sequence[Any] = rows.examples
    pairs = [
        replace(query, id=f"{query.id}/{document}", positive=document)
        for query in queries
        for document, grade in query.relevant
        if grade > 0 and document in query.corpus.places
    ]
    if not pairs:
        raise DataError("no training query has a relevant document, so there is nothing to learn.")
    return part_of(pairs)


def encode(examples: Sequence[QueryExample], tokenizer: Any, limits: Limits) -> Features:
    """Encode all queries, then all documents of the corpus, as one row each.

    If the examples are training pairs, the rows are the query and the document of each pair
    instead, and the two rows of a pair form one item (see `Features`). Long texts are cut at
    their ends.

    Args:
        examples: Queries with the same corpus, or training pairs.
        tokenizer: Tokenizer of transformers.
        limits: Length limits of the rows.
    """
    frame = Frame.of(tokenizer, texts=1)
    corpus, queries = examples[0].corpus, [example.text for example in examples]
    if is_pairs := bool(examples[0].positive):
        pairs = ((e.text, corpus.text(e.positive)) for e in examples)
        texts = [text for pair in pairs for text in pair]
    else:
        texts = [*queries, *corpus.texts]
    ids = tokenize_ids(texts, tokenizer)
    room = limits.max_tokens - frame.size  # for the text, without special tokens
    return Features(
        **join([frame.row(ids[text][:room]) for text in texts], frame, limits.max_tokens),
        items=np.arange(0, len(texts) + 1, 2) if is_pairs else None,
        truncated=np.array([len(ids[query]) > room for query in queries]),
    )


def targets(
    features: Features, examples: Sequence[QueryExample], task: RankingTask
) -> NDArray[np.int64]:
    """Return numbers that identify the query and the document of each pair, `[items, 2]`.

    Pairs with the same query or document are not negatives of each other.

    Args:
        features: Not used.
        examples: Training pairs of a query and a document.
        task: Not used.
    """
    columns = ([e.text for e in examples], [e.positive for e in examples])
    return np.stack([np.unique(column, return_inverse=True)[1] for column in columns], axis=1)


class RankingNetwork(nn.Module):
    """Encoder that returns one unit vector per row.

    The loss needs the vectors of the whole batch at once. If the batch is larger than a
    micro-batch, or if memory ran out in an earlier attempt, activations are not kept for the
    backward pass but recomputed in chunks, with the same dropout.

    Args:
        encoder: Encoder of queries and documents.
        pooling: Token states that give the vector of a row (see `RankingOptions`).
    """

    def __init__(self, encoder: Encoder, pooling: str) -> None:
        super().__init__()
        take_pooler(encoder.network)  # its output is not used
        self.encoder = encoder.network
        self.pooling = pooling
        self.reads_first_token = pooling == FIRST
        self.parts = 1

    def forward(self, **inputs: Any) -> Tensor:
        """Return unit vectors `[rows, size]` in fp32 for inputs of `[rows, tokens]`."""
        rows, tokens = inputs["input_ids"].shape
        size = min(max(1, MICRO_BATCH_TOKENS // tokens), math.ceil(rows / self.parts))
        if not torch.is_grad_enabled() or size >= rows:
            return self._embed(inputs)
        parts = [
            {name: values[start : start + size] for name, values in inputs.items()}
            for start in range(0, rows, size)
        ]
        # checkpoint restores the random state of each part, so both passes have the same dropout.
        return torch.cat([checkpoint(self._embed, part, use_reentrant=False) for part in parts])

    def _embed(self, inputs: dict[str, Any]) -> Tensor:
        hidden = self.encoder(**inputs)[0].float()  # (rows, tokens, size), or only first tokens
        mask = inputs["attention_mask"]  # (rows, tokens)
        if self.pooling == FIRST:
            states = hidden[:, 0]
        elif self.pooling == LAST:
            states = last_state(hidden, mask)
        else:
            weights = mask[..., None].to(hidden.dtype)  # (rows, tokens, 1)
            states = (hidden * weights).sum(1) / weights.sum(1)
        return functional.normalize(states, dim=-1)


def loss(logits: Tensor, targets: Tensor, scale: float) -> Tensor:
    """Return the loss of each pair of a query and a document in the batch, `[items]`.

    The loss is the cross-entropy of choosing the document of the query among all documents of the
    batch. It is the same as in MultipleNegativesRankingLoss of sentence-transformers, but pairs
    with the same query or document are not negatives of each other.

    Args:
        logits: Vectors of queries and documents, `[items, 2, size]`.
        targets: Numbers that identify the query and the document of each pair, `[items, 2]`.
        scale: Factor by which cosine similarities are multiplied.
    """
    with torch.autocast(logits.device.type, enabled=False):
        queries, documents = logits.float().unbind(1)  # (items, size) both
        scores = scale * queries @ documents.T  # (items, items)
    own = torch.arange(len(scores), device=scores.device)
    same = (targets[:, None] == targets[None]).any(-1)  # (items, items)
    same[own, own] = False
    return functional.cross_entropy(scores.masked_fill(same, -torch.inf), own, reduction="none")


def decode(
    logits: NDArray[np.float32],
    features: Features,
    examples: Sequence[QueryExample],
    task: RankingTask,
) -> tuple[RankingPrediction, ...]:
    """Return the documents of the corpus that are most similar to each query, at most KEPT (100).

    A document with the same id as the query is skipped, as in beir and mteb (ArguAna, Quora).

    Args:
        logits: Unit vectors of all queries, then of all documents, `[queries + documents, size]`.
        features: Not used.
        examples: The queries, which share a corpus.
        task: Not used.
    """
    corpus = examples[0].corpus
    vectors = torch.from_numpy(logits)  # (queries + documents, size)
    queries, documents = vectors[: len(examples)], vectors[len(examples) :]
    size = max(1, BLOCK // len(documents))  # queries per block
    found: list[RankingPrediction] = []
    for start in range(0, len(examples), size):
        block = examples[start : start + size]
        cosines = (queries[start : start + size] @ documents.T).numpy()  # (queries, documents)
        for example, row in zip(block, cosines, strict=True):
            best = list(_best(row, corpus.ids, corpus.places.get(example.id)))
            names, scores = zip(*best, strict=True) if best else ((), ())
            found.append(RankingPrediction(id=example.id, documents=names, scores=scores))
    return tuple(found)


def _best(
    scores: NDArray[np.float32], ids: Sequence[str], own: int | None
) -> Iterator[tuple[str, float]]:
    """Yield the KEPT best documents in trec_eval's order: by score, on ties by descending id."""
    if own is not None:
        scores[own] = -np.inf
    count = min(KEPT, len(scores))
    lowest = np.partition(scores, -count)[-count]  # the lowest score that is kept
    kept = (scores >= lowest) & np.isfinite(scores)  # (documents,); more than `count` on ties
    places = [int(place) for place in np.flatnonzero(kept)]
    order = sorted(places, key=lambda place: (scores[place], ids[place]), reverse=True)
    # Convert with str to the shortest decimal number that has the same value in fp32.
    yield from ((ids[place], float(str(scores[place]))) for place in order[:count])


def head(task: RankingTask, options: RankingOptions | None) -> Head:
    """Return the functions of the ranking head.

    Args:
        task: Not used.
        options: Hyperparameters of the recipe; None for the defaults.
    """
    chosen = options or RankingOptions()
    network: Callable[[Encoder, Any], nn.Module]
    network = lambda encoder, _: RankingNetwork(encoder, chosen.pooling)  # noqa: E731
    return Head(
        encode=encode,
        targets=targets,
        network=network,
        loss=partial(loss, scale=chosen.similarity_scale),
        decode=decode,
        learned=learned,
        whole_batch=True,
    )
