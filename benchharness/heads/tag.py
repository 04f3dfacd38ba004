"""Tag head: predicts one tag per word. Semantic roles are predicted for a marked predicate.

The first token of a word carries its tag. A sentence that is too long is read in windows that
overlap by half; each word is learned and predicted in the window where it has the most context. If
the recipe sets `context=document`, a sentence is read with the document's tokens around it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchharness.encoder import Encoder
from benchharness.encoder.packing import send
from benchharness.errors import DataError, ModelError
from benchharness.heads import Head, Limits, best_windows, cut_windows, divergence
from benchharness.heads.classifiers import TokenClassifier
from benchharness.heads.tokens import Frame, Ids, Tokens, join, spread, tokenize
from benchharness.recipes.recipe import DOCUMENT, TagOptions
from benchharness.tasks.examples import RoleExample, Surroundings, TagExample, TagPrediction
from benchharness.tasks.task import RoleTask, TagTask
from benchharness.training.batching import Features, expand
from benchharness.training.compute import in_fp32

IGNORED = -100
"""Target of a token without a tag; it is the default `ignore_index` of cross_entropy."""

OUTSIDE = "O"


@dataclass(frozen=True, kw_only=True)
class TagFeatures(Features):
    """Encoded sentences, which may be cut into windows.

    The tag of a word is predicted at the first of its tokens, in one window.

    Attributes:
        words: For each token at which a tag is predicted, the index of its word, counted over all
            sentences; -1 for all other tokens: `[tokens]`. The indices of words without tokens do
            not occur.
    """

    carried = ("words",)

    words: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class _Text:
    """Tokenized sentence.

    `words` is as in TagFeatures. If the sentence has a predicate, `marked` is the range of the
    predicate's tokens, and `second` contains the predicate alone, which is encoded as second text.
    """

    tokens: Tokens
    words: NDArray[np.int64]
    marked: tuple[int, int]
    second: tuple[Ids, ...]


@dataclass(frozen=True, kw_only=True)
class _Window:
    """Window of a sentence, encoded as a row.

    The sentence's tokens begin at position `first` of the row; `words` is as in TagFeatures.
    `marks` is the token range of the predicate in the row: in the sentence, or else in the second
    text. `before` and `after` are the numbers of document tokens on either side of the sentence.
    """

    row: tuple[Ids, Ids]
    first: int
    words: NDArray[np.int64]
    marks: list[list[int]]
    before: int = 0
    after: int = 0


def encode(examples: Sequence[TagExample], tokenizer: Any, limits: Limits) -> TagFeatures:
    """Encode every sentence as windows.

    A sentence is tokenized as one text, with its words joined by spaces. In semantic role labeling,
    the predicate follows in each window as a second text. Raises ModelError for a tokenizer that
    does not map its tokens to characters.
    """
    asks = isinstance(examples[0], RoleExample)
    frame = Frame.of(tokenizer, texts=2 if asks else 1)
    sentences = [" ".join(example.words) for example in examples]
    predicates = [_predicate(example) for example in examples]
    tokens = tokenize([*sentences, *(predicates if asks else ())], tokenizer)
    counted = np.cumsum([0, *(len(example.words) for example in examples)])
    windows = [
        window
        for example, sentence, predicate, count in zip(
            examples, sentences, predicates, counted[:-1], strict=True
        )
        for second in [(tokens[predicate].ids,) if asks else ()]
        for window in _windows(_text(example, tokens[sentence], count, second), frame, limits)
    ]
    return _features(windows, frame, limits)


def _text(example: TagExample, tokens: Tokens, count: int, second: tuple[Ids, ...] = ()) -> _Text:
    """Return a tokenized sentence; `count` is the number of words in all sentences before it."""
    carried = _carried_words(example, tokens)
    return _Text(
        tokens=tokens,
        words=np.where(carried < 0, -1, carried + count),
        marked=_marked(example, tokens),
        second=second,
    )


def _features(windows: Sequence[_Window], frame: Frame, limits: Limits) -> TagFeatures:
    columns = join([window.row for window in windows], frame, limits.max_tokens)
    firsts = np.array([window.first for window in windows])  # (windows,)
    words = spread([window.words for window in windows], firsts, columns["starts"], empty=-1)
    return TagFeatures(
        **columns,
        # The loss is a mean over words, and windows have different numbers of words.
        terms=np.add.reduceat(words >= 0, columns["starts"][:-1]).astype(np.int64),
        words=words,
        marks=np.array([window.marks for window in windows]) if len(frame.texts) > 1 else None,
        read=_read(windows, columns["starts"]),
    )


def _read(windows: Sequence[_Window], starts: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Return a mask of the tokens that are not document context; None if there is no context."""
    before, after = (np.array([getattr(w, n) for w in windows]) for n in ("before", "after"))
    if not before.any() and not after.any():
        return None
    firsts = starts[:-1] + np.array([window.first for window in windows])  # (windows,)
    sizes = np.array([len(window.words) for window in windows])
    read = np.full(starts[-1], fill_value=True)
    read[expand(firsts - before, before)] = False
    read[expand(firsts + sizes, after)] = False
    return read


