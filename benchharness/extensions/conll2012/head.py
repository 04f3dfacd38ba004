"""Coreference head, which finds the mentions in a document and groups them into clusters.

The model is from Joshi et al., arXiv:1908.09091 (also used for SpanBERT, arXiv:1907.10529): the
model of Lee et al., arXiv:1804.05392 (c2f-coref), with BERT as the encoder. The hyperparameters are
from experiments.conf in mandarjoshi90/coref.

A document is cut into segments. Each segment is a row, so it is encoded independently of the
others. Every span of up to 30 tokens gets a mention score, and only the best spans are kept. Each
kept span chooses its antecedent, or none, among the 50 earlier spans that a cheap bilinear score
ranks highest. Spans that are linked in this way form a cluster.

Unlike in mandarjoshi90/coref, only spans that begin and end at word boundaries and lie in one
sentence and one segment are considered, because gold mentions do so too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial, wraps
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.encoder import Encoder
from benchharness.encoder.packing import Packing
from benchharness.errors import DataError, ModelError
from benchharness.extensions.conll2012.hyperparameters import CorefOptions
from benchharness.extensions.conll2012.task import (
    ClusterPrediction,
    CorefTask,
    DocumentExample,
    Mention,
)
from benchharness.heads import Head, Limits
from benchharness.heads.classifiers import TokenClassifier
from benchharness.heads.tokens import Frame, Tokens, join, spread, tokenize
from benchharness.training.batching import Features
from benchharness.training.compute import in_fp32

MAX_SPAN_TOKENS = 30
"""Maximum number of tokens in a span."""
KEPT_PER_TOKEN, MOST_KEPT = 0.4, 3900
"""Number of spans that are kept per document: KEPT_PER_TOKEN times the number of its tokens, but at
most MOST_KEPT.
"""

MAX_ANTECEDENTS = 50
"""Maximum number of possible antecedents per span that are scored in full."""
REFINEMENTS = 2
"""Number of rounds in which spans are scored against their antecedents. Before every round except
the first, the representation of a span is mixed with the representations of its likely antecedents
(Lee et al., section 3).
"""

HIDDEN_SIZE, FEATURE_SIZE = 3000, 20
"""Sizes of the hidden layers that compute scores, and of each feature embedding. If an encoder's
size is less than a quarter of HIDDEN_SIZE, as for encoders that are smaller than BERT-base, the
hidden layers have four times the encoder's size instead.
"""

DROPOUT, SPREAD = 0.3, 0.02
"""Dropout rate of the head, and standard deviation of its initial weights."""
DISTANCES = 10
"""Number of buckets for the distance between two kept spans. The distance is counted in kept spans.
The buckets are 0, 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, and 64 or more.
"""

DEFAULT_SEGMENTS = 5
"""Maximum number of segments of a document that a training step reads, if the recipe does not set
it.
"""

DROPPED, ALONE, FIRST_CODE = 0, 1, 2
"""Codes for a span in the network's output. DROPPED: the span was not kept. ALONE: it has no
antecedent. FIRST_CODE or a higher number: it has an antecedent, which the number identifies.
"""


@dataclass(frozen=True, kw_only=True)
class CorefFeatures(Features):
    """Features of documents. An item is a document, and its rows are the document's segments.

    Attributes:
        per_token: Names of the arrays below, which have one value per token.
        words: Index of the token's word in its document, from 1; 0 for special tokens and for
            tokens that consist of white space.
        sentences: Index of the token's sentence in its document, from 0.
        speakers: Number of the token's speaker in its document, from 0.
        documents: Index of the token's document among the examples.
        genres: Index of the document's genre in `CorefTask.genres`; 0 if the genre is unknown.
    """

    per_token: ClassVar[tuple[str, ...]] = (
        "words",
        "sentences",
        "speakers",
        "documents",
        "genres",
    )

    words: NDArray[np.int64]
    sentences: NDArray[np.int64]
    speakers: NDArray[np.int64]
    documents: NDArray[np.int64]
    genres: NDArray[np.int64]


def encode(
    examples: Sequence[DocumentExample],
    tokenizer: Any,
    limits: Limits,
    genres: Sequence[str] = (),
) -> CorefFeatures:
    """Encode every document as segments of at most `max_tokens` tokens.

    Segments end at the end of a sentence if possible, else at the end of a word.

    Args:
        examples: Documents to encode.
        tokenizer: The tokenizer of the encoder.
        limits: The limits of the recipe, such as `max_tokens`.
        genres: The known genres.

    Raises:
        ModelError: The tokenizer does not map its tokens to characters, or `max_tokens` leaves no
            room for a word.
    """
    frame = Frame.of(tokenizer, texts=1)
    room = limits.max_tokens - frame.size
    if room < 1:
        raise ModelError(
            f"max_tokens is {limits.max_tokens}, which leaves no room for a word next to the "
            "special tokens: set a larger max_tokens."
        )
    texts = [" ".join(example.words) for example in examples]
    tokens = tokenize(texts, tokenizer)
    rows, items = [], [0]
    columns: dict[str, list[NDArray[np.int64]]] = {name: [] for name in _OF_WORDS}
    for example, text in zip(examples, texts, strict=True):
        found = _columns(example, tokens[text])
        place = genres.index(example.genre) if example.genre in genres else 0
        found["genres"] = np.full(len(tokens[text]), place)
        for part in _segments(found["words"], found["sentences"], room):
            rows.append(frame.row(tokens[text].ids[part]))
            for name, parts in columns.items():
                parts.append(found[name][part])
        items.append(len(rows))
    encoded = join(rows, frame, limits.max_tokens)
    starts = encoded["starts"]  # (rows + 1,)
    encoded |= {name: spread(parts, frame.first(), starts) for name, parts in columns.items()}
    # A special token does not belong to a word, but it belongs to the document around it.
    documents = np.repeat(np.arange(len(examples)), np.diff(starts[items]))  # (tokens,)
    return CorefFeatures(**encoded, documents=documents, items=np.array(items))


_OF_WORDS = ("words", "sentences", "speakers", "genres")
"""Columns of CorefFeatures that are 0 for special tokens."""


def _columns(example: DocumentExample, tokens: Tokens) -> dict[str, NDArray[np.int64]]:
    """Return each token's word, sentence and speaker; a token of only white space has word 0."""
    starts = np.cumsum([0, *(len(word) + 1 for word in example.words)])  # 1 is for the space
    words = np.searchsorted(starts, tokens.starts, side="right")  # (tokens,), counted from 1
    sizes = [len(sentence) for sentence in example.sentences]
    names = {name: number for number, name in enumerate(dict.fromkeys(example.speakers))}
    sentences = np.repeat(np.arange(len(sizes)), sizes)[words - 1]  # (words,) -> (tokens,)
    speakers = np.repeat([names[name] for name in example.speakers], sizes)[words - 1]
    return {
        "words": np.where(tokens.starts < tokens.ends, words, 0),
        "sentences": sentences,
        "speakers": speakers,
    }


