"""The tag head: the words of a sentence to one tag each; of a marked predicate, its arguments.

A word's first token carries its tag. A sentence that is longer than the room is read in windows
that overlap by half, and each word is learned and predicted in the one where it has most context.
Where the encoder reads a sentence in its document, it has as many tokens of it on either side.
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
from benchharness.heads import Head, Limits, best_windows, cut_windows, divergence
from benchharness.heads.classifiers import TokenClassifier
from benchharness.heads.tokens import Frame, Ids, Tokens, join, spread, tokenize
from benchharness.recipes.recipe import DOCUMENT, TagOptions
from benchharness.tasks.errors import DataError, ModelError
from benchharness.tasks.examples import RoleExample, Surroundings, TagExample, TagPrediction
from benchharness.tasks.task import RoleTask, TagTask
from benchharness.training.batching import Features, expand
from benchharness.training.compute import in_fp32

IGNORED = -100
"""The tag number of a token without a tag: cross_entropy's own."""

OUTSIDE = "O"


@dataclass(frozen=True, kw_only=True)
class TagFeatures(Features):
    """Windows of sentences; `words` is the word whose tag a token carries, and -1 for the others.

    Words are counted through all sentences. Each stands there once, or never where the tokenizer
    makes nothing of it.
    """

    carried = ("words",)

    words: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class _Text:
    """A sentence: its tokens, the word that each carries, the marked ones, and its second texts.

    Beside a sentence with a predicate stands the predicate's own tokens.
    """

    tokens: Tokens
    words: NDArray[np.int64]
    marked: tuple[int, int]
    second: tuple[Ids, ...]


@dataclass(frozen=True, kw_only=True)
class _Window:
    """One row, where its part of the sentence begins, and the word that each token carries.

    `marks` is where the predicate stands in the row: in the sentence, or else after it. Around the
    part are the numbers of tokens `before` and `after` it that are the document's.
    """

    row: tuple[Ids, Ids]
    first: int
    words: NDArray[np.int64]
    marks: list[list[int]]
    before: int = 0
    after: int = 0


def encode(examples: Sequence[TagExample], tokenizer: Any, limits: Limits) -> TagFeatures:
    """The windows of every sentence, its words joined by spaces as the tokenizer expects text.

    A sentence with a predicate has it once more behind it, as a second text. Raises ModelError for
    a tokenizer that does not know which characters its tokens stand for.
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
    """A sentence before whose first word `count` others are counted."""
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
        # The loss is over words, and a window may have few of them.
        terms=np.add.reduceat(words >= 0, columns["starts"][:-1]).astype(np.int64),
        words=words,
        marks=np.array([window.marks for window in windows]) if len(frame.texts) > 1 else None,
        read=_read(windows, columns["starts"]),
    )


def _read(windows: Sequence[_Window], starts: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Which tokens are not of the document around a sentence; None where none is."""
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
    """The same with as much of each sentence's document around it as there is room for.

    The document is tokenized as one text. The room that a sentence leaves is shared evenly between
    what comes before and after it, and what one side does not fill is the other's, as in
    studio-ousia/luke, examples/ner/reader.py, which reads CoNLL-2003 as BERT's paper does. A
    sentence without room around it is read as `encode` does. Raises DataError for an example
    without a document.
    """
    frame = Frame.of(tokenizer, texts=1)
    texts = {d.words: " ".join(d.words) for d in map(_document, examples)}
    tokens = tokenize(texts.values(), tokenizer)
    counted = np.cumsum([0, *(len(example.words) for example in examples)])
    windows: list[_Window] = []
    for example, count in zip(examples, counted[:-1], strict=True):
        document = _document(example)
        every = tokens[texts[document.words]]
        # The characters up to the sentence, and to what follows it; 1 for the space of each word.
        start = sum(len(word) + 1 for word in document.words[: document.start])
        end = start + sum(len(word) + 1 for word in example.words)
        own = slice(*np.searchsorted(every.starts, [start, end]).tolist())
        inside = every[own]
        moved = replace(inside, starts=inside.starts - start, ends=inside.ends - start)
        windows += _surrounded(_text(example, moved, count), every, own, frame, limits)
    return _features(windows, frame, limits)