def encode_in_documents(
    examples: Sequence[TagExample], tokenizer: Any, limits: Limits
) -> TagFeatures:
    """Encode every sentence with as much of the surrounding document as fits.

    The document is tokenized as one text. The room that a sentence leaves in a row is shared evenly
    between the tokens before it and after it. If one side is too short to fill its half, the other
    side gets the rest. This follows examples/ner/reader.py of studio-ousia/luke, which reads
    CoNLL-2003 as BERT's paper does. A sentence that leaves no room for context is encoded by
    itself, as in `encode`. Raises DataError for an example without a document, and ModelError for a
    tokenizer that does not map its tokens to characters.
    """
    frame = Frame.of(tokenizer, texts=1)
    texts = {d.words: " ".join(d.words) for d in map(_document, examples)}
    tokens = tokenize(texts.values(), tokenizer)
    counted = np.cumsum([0, *(len(example.words) for example in examples)])
    windows: list[_Window] = []
    for example, count in zip(examples, counted[:-1], strict=True):
        document = _document(example)
        every = tokens[texts[document.words]]
        # Offsets of the sentence in the document's text; 1 is for the space after each word.
        start = sum(len(word) + 1 for word in document.words[: document.start])
        end = start + sum(len(word) + 1 for word in example.words)
        own = slice(*np.searchsorted(every.starts, [start, end]).tolist())
        inside = every[own]
        moved = replace(inside, starts=inside.starts - start, ends=inside.ends - start)
        windows += _surrounded(_text(example, moved, count), every, own, frame, limits)
    return _features(windows, frame, limits)


def _document(example: TagExample) -> Surroundings:
    if example.document is None:
        raise DataError(
            f"example {example.id} belongs to no document, so context=document cannot be used: "
            "remove the setting context."
        )
    return example.document