def _segments(words: NDArray[np.int64], sentences: NDArray[np.int64], room: int) -> Iterator[slice]:
    """Yield segments of at most `room` tokens that end with a sentence, if possible, or a word.

    A word with more than `room` tokens is cut.
    """
    start, total = 0, len(words)
    while start < total:
        end = min(start + room, total)
        for ends in (sentences, words):
            cuts = np.flatnonzero(np.diff(ends[start : end + 1])) + start + 1
            if end < total and len(cuts):
                end = int(cuts[-1])
                break
        yield slice(start, end)
        start = end


def targets(
    features: CorefFeatures, examples: Sequence[DocumentExample], task: CorefTask
) -> NDArray[np.int64]:
    """Return the gold mentions of every document, `[documents, mentions, 3]`, padded with 0.

    The three values of a mention are its first word, its last word and its cluster, each counted
    from 1.

    Args:
        features: Not used.
        examples: Documents with gold clusters.
        task: The task, which is named in the error message.

    Raises:
        DataError: A document hides its clusters.
    """
    hidden = next((e for e in examples if e.clusters is None), None)
    if hidden is not None:
        raise DataError(
            f"the clusters of example {hidden.id} in {task.name} are not published, so this "
            "example cannot be used for training."
        )
    found = [
        [
            (start + 1, end, number)
            for number, cluster in enumerate(example.clusters or (), start=1)
            for start, end in cluster
        ]
        for example in examples
    ]
    table = np.zeros((len(examples), max(1, *map(len, found)), 3), dtype=np.int64)
    for row, mentions in zip(table, found, strict=True):
        row[: len(mentions)] = np.array(mentions).reshape(-1, 3)
    return table