def _document(example: TagExample) -> Surroundings:
    if example.document is None:
        raise DataError(f"{example.id} stands in no document: it cannot be read with one.")
    return example.document


def _surrounded(
    text: _Text, every: Tokens, own: slice, frame: Frame, limits: Limits
) -> Iterator[_Window]:
    """The window of a sentence, which are the `own` ones of every token of its document."""
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
    """The first token of the predicate and the one after its last; none where it has no token."""
    if not isinstance(example, RoleExample):
        return 0, 0
    start = sum(len(word) + 1 for word in example.words[: example.predicate])  # 1 for the space
    found = tokens.covering(start, start + len(_predicate(example)))
    return (0, 0) if found is None else (found[0], found[1] + 1)


def _carried_words(example: TagExample, tokens: Tokens) -> NDArray[np.int64]:
    """The word that each token is the first one of, -1 for all other tokens."""
    starts = np.cumsum([0, *(len(word) + 1 for word in example.words)])  # 1 for the space
    words = np.searchsorted(starts, tokens.starts, side="right") - 1  # (tokens,)
    words[tokens.starts == tokens.ends] = -1
    found, firsts = np.unique(words, return_index=True)  # the first token of each
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
    """Where the predicate stands in a row; the first token stands for one without a token."""
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
    """The tag number of every token, (windows, tokens of the longest), -100 for one without."""
    numbers = {tag: number for number, tag in enumerate(task.tags)}
    tags = np.array([numbers[t] for e in examples for t in _tags(e, task)], dtype=np.int64)
    is_token = np.arange(features.lengths.max()) < features.lengths[:, None]  # (windows, tokens)
    table = np.full(is_token.shape, IGNORED, dtype=np.int64)
    table[is_token] = np.append(tags, IGNORED)[features.words]  # no word is word -1
    return table


def _tags(example: TagExample, task: TagTask) -> Sequence[str]:
    if example.tags is None:
        raise DataError(f"{task.name} hides the tags of {example.id}: it cannot be trained on.")
    if len(example.tags) != len(example.words):
        raise DataError(
            f"{task.name} {example.id} has {len(example.words)} words and {len(example.tags)} "
            "tags: expected one tag for each word."
        )
    return example.tags