def _surrounded(
    text: _Text, every: Tokens, own: slice, frame: Frame, limits: Limits
) -> Iterator[_Window]:
    """Yield the window of a sentence with context from its document.

    `every` contains the tokens of the document, and `own` is the range of the sentence's tokens. If
    there is no room for context, yield the windows of the sentence without context.
    """
    room = limits.max_tokens - frame.size - len(text.tokens)
    if room <= 0:
        yield from _windows(text, frame, limits)
        return
    left, right = own.start, len(every) - own.stop  # tokens of the document on either side
    if left < right:
        before = min(left, room // 2)
        after = min(right, room - before)
    else:
        after = min(right, room // 2)
        before = min(left, room - after)
    yield _Window(
        row=frame.row(every.ids[own.start - before : own.stop + after]),
        first=frame.first() + before,
        words=text.words,
        marks=[[0, 1]],
        before=before,
        after=after,
    )


def _predicate(example: TagExample) -> str:
    return example.words[example.predicate] if isinstance(example, RoleExample) else ""


def _marked(example: TagExample, tokens: Tokens) -> tuple[int, int]:
    """Return the predicate's first token and the token after its last; (0, 0) if there is none."""
    if not isinstance(example, RoleExample):
        return 0, 0
    start = sum(len(word) + 1 for word in example.words[: example.predicate])  # 1 for the space
    found = tokens.covering(start, start + len(_predicate(example)))
    return (0, 0) if found is None else (found[0], found[1] + 1)


def _carried_words(example: TagExample, tokens: Tokens) -> NDArray[np.int64]:
    """Return for each token the index of the word that it begins, or -1 for other tokens."""
    starts = np.cumsum([0, *(len(word) + 1 for word in example.words)])  # 1 for the space
    words = np.searchsorted(starts, tokens.starts, side="right") - 1  # (tokens,)
    words[tokens.starts == tokens.ends] = -1
    found, firsts = np.unique(words, return_index=True)  # the first token of each word
    carried = np.full(len(tokens), -1)  # (tokens,)
    carried[firsts[found >= 0]] = found[found >= 0]
    return carried


def _windows(text: _Text, frame: Frame, limits: Limits) -> Iterator[_Window]:
    room = limits.max_tokens - frame.size
    second = tuple(ids[: room // 2] for ids in text.second)
    room -= sum(map(len, second))  # the predicate is in every window
    parts = cut_windows(len(text.tokens), room, stride=max(1, room // 2))  # overlap by half
    best = best_windows(parts)  # (tokens,)
    for number, part in enumerate(parts):
        ids = text.tokens.ids[part]
        yield _Window(
            row=frame.row(ids, *second),
            first=frame.first(),
            words=np.where(best[part] == number, text.words[part], -1),
            marks=[_place(text.marked, part, ids, frame, second)],
        )


def _place(
    marked: tuple[int, int], part: slice, ids: Ids, frame: Frame, second: tuple[Ids, ...]
) -> list[int]:
    """Return the predicate's token range in a row; the row's first token if it has no tokens."""
    start, end = marked
    if start < end and part.start <= start and end <= part.stop:
        shift = frame.first() - part.start
        return [start + shift, end + shift]
    if second and len(second[0]):
        first = frame.first(ids)
        return [first, first + len(second[0])]
    return [0, 1]


def targets(
    features: TagFeatures, examples: Sequence[TagExample], task: TagTask
) -> NDArray[np.int64]:
    """Return the index of every token's tag in `task.tags`, or IGNORED: `[windows, tokens]`.

    IGNORED stands for padding, and for tokens at which no tag is predicted (see TagFeatures).
    Raises DataError if the tags of an example are not published, or if their number differs from
    the number of words.
    """
    numbers = {tag: number for number, tag in enumerate(task.tags)}
    tags = np.array([numbers[t] for e in examples for t in _tags(e, task)], dtype=np.int64)
    is_token = np.arange(features.lengths.max()) < features.lengths[:, None]  # (windows, tokens)
    table = np.full(is_token.shape, IGNORED, dtype=np.int64)
    table[is_token] = np.append(tags, IGNORED)[features.words]  # -1 selects the appended IGNORED
    return table


def _tags(example: TagExample, task: TagTask) -> Sequence[str]:
    if example.tags is None:
        raise DataError(
            f"the tags of example {example.id} in {task.name} are not published, so this example "
            "cannot be used for training."
        )
    if len(example.tags) != len(example.words):
        raise DataError(
            f"{task.name} {example.id} has {len(example.words)} words and {len(example.tags)} "
            "tags: expected one tag for each word."
        )
    return example.tags


class TagNetwork(nn.Module):
    """Encoder with the token classifier of its family, which returns one logit per tag and token.

    Args:
        encoder: Encoder with its config.
        outputs: Number of tags.
        lstm_size: Size of each direction of a bidirectional LSTM with two layers between the
            encoder and the classifier; 0 for no LSTM.
    """

    def __init__(self, encoder: Encoder, outputs: int, lstm_size: int = 0) -> None:
        super().__init__()
        self.encoder = encoder.network
        self.classifier = TokenClassifier.for_tags(encoder.network, encoder.config, outputs)
        self.lstm = None
        if lstm_size:
            size = self.classifier.output.in_features
            self.lstm = nn.LSTM(size, lstm_size, num_layers=2, bidirectional=True, batch_first=True)
            self.classifier.output = nn.Linear(2 * lstm_size, outputs)

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return logits `[rows, tokens, tags]` for the encoder's inputs, `[rows, tokens]` each."""
        states = self.encoder(**inputs)[0]  # (rows, tokens, size)
        if self.lstm is not None:
            lengths = inputs["attention_mask"].sum(-1).cpu()  # (rows,)
            states = in_fp32(partial(both_ways, self.lstm, lengths=lengths), states)
        return in_fp32(self.classifier.output, self.classifier.read(states))


def both_ways(lstm: nn.LSTM, states: Tensor, lengths: Tensor) -> Tensor:
    """Apply a bidirectional LSTM to padded rows.

    The rows are sorted by length here, because torch's own sorting would make the CPU wait for the
    device twice.

    Args:
        lstm: Bidirectional LSTM.
        states: States, padded at the end of each row: `[rows, tokens, size]`.
        lengths: Number of tokens of each row without padding, in CPU memory: `[rows]`.

    Returns:
        States `[rows, tokens, 2 * lstm size]`, 0 at padding.
    """
    lengths, order = torch.sort(lengths, descending=True)
    first, back = send([order.numpy(), order.argsort().numpy()], states.device)  # (rows,) both
    packed = pack_padded_sequence(states.index_select(0, first), lengths, batch_first=True)
    read, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=states.shape[1])
    return read.index_select(0, back)


class RoleNetwork(nn.Module):
    """Network for semantic role labeling: encoder, BiLSTM and hidden layer.

    As in Shi and Lin, arXiv:1904.05255, section 3, the BiLSTM reads the encoder's states and an
    embedding that marks the predicate. Each BiLSTM state is concatenated with the predicate's
    state and enters a layer of 300 units. Each direction of the BiLSTM is as large as the encoder's
    states: 768 for BERT-base, as in the paper, and 1,024 for BERT-large, where the paper uses 768.

    Args:
        encoder: Encoder with its config.
        outputs: Number of tags.
    """

    is_recordable = False
    """False: steps cannot be recorded as CUDA graphs, because the lengths that the BiLSTM needs are
    in CPU memory."""

    def __init__(self, encoder: Encoder, outputs: int) -> None:
        super().__init__()
        self.encoder = encoder.network
        size = encoder.config.hidden_size
        self.classifier = TokenClassifier.for_tags(encoder.network, encoder.config, outputs)
        self.indicator = nn.Embedding(2, INDICATOR_SIZE)
        self.context = nn.LSTM(size + INDICATOR_SIZE, size, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(4 * size, HIDDEN_SIZE)
        self.classifier.output = nn.Linear(HIDDEN_SIZE, outputs)

    def forward(self, **inputs: Any) -> Tensor:
        """Return logits `[rows, tokens, tags]` for the encoder's inputs, `[rows, tokens]` each.

        The further input `marks` `[rows, 1, 2]` contains the position of the predicate's first
        token, and of the token after its last.
        """
        starts, ends = inputs.pop("marks")[:, 0, :, None].unbind(1)  # (rows, 1) both
        mask, packing = inputs["attention_mask"], inputs.get("packing")
        states = self.classifier.read(self.encoder(**inputs)[0])  # (rows, tokens, size)
        # A packing has the lengths in CPU memory. Copying them from the device would make the CPU
        # wait.
        lengths = mask.sum(1).cpu() if packing is None else torch.from_numpy(packing.lengths)
        places = torch.arange(mask.shape[1], device=mask.device)  # (tokens,)
        is_predicate = (places >= starts) & (places < ends)  # (rows, tokens)
        with torch.autocast(states.device.type, enabled=False):
            # Concatenate (rows, tokens, size) with (rows, tokens, 10).
            told = torch.cat([states.float(), self.indicator(is_predicate.long())], dim=-1)
            around = both_ways(self.context, told, lengths)  # (rows, tokens, 2 * size)
            rows = torch.arange(len(starts), device=mask.device)  # (rows,)
            predicate = around[rows, starts[:, 0]][:, None].expand_as(around)
            hidden = self.hidden(torch.cat([around, predicate], dim=-1)).relu()
            logits: Tensor = self.classifier.output(hidden)
        return logits


INDICATOR_SIZE, HIDDEN_SIZE = 10, 300
"""Sizes of the predicate embedding and of the hidden layer before the output layer, as in Shi and
Lin, section 3.2."""


def network(encoder: Encoder, task: TagTask, lstm_size: int = 0) -> nn.Module:
    """Return the network for a task, with the layers of transformers' TokenClassification classes.

    Semantic role labeling has a network of its own, RoleNetwork, which contains a BiLSTM. Therefore
    ModelError is raised if `lstm_size` (see TagNetwork) is set for such a task.
    """
    if not isinstance(task, RoleTask):
        return TagNetwork(encoder, len(task.tags), lstm_size)
    if lstm_size:
        raise ModelError(f"the network of {task.name} already has a BiLSTM: remove lstm_size.")
    return RoleNetwork(encoder, len(task.tags))


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return one loss per window in fp32: the sum of the cross-entropies of its words.

    Training divides the losses by the number of words in the batch, so that all words count
    equally. `logits` are `[windows, tokens, tags]`, and `targets` `[windows, tokens]` are IGNORED
    for tokens without a tag. The two numbers of tokens may differ, because of padding.
    """
    width = min(logits.shape[1], targets.shape[1])  # both cover at least the longest row
    classes = logits[:, :width].float().transpose(1, 2)  # (windows, tags, tokens)
    words = functional.cross_entropy(
        classes, targets[:, :width], ignore_index=IGNORED, reduction="none"
    )
    return words.sum(-1)  # (windows, tokens) -> (windows,)


def soft_loss(logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Return one distillation loss per window: the sum of the divergences of its words' tags.

    `logits` (of the student) and `teacher` are `[windows, tokens, tags]`. A token is ignored where
    `targets` `[windows, tokens]` is IGNORED.
    """
    width = min(logits.shape[1], targets.shape[1])
    words = divergence(logits[:, :width], teacher[:, :width], temperature)  # (windows, tokens)
    return words.where(targets[:, :width] != IGNORED, 0.0).sum(-1)


def decode(
    logits: NDArray[np.float32],
    features: TagFeatures,
    examples: Sequence[TagExample],
    task: TagTask,
) -> tuple[TagPrediction, ...]:
    """Return the most probable tag of every word, in the IOB2 format.

    Words without tokens get the tag "O", or the task's first tag if there is no "O". In IOB2 the
    first tag of an entity is a "B-" tag. Therefore an "I-" tag becomes a "B-" tag at the start of a
    sentence, and if the tag before it has another type or is "O". conlleval treats both tags in the
    same way, so the score does not change. `logits` are `[tokens, tags]`, one row per token of the
    concatenated windows.
    """
    counted = np.cumsum([0, *(len(example.words) for example in examples)])
    outside = task.tags.index(OUTSIDE) if OUTSIDE in task.tags else 0
    numbers = np.full(counted[-1], outside)  # (words of all sentences,)
    is_carrier = features.words >= 0  # (tokens,); the logits are (tokens, tags)
    numbers[features.words[is_carrier]] = logits[is_carrier].argmax(-1)
    return tuple(
        TagPrediction(id=example.id, tags=_in_iob2([task.tags[number] for number in part]))
        for example, part in zip(examples, np.split(numbers, counted[1:-1]), strict=True)
    )


def _in_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    # "I-PER" after "B-PER" or "I-PER" continues an entity; after any other tag, it begins one.
    before = [OUTSIDE, *tags]  # shifted by one: the tag before each
    return tuple(
        f"B-{tag[2:]}" if tag.startswith("I-") and last[1:] != tag[1:] else tag
        for last, tag in zip(before, tags, strict=False)
    )


TAG = Head(
    encode=encode,
    targets=targets,
    network=network,
    loss=loss,
    decode=decode,
    soft_loss=soft_loss,
)


def head(task: TagTask, options: TagOptions | None) -> Head:
    """Return the tag head for a recipe's options; None stands for the default options.

    With `lstm_size`, the head has a BiLSTM, and with `context=document`, sentences are read with
    the surrounding document. Both follow BERT's paper, arXiv:1810.04805, section 5.3: "a randomly
    initialized two-layer 768-dimensional BiLSTM before the classification layer", and "the maximal
    document context provided by the data". The argument `task` is not used.
    """
    if options is None:
        return TAG
    found = replace(TAG, encode=encode_in_documents) if options.context == DOCUMENT else TAG
    if options.lstm_size:
        found = replace(found, network=partial(network, lstm_size=options.lstm_size))
    return found
