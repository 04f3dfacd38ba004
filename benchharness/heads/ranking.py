"""The ranking head: a query and the documents of a corpus to one vector each, ranked by cosine.

Training is by in-batch negatives (Henderson et al., arXiv:1705.00652): an item is a query and a
document that is relevant to it, and all other documents of the batch are wrong ones, but for those
that are the query's too. The loss is that of the whole batch, whatever is computed at once.
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
from benchharness.heads import Head, Limits
from benchharness.heads.classifiers import last_state, take_pooler
from benchharness.heads.tokens import Frame, join, tokenize_ids
from benchharness.recipes.recipe import FIRST, LAST, RankingOptions
from benchharness.tasks.errors import DataError
from benchharness.tasks.examples import QueryExample, RankingPrediction
from benchharness.tasks.read import SplitRows, part_of
from benchharness.tasks.task import RankingTask
from benchharness.training.batching import MICRO_BATCH_TOKENS, Features

KEPT = 100
"""How many documents of a ranking are stored: recall@100 reads as many."""

BLOCK = 2**26
"""Cosines that are there at once: 256 MB in fp32."""


def learned(rows: SplitRows) -> SplitRows:
    """A training pair for each document of the corpus that is relevant to a query."""
    queries: Sequence[Any] = rows.examples
    pairs = [
        replace(query, id=f"{query.id}/{document}", positive=document)
        for query in queries
        for document, grade in query.relevant
        if grade > 0 and document in query.corpus.places
    ]
    if not pairs:
        raise DataError("no training query has a relevant document: there is nothing to learn.")
    return part_of(pairs)


def encode(examples: Sequence[QueryExample], tokenizer: Any, limits: Limits) -> Features:
    """Queries and then all documents, a row each; of training pairs a query and its document each.

    What is too long loses its end.
    """
    frame = Frame.of(tokenizer, texts=1)
    corpus, queries = examples[0].corpus, [example.text for example in examples]
    if is_pairs := bool(examples[0].positive):
        pairs = ((e.text, corpus.text(e.positive)) for e in examples)
        texts = [text for pair in pairs for text in pair]
    else:
        texts = [*queries, *corpus.texts]
    ids = tokenize_ids(texts, tokenizer)
    room = limits.max_tokens - frame.size  # what special tokens leave
    return Features(
        **join([frame.row(ids[text][:room]) for text in texts], frame, limits.max_tokens),
        items=np.arange(0, len(texts) + 1, 2) if is_pairs else None,
        truncated=np.array([len(ids[query]) > room for query in queries]),
    )


def targets(
    features: Features, examples: Sequence[QueryExample], task: RankingTask
) -> NDArray[np.int64]:
    """Numbers of each pair's query and document, (items, 2): equal ones are no negatives."""
    columns = ([e.text for e in examples], [e.positive for e in examples])
    return np.stack([np.unique(column, return_inverse=True)[1] for column in columns], axis=1)


class RankingNetwork(nn.Module):
    """An encoder whose states become one vector of length 1 for a row.

    A batch is one part here, as its loss needs. Where that is more than a micro-batch, or memory
    has run out before, states are not kept for the backward pass but computed again, with the same
    dropout, a part at a time.
    """

    def __init__(self, encoder: Encoder, pooling: str) -> None:
        super().__init__()
        take_pooler(encoder.network)  # nothing reads it
        self.encoder = encoder.network
        self.pooling = pooling
        self.reads_first_token = pooling == FIRST
        self.parts = 1

    def forward(self, **inputs: Any) -> Tensor:
        """Vectors (rows, size) in fp32 for inputs of (rows, tokens)."""
        rows, tokens = inputs["input_ids"].shape
        size = min(max(1, MICRO_BATCH_TOKENS // tokens), math.ceil(rows / self.parts))
        if not torch.is_grad_enabled() or size >= rows:
            return self._embed(inputs)
        parts = [
            {name: values[start : start + size] for name, values in inputs.items()}
            for start in range(0, rows, size)
        ]
        # checkpoint keeps the generator's state of each part: dropout is drawn alike both times.
        return torch.cat([checkpoint(self._embed, part, use_reentrant=False) for part in parts])

    def _embed(self, inputs: dict[str, Any]) -> Tensor:
        hidden = self.encoder(**inputs)[0].float()  # (rows, tokens, size), or of first tokens
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
    """The cross-entropy of each query's own document among those of the batch, (items,).

    `logits` are vectors (items, 2, size), of a query and its document. As sentence-transformers'
    MultipleNegativesRankingLoss, but for what is no negative.
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
    """The best documents of each query by the exact product with all of them.

    A document of the query's own id is left out, as beir and mteb do (ArguAna, Quora).
    """
    corpus = examples[0].corpus
    vectors = torch.from_numpy(logits)  # (queries + documents, size)
    queries, documents = vectors[: len(examples)], vectors[len(examples) :]
    size = max(1, BLOCK // len(documents))  # queries of a block
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
    """The first KEPT documents in trec_eval's order: by score, then by id, the higher one first."""
    if own is not None:
        scores[own] = -np.inf
    count = min(KEPT, len(scores))
    lowest = np.partition(scores, -count)[-count]  # of those that are kept
    kept = (scores >= lowest) & np.isfinite(scores)  # (documents,), more where some are equal
    places = [int(place) for place in np.flatnonzero(kept)]
    order = sorted(places, key=lambda place: (scores[place], ids[place]), reverse=True)
    # The shortest text that reads as the same number in fp32.
    yield from ((ids[place], float(str(scores[place]))) for place in order[:count])


def head(task: RankingTask, options: RankingOptions | None) -> Head:
    """The head, with the pooling and the scale of a recipe."""
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