class Spans(NamedTuple):
    """Spans of one document in text order. Each tensor has one value per span, `[spans]`.

    Attributes:
        rows: Row (segment) of the span.
        starts: Position of its first token in the row.
        ends: Position of its last token in the row.
        firsts: Number of its first word in the document, from 1.
        lasts: Number of its last word in the document, from 1.
    """

    rows: Tensor
    starts: Tensor
    ends: Tensor
    firsts: Tensor
    lasts: Tensor

    def at(self, places: Tensor) -> "Spans":
        """Return only the spans at these indices."""
        return Spans(*(values[places] for values in self))


class CorefNetwork(nn.Module):
    """Encoder with a ranker of the possible antecedents of each span.

    In training, the output is the loss of each document, `[rows, 1]`; the value is at the first row
    of the document, and 0 at its other rows. Otherwise, the output has a code for the antecedent of
    each span, `[rows, tokens, 30]`, indexed by the span's row, its first token, and its number of
    tokens minus 1 (see DROPPED).

    Args:
        encoder: Encoder of the words.
        genres: Number of genres.
        segments: Maximum number of segments of a document that a training step reads.
    """

    reads_targets = True
    reads_items = True
    is_recordable = False
    """False, because the number of spans depends on the text, so a training step cannot be recorded
    as a CUDA graph.
    """

    def __init__(self, encoder: Encoder, genres: int, segments: int) -> None:
        super().__init__()
        self.encoder = encoder.network
        size = encoder.config.hidden_size
        # `read` consists of the layers of a token classifier of this model family that come before
        # its dropout and its output layer.
        self.read = TokenClassifier.for_tags(encoder.network, encoder.config, 1).transform
        self.classifier = SpanRanker(size, genres, segments)
        self.segments = segments

    def forward(self, targets: Tensor | None = None, **inputs: Any) -> Tensor:
        """Return losses in training; otherwise the predicted antecedent of each span as a code.

        The losses are `[rows, 1]`, with the loss of a document at its first row. The codes are
        `[rows, tokens, MAX_SPAN_TOKENS]`: element `[row, token, n]` belongs to the span of n + 1
        tokens that begins at the token (see `DROPPED`, `ALONE` and `FIRST_CODE`).

        Args:
            targets: Gold mentions of every document, as returned by the function `targets`; None
                outside of training.
            **inputs: Inputs of the encoder, and the arrays that are listed in
                `CorefFeatures.per_token`, each of the shape `[rows, tokens]`.
        """
        per_token = {name: inputs.pop(name) for name in CorefFeatures.per_token}
        shape = per_token["words"].shape  # (rows, tokens)
        _, counts = torch.unique_consecutive(per_token["documents"][:, 0], return_counts=True)
        firsts = np.cumsum([0, *counts.tolist()])  # (documents + 1,): first row of each
        kept = [self._window(int(first), int(last)) for first, last in pairwise(firsts)]
        if sum(map(len, kept)) < shape[0]:
            rows = torch.tensor(
                [row for part in kept for row in part], device=per_token["words"].device
            )
            inputs = _at(rows, inputs)
            per_token = {name: values[rows] for name, values in per_token.items()}
        states = self.read(self.encoder(**inputs)[0])  # (rows, tokens, size)
        sizes = inputs["attention_mask"].sum(1)  # (rows,)
        parts = [slice(a, b) for a, b in pairwise(np.cumsum([0, *map(len, kept)]).tolist())]
        losses: Tensor = states.new_zeros((shape[0], 1), dtype=torch.float32)
        codes: Tensor = losses.new_zeros(
            (0 if self.training else shape[0], shape[1], MAX_SPAN_TOKENS)
        )
        for number, part in enumerate(parts):
            # Documents are processed one at a time, because antecedents are in the same document.
            document = {name: values[part] for name, values in per_token.items()}
            found = self.classifier(states[part], document)
            if self.training and targets is not None:
                # The loss is stored at the first row of the document.
                losses[firsts[number], 0] = found.loss(targets[number])
            elif not self.training:
                codes[part] = found.codes(sizes[part], codes[part])
        return losses if self.training else codes

    def _window(self, first: int, last: int) -> range:
        """Return the rows of a document that the encoder reads: all rows, except in training.

        In training, the encoder reads at most `segments` consecutive rows from a random one on.
        """
        left = last - first - self.segments
        if not self.training or left <= 0:
            return range(first, last)
        # The row is drawn on the CPU, because the snapshots of a job contain the state of the CPU's
        # random number generator.
        start = first + int(torch.randint(left + 1, ()))
        return range(start, start + self.segments)