class TagNetwork(nn.Module):
    """An encoder and its family's layers from every token to a logit for each tag.

    With `lstm_size` a bidirectional LSTM of two layers reads the states between them.
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
        """Logits (rows, tokens, tags)."""
        states = self.encoder(**inputs)[0]  # (rows, tokens, size)
        if self.lstm is not None:
            lengths = inputs["attention_mask"].sum(-1).cpu()  # (rows,)
            states = in_fp32(partial(both_ways, self.lstm, lengths=lengths), states)
        return in_fp32(self.classifier.output, self.classifier.read(states))


def both_ways(lstm: nn.LSTM, states: Tensor, lengths: Tensor) -> Tensor:
    """States (rows, tokens, size) through an LSTM, (rows, tokens, 2 * its size); 0 at padding.

    `lengths` (rows,) are on the CPU. The longest row goes first, as torch would have it; it would
    wait for the device twice to put them in order and back.
    """
    lengths, order = torch.sort(lengths, descending=True)
    first, back = send([order.numpy(), order.argsort().numpy()], states.device)  # (rows,) both
    packed = pack_padded_sequence(states.index_select(0, first), lengths, batch_first=True)
    read, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=states.shape[1])
    return read.index_select(0, back)


class RoleNetwork(nn.Module):
    """An encoder, a BiLSTM that is told which word is the predicate, and a layer after that.

    Shi and Lin, arXiv:1904.05255, section 3: the states with an embedding of being the predicate go
    into one BiLSTM; each of its states with the predicate's goes into a layer of 300 units. The
    BiLSTM's states are as large as the encoder's, 768 in each direction of BERT-base as there;
    the paper has 768 of BERT-large too, whose own are 1,024.
    """

    is_recordable = False
    """How many tokens the BiLSTM reads is known on the host alone."""

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
        """Logits (rows, tokens, tags); `marks` (rows, 1, 2) is where the predicate stands."""
        starts, ends = inputs.pop("marks")[:, 0, :, None].unbind(1)  # (rows, 1) both
        mask, packing = inputs["attention_mask"], inputs.get("packing")
        states = self.classifier.read(self.encoder(**inputs)[0])  # (rows, tokens, size)
        # Where its packing tells the lengths, nothing waits for the device.
        lengths = mask.sum(1).cpu() if packing is None else torch.from_numpy(packing.lengths)
        places = torch.arange(mask.shape[1], device=mask.device)  # (tokens,)
        is_predicate = (places >= starts) & (places < ends)  # (rows, tokens)
        with torch.autocast(states.device.type, enabled=False):
            # (rows, tokens, size) and (rows, tokens, 10) side by side
            told = torch.cat([states.float(), self.indicator(is_predicate.long())], dim=-1)
            around = both_ways(self.context, told, lengths)  # (rows, tokens, 2 * size)
            rows = torch.arange(len(starts), device=mask.device)  # (rows,)
            predicate = around[rows, starts[:, 0]][:, None].expand_as(around)
            hidden = self.hidden(torch.cat([around, predicate], dim=-1)).relu()
            logits: Tensor = self.classifier.output(hidden)
        return logits


INDICATOR_SIZE, HIDDEN_SIZE = 10, 300
"""Of the embedding and of the layer before the tags: Shi and Lin, section 3.2."""


def network(encoder: Encoder, task: TagTask, lstm_size: int = 0) -> nn.Module:
    """The network of a task, shaped as transformers' TokenClassification classes.

    Raises ModelError for semantic roles with an `lstm_size`: their network has its own BiLSTM.
    """
    if not isinstance(task, RoleTask):
        return TagNetwork(encoder, len(task.tags), lstm_size)
    if lstm_size:
        raise ModelError(f"{task.name} has a BiLSTM of its own: leave lstm_size out.")
    return RoleNetwork(encoder, len(task.tags))


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The sum of the cross-entropies of each window's words, in fp32.

    Divided by the words of a batch, as training does, it is their mean, each word counting the
    same.
    """
    width = min(logits.shape[1], targets.shape[1])  # both are as wide as the longest row, or wider
    classes = logits[:, :width].float().transpose(1, 2)  # (windows, tags, tokens)
    words = functional.cross_entropy(
        classes, targets[:, :width], ignore_index=IGNORED, reduction="none"
    )
    return words.sum(-1)  # (windows, tokens) -> (windows,)


def soft_loss(logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """The sum over each window's words of their losses towards a teacher's logits."""
    width = min(logits.shape[1], targets.shape[1])
    words = divergence(logits[:, :width], teacher[:, :width], temperature)  # (windows, tokens)
    return words.where(targets[:, :width] != IGNORED, 0.0).sum(-1)


def decode(
    logits: NDArray[np.float32],
    features: TagFeatures,
    examples: Sequence[TagExample],
    task: TagTask,
) -> tuple[TagPrediction, ...]:
    """The most probable tag of every word; one that the tokenizer makes nothing of is outside.

    Tags are given in IOB2: an "I-" that continues nothing becomes the "B-" as which conlleval reads
    it, so that the score is the same.
    """
    counted = np.cumsum([0, *(len(example.words) for example in examples)])
    outside = task.tags.index(OUTSIDE) if OUTSIDE in task.tags else 0
    numbers = np.full(counted[-1], outside)  # (words of all sentences,)
    is_carrier = features.words >= 0  # (tokens,), as the logits are (tokens, tags)
    numbers[features.words[is_carrier]] = logits[is_carrier].argmax(-1)
    return tuple(
        TagPrediction(id=example.id, tags=_in_iob2([task.tags[number] for number in part]))
        for example, part in zip(examples, np.split(numbers, counted[1:-1]), strict=True)
    )


def _in_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    # "I-PER" after "B-PER" or "I-PER" continues it; after anything else it begins one.
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
    """The head with an LSTM below its classifier, as BERT reads frozen features, or in documents.

    arXiv:1810.04805, section 5.3: "a randomly initialized two-layer 768-dimensional BiLSTM before
    the classification layer", and "the maximal document context provided by the data".
    """
    if options is None:
        return TAG
    found = replace(TAG, encode=encode_in_documents) if options.context == DOCUMENT else TAG
    if options.lstm_size:
        found = replace(found, network=partial(network, lstm_size=options.lstm_size))
    return found