def _at(rows: Tensor, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the network's inputs for the rows with these indices."""
    packing = inputs.pop("packing", None)
    found = {name: values[rows] for name, values in inputs.items()}
    if packing is not None:
        lengths = packing.lengths[rows.cpu().numpy()]
        found["packing"] = Packing.of_lengths(lengths, packing.width, rows.device)
    return found


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Scores of the possible antecedents of each kept span of a document.

    Attributes:
        spans: The kept spans.
        scores: Scores `[spans, antecedents + 1]`; the first column is the score for having no
            antecedent.
        antecedents: Indices of the possible antecedents in `spans`, `[spans, antecedents]`.
        is_before: Mask `[spans, antecedents]`, which is False for a candidate that does not precede
            the span and therefore cannot be its antecedent.
    """

    spans: Spans
    scores: Tensor
    antecedents: Tensor
    is_before: Tensor

    def loss(self, gold: Tensor) -> Tensor:
        """Return the negative log-likelihood of correct antecedents, summed over the spans.

        If a span has several correct antecedents, their probabilities are added up. If it has none,
        the choice of no antecedent is correct.

        Args:
            gold: The gold mentions of this document, `[mentions, 3]`, as returned by `targets`.
        """
        is_gold = (self.spans.firsts[:, None] == gold[:, 0]) & (
            self.spans.lasts[:, None] == gold[:, 1]
        )  # (spans, mentions)
        clusters = (is_gold * gold[:, 2]).sum(1)  # (spans,), 0 if it is not a gold mention
        right = (clusters[self.antecedents] == clusters[:, None]) & (clusters > 0)[:, None]
        right = right & self.is_before
        right = torch.cat([~right.any(1, keepdim=True), right], dim=1)  # (spans, antecedents + 1)
        hits = self.scores.masked_fill(~right, -torch.inf).logsumexp(1)  # (spans,)
        total: Tensor = (self.scores.logsumexp(1) - hits).sum()
        return total

    def codes(self, sizes: Tensor, table: Tensor) -> Tensor:
        """Return a copy of a table of codes, with the best antecedent of each kept span.

        The code of an antecedent combines the position of its first token with its length. The
        position is counted over the whole document without padding. On ties, the first antecedent
        is chosen.

        Args:
            sizes: Number of tokens per row, `[rows]`.
            table: Codes `[rows, tokens, 30]`, which are all DROPPED.
        """
        offsets = sizes.cumsum(0) - sizes  # (rows,), the start of each row's tokens
        spans = self.spans
        widths = spans.ends - spans.starts  # (spans,), 0 for one token
        own = (offsets[spans.rows] + spans.starts) * MAX_SPAN_TOKENS + widths + FIRST_CODE
        best = self.scores.argmax(1)  # (spans,)
        chosen = self.antecedents.gather(1, (best - 1).clamp(min=0)[:, None])[:, 0]  # (spans,)
        code = torch.where(best > 0, own[chosen], ALONE)  # column 0 means no antecedent
        filled = table.clone()
        filled[spans.rows, spans.starts, widths] = code.to(table.dtype)
        return filled


class SpanRanker(nn.Module):
    """Network that scores the spans of a document, and the possible antecedents of each kept span.

    Args:
        size: Size of the encoder's states.
        genres: Number of genres.
        segments: Maximum number of segments in training. A larger distance between two segments
            counts as the largest one in training.
    """

    def __init__(self, size: int, genres: int, segments: int) -> None:
        super().__init__()
        span = 3 * size + FEATURE_SIZE
        hidden = min(HIDDEN_SIZE, 4 * size)
        self.head_word = nn.Linear(size, 1)
        self.widths = nn.Embedding(MAX_SPAN_TOKENS, FEATURE_SIZE)
        self.mention = _Scorer(span, hidden)
        self.prior_widths = nn.Embedding(MAX_SPAN_TOKENS, FEATURE_SIZE)
        self.width_prior = _Scorer(FEATURE_SIZE, hidden)
        self.source = nn.Linear(span, span)
        self.prior_distances = nn.Embedding(DISTANCES, FEATURE_SIZE)
        self.distance_prior = nn.Linear(FEATURE_SIZE, 1)
        self.same_speaker = nn.Embedding(2, FEATURE_SIZE)
        self.genres = nn.Embedding(max(1, genres), FEATURE_SIZE)
        self.distances = nn.Embedding(DISTANCES, FEATURE_SIZE)
        self.segments = nn.Embedding(segments, FEATURE_SIZE)
        # One layer on [span, antecedent, product, features], in four parts: the parts that read
        # a single span are computed once per span instead of once per pair.
        self.of_span = nn.Linear(span, hidden)
        self.of_antecedent = nn.Linear(span, hidden, bias=False)
        self.of_product = nn.Linear(span, hidden, bias=False)
        self.of_features = nn.Linear(4 * FEATURE_SIZE, hidden, bias=False)
        self.pair = nn.Linear(hidden, 1)
        self.gate = nn.Linear(2 * span, span)
        self.dropout = nn.Dropout(DROPOUT)
        self.apply(_initialise)

    def forward(self, states: Tensor, per_token: dict[str, Tensor]) -> Ranking:
        """Score the spans of one document, and rank the possible antecedents of the kept spans.

        Args:
            states: The states of the encoder, `[rows, tokens, size]`; a row is a segment.
            per_token: The arrays that are listed in `CorefFeatures.per_token`, keyed by name, each
                of the shape `[rows, tokens]`.
        """
        every = _candidates(per_token["words"], per_token["sentences"])
        embedded = self._embed(states, every)  # (spans, span)
        widths = every.ends - every.starts
        prior = self.width_prior(self.prior_widths.weight)  # (30,)
        scores = self.mention(embedded) + prior[widths]  # (spans,)
        kept = _prune(scores, every, int((per_token["words"] > 0).sum()))
        spans, embedded, scores = every.at(kept), embedded[kept], scores[kept]
        return self._rank(spans, embedded, scores, per_token)

    def _embed(self, states: Tensor, spans: Spans) -> Tensor:
        """Represent each span by its edge states, its width and an attention-weighted mean."""
        weights = self.head_word(states).float()[..., 0]  # (rows, tokens)
        places = torch.arange(states.shape[1], device=states.device)
        means = []
        for row, (values, scores) in enumerate(zip(states, weights, strict=True)):
            of_row = spans.rows == row
            starts, ends = spans.starts[of_row, None], spans.ends[of_row, None]
            inside = (places >= starts) & (places <= ends)  # (spans of the row, tokens)
            shares = scores.expand_as(inside).masked_fill(~inside, -torch.inf).softmax(-1)
            means.append(shares.to(values.dtype) @ values)  # (spans of the row, size)
        widths = self.dropout(self.widths(spans.ends - spans.starts))  # (spans, 20)
        first, last = states[spans.rows, spans.starts], states[spans.rows, spans.ends]
        others = (part.to(first.dtype) for part in (widths, torch.cat(means)))
        return torch.cat([first, last, *others], dim=-1)  # (spans, 3 * size + 20)

    def _rank(
        self, spans: Spans, embedded: Tensor, scores: Tensor, per_token: dict[str, Tensor]
    ) -> Ranking:
        order = torch.arange(len(scores), device=scores.device)
        before = order[:, None] - order  # (spans, spans), distance in spans
        is_before = before > 0
        buckets = _bucket(before.clamp(min=0))  # (spans, spans)
        distances = self.distance_prior(self.dropout(self.prior_distances.weight))[:, 0]  # (10,)
        products = self.dropout(self.source(embedded)) @ self.dropout(embedded).T  # (spans, spans)
        cheap = scores[:, None] + scores + products.float() + distances.float()[buckets]
        cheap = cheap.masked_fill(~is_before, -torch.inf)
        count = min(MAX_ANTECEDENTS, len(scores))
        best, antecedents = cheap.topk(count, dim=1, sorted=False)  # (spans, antecedents)
        features = self._features(spans, antecedents, buckets.gather(1, antecedents), per_token)
        nothing = best.new_zeros((len(best), 1))  # having no antecedent scores 0
        for turn in range(REFINEMENTS):
            # `found` contains the scores of every span, (spans, antecedents + 1).
            found = torch.cat([nothing, best + self._pairs(embedded, antecedents, features)], dim=1)
            if turn + 1 < REFINEMENTS:
                embedded = self._refine(embedded, antecedents, found)
        return Ranking(
            spans=spans,
            scores=found,
            antecedents=antecedents,
            is_before=is_before.gather(1, antecedents),
        )

    def _features(
        self, spans: Spans, antecedents: Tensor, distances: Tensor, per_token: dict[str, Tensor]
    ) -> Tensor:
        """Embed features of each pair: same speaker, genre, distance in spans and in segments."""
        speakers = per_token["speakers"][spans.rows, spans.starts]  # (spans,)
        same = (speakers[:, None] == speakers[antecedents]).long()  # (spans, antecedents)
        genres = per_token["genres"][spans.rows, spans.starts]  # (spans,)
        apart = spans.rows[:, None] - spans.rows[antecedents]  # (spans, antecedents)
        apart = apart.clamp(0, self.segments.num_embeddings - 1)
        genre = self.genres(genres)[:, None].expand(-1, antecedents.shape[1], -1)
        parts = [self.same_speaker(same), genre, self.distances(distances), self.segments(apart)]
        features: Tensor = self.dropout(torch.cat(parts, dim=-1))  # (spans, antecedents, 80)
        return features

    def _pairs(self, embedded: Tensor, antecedents: Tensor, features: Tensor) -> Tensor:
        """Return the score of each span with each antecedent, `[spans, antecedents]`, in fp32."""
        products = embedded[:, None] * embedded[antecedents]  # (spans, antecedents, span)
        hidden = self.of_product(products) + self.of_features(features)  # (.., hidden)
        hidden = (
            hidden + self.of_span(embedded)[:, None] + self.of_antecedent(embedded)[antecedents]
        )
        scores: Tensor = in_fp32(self.pair, self.dropout(hidden.relu()))[..., 0]
        return scores

    def _refine(self, embedded: Tensor, antecedents: Tensor, scores: Tensor) -> Tensor:
        """Mix each span's representation with its antecedents', weighted by their probabilities."""
        shares = scores.softmax(1).to(embedded.dtype)  # (spans, antecedents + 1)
        others = (shares[:, 1:, None] * embedded[antecedents]).sum(1)  # (spans, span)
        attended = shares[:, :1] * embedded + others  # (spans, span)
        gate = self.gate(torch.cat([embedded, attended], dim=-1)).sigmoid()  # (spans, span)
        mixed: Tensor = gate * attended + (1 - gate) * embedded
        return mixed


class _Scorer(nn.Module):
    """Feed-forward network with one hidden layer, whose output is a score in fp32."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, 1)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, states: Tensor) -> Tensor:
        """Return scores `[...]` of states `[..., inputs]`."""
        return in_fp32(self.output, self.dropout(self.hidden(states).relu()))[..., 0]


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        # tf.truncated_normal_initializer also cuts at two standard deviations.
        nn.init.trunc_normal_(module.weight, std=SPREAD, a=-2 * SPREAD, b=2 * SPREAD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def _candidates(words: Tensor, sentences: Tensor) -> Spans:
    """Return all spans of up to 30 tokens that are whole words of one sentence and one segment."""
    rows, tokens = words.shape
    none = words.new_zeros((rows, 1))
    is_word = words > 0
    begins = is_word & (words != torch.cat([none, words[:, :-1]], dim=1))  # (rows, tokens)
    ends = is_word & (words != torch.cat([words[:, 1:], none], dim=1))
    places = torch.arange(tokens, device=words.device)
    lasts = places[:, None] + torch.arange(MAX_SPAN_TOKENS, device=words.device)  # (tokens, 30)
    fits = lasts < tokens  # (tokens, 30)
    lasts = lasts.clamp(max=tokens - 1)
    same = sentences[:, :, None] == sentences[:, lasts]  # (rows, tokens, 30)
    row, start, width = (begins[:, :, None] & ends[:, lasts] & same & fits).nonzero(as_tuple=True)
    end = start + width
    return Spans(row, start, end, words[row, start], words[row, end])


def _prune(scores: Tensor, spans: Spans, tokens: int) -> Tensor:
    """Return the sorted indices of the best spans; skip spans that partly overlap a better one."""
    wanted = min(MOST_KEPT, max(1, int(tokens * KEPT_PER_TOKEN)))
    # Decide on the CPU, span by span, because each decision depends on all spans kept so far.
    order = scores.detach().float().sort(descending=True, stable=True).indices.cpu().numpy()
    firsts, lasts = spans.firsts.cpu().numpy(), spans.lasts.cpu().numpy()
    beyond = int(lasts.max(initial=0)) + 1
    # reach[word]: last word of the longest kept span that begins at this word. back[word]: first
    # word of the longest kept span that ends at this word.
    reach = np.zeros(beyond + 1, dtype=np.int64)
    back = np.full(beyond + 1, beyond)
    kept = []
    for place in order:
        first, last = firsts[place], lasts[place]
        if (reach[first + 1 : last + 1] > last).any() or (back[first:last] < first).any():
            continue
        kept.append(place)
        reach[first], back[last] = max(reach[first], last), min(back[last], first)
        if len(kept) == wanted:
            break
    return torch.tensor(sorted(kept), dtype=torch.int64, device=scores.device)


def _bucket(distances: Tensor) -> Tensor:
    """Map distances to buckets: 0, 1, 2, 3, 4, then one per power of two, up to 64 and more."""
    # The base-2 logarithms of 5, 6 and 7 are rounded down to 2, and 2 + 3 is bucket 5.
    powers = distances.clamp(min=1).float().log2().floor().long() + 3
    return torch.where(distances <= 4, distances, powers).clamp(max=DISTANCES - 1)


def network(encoder: Encoder, task: CorefTask, segments: int = DEFAULT_SEGMENTS) -> CorefNetwork:
    """Return the network of a task.

    Args:
        encoder: Encoder of the words.
        task: Coreference task.
        segments: Maximum number of segments of a document that a training step reads.
    """
    return CorefNetwork(encoder, len(task.genres), segments)


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of each document, `[documents]`.

    The losses are computed by the network, which reads the targets in training.

    Args:
        logits: Output of the network in training, `[documents, segments, 1]`, with -inf for missing
            segments.
        targets: Not used.
    """
    # The output consists of losses, (documents, segments, 1).
    found = logits[..., 0]  # (documents, segments), -inf for missing segments
    return found.masked_fill(found.isneginf(), 0.0).sum(1)


def decode(
    logits: NDArray[np.float32],
    features: CorefFeatures,
    examples: Sequence[DocumentExample],
    task: CorefTask,
) -> tuple[ClusterPrediction, ...]:
    """Return the clusters of every document: the spans that are linked by antecedents.

    Clusters, and the mentions in them, are sorted by position.

    Args:
        logits: Codes of the antecedents, `[tokens, 30]`, for all tokens of all documents without
            padding; see `CorefNetwork`.
        features: The features of the documents.
        examples: Documents to predict.
        task: Not used.
    """
    # The codes have the shape (tokens, 30): rows are concatenated, as in `features.token_ids`.
    bounds = features.starts[features.item_starts]  # (documents + 1,)
    return tuple(
        ClusterPrediction(id=example.id, clusters=_clusters(logits[a:b], features.words[a:b]))
        for example, (a, b) in zip(examples, pairwise(bounds), strict=True)
    )


def _clusters(
    codes: NDArray[np.float32], words: NDArray[np.int64]
) -> tuple[tuple[Mention, ...], ...]:
    places, widths = np.nonzero(codes >= FIRST_CODE)  # both (linked spans,), in text order
    clusters: dict[Mention, list[Mention]] = {}

    def mention(place: int, width: int) -> Mention:
        return int(words[place]) - 1, int(words[place + width])

    # Antecedents precede their spans, so an antecedent's cluster is known already.
    for place, width in zip(places.tolist(), widths.tolist(), strict=True):
        before = mention(*divmod(int(codes[place, width]) - FIRST_CODE, MAX_SPAN_TOKENS))
        cluster = clusters.setdefault(before, [before])
        cluster.append(mention(place, width))
        clusters[cluster[-1]] = cluster
    unique = {id(cluster): tuple(sorted(cluster)) for cluster in clusters.values()}
    return tuple(sorted(unique.values()))


def head(task: CorefTask, options: CorefOptions | None) -> Head:
    """Return the functions of the coreference head.

    Args:
        task: The task, which determines the known genres.
        options: Hyperparameters of the recipe; None for the defaults.
    """
    return _head(task.genres, options and options.training_segments)


@cache
def _head(genres: tuple[str, ...], segments: int | None) -> Head:

    @wraps(encode)  # the cache of encoded splits reads the function's name
    def encode_genres(
        examples: Sequence[DocumentExample], tokenizer: Any, limits: Limits
    ) -> CorefFeatures:
        return encode(examples, tokenizer, limits, genres)

    return Head(
        encode=encode_genres,
        targets=targets,
        network=partial(network, segments=segments or DEFAULT_SEGMENTS),
        loss=loss,
        decode=decode,
    )
