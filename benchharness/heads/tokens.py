"""Texts as token ids with the characters each stands for, and the special tokens around them.

Texts are tokenised alone, each different one once, and put together here: SQuAD asks five questions
of a passage, RACE has four options on one, and windows are cut without the tokenizer's own
truncation, which raises where the room is too small.
"""

import hashlib
import json
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import BPE, Unigram
from tokenizers.pre_tokenizers import ByteLevel

from benchharness.heads import Limits
from benchharness.leaderboard.job import METHOD
from benchharness.leaderboard.text import whole_file
from benchharness.machine import cache_folder
from benchharness.tasks.errors import ModelError
from benchharness.tasks.read import SplitRows
from benchharness.training.batching import Features, expand

Ids = NDArray[np.int32]

CHUNK = 1000
"""Texts per call of the tokenizer, which works on the texts of one call in parallel."""

SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of pairs, which a data set's JSON may escape one by one."""

SPACES = np.array([code for code in range(0x3001) if chr(code).isspace()], dtype=np.uint32)
"""All white space of Unicode, as code points."""

PROBES = ("a", "1", "我", "и", "ا", "न", "한", "ก")
"""Any text: between what stands around it are the special tokens. A vocabulary without an unknown
token may know one script alone."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """A text's token ids and the characters [starts, ends) that each stands for.

    White space at either end of a token is not counted in (SentencePiece's tokens begin with it);
    what is left of a token of nothing else is empty. Several tokens may share one character. What a
    word has without a token, as a normalizer drops it, belongs to the tokens beside it: letters to
    those on either side, accents to the one before.
    """

    ids: Ids
    starts: Ids
    ends: Ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice | Ids) -> "Tokens":
        return Tokens(ids=self.ids[part], starts=self.starts[part], ends=self.ends[part])

    def covering(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and last token of the characters [start, end); None where there are none."""
        touching = np.flatnonzero(
            (self.ends > start) & (self.starts < end) & (self.starts < self.ends)
        )
        if not len(touching):
            return None
        first, last = edges_of(self.starts[touching], self.ends[touching], start, end)
        return int(touching[first]), int(touching[last])


def edges_of(starts: Ids, ends: Ids, start: int, end: int) -> tuple[int, int]:
    """Which of the tokens that touch the characters [start, end) are the first and the last.

    A token that begins or ends there itself goes before one that shares a character with it.
    """
    begin, stop = np.flatnonzero(starts == start), np.flatnonzero(ends == end)
    return (
        int(begin[0]) if len(begin) else 0,
        int(stop[-1]) if len(stop) else len(ends) - 1,
    )


def tokenize(texts: Iterable[str], tokenizer: Any) -> Mapping[str, Tokens]:
    """The tokens of every text, without special ones; ModelError for a tokenizer in Python."""
    if not tokenizer.is_fast:
        raise ModelError(
            f"{type(tokenizer).__name__} does not say which characters a token stands for: this "
            "task needs a checkpoint with a tokenizer.json (a fast tokenizer)."
        )
    naming = _naming_unknown(tokenizer)
    return {
        text: _tokens(text, ids, spans if naming is None else _places(text, ids, spans, naming))
        for chunk in _chunks(texts)
        for encoded in [_call(tokenizer, chunk, return_offsets_mapping=True)]
        for text, ids, spans in zip(
            chunk, encoded["input_ids"], encoded["offset_mapping"], strict=True
        )
    }


Spans = Sequence[tuple[int, int]]


def _naming_unknown(tokenizer: Any) -> Tokenizer | None:
    """A copy that has a token for each letter that a tokenizer of pairs drops; None for others.

    Where a letter is dropped, the tokenizers library counts the places behind it in its word
    without it.
    """
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    model = None if backend is None else backend.model
    if not isinstance(model, BPE) or model.unk_token is not None or model.byte_fallback:
        return None
    vocabulary = backend.get_vocab()
    if vocabulary.keys() >= set(ByteLevel.alphabet()):  # of bytes none is unknown
        return None
    copy = Tokenizer.from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    copy.model.unk_token = min(vocabulary, key=vocabulary.__getitem__)  # special ones come first
    return copy


def _places(text: str, ids: Sequence[int], spans: Spans, naming: Tokenizer) -> Spans:
    """Where the tokens of a text stand, by the copy, unless letters around a dropped one meet."""
    found = naming.encode(SURROGATES.sub("\ufffd", text), add_special_tokens=False)
    unknown = naming.token_to_id(naming.model.unk_token)
    kept = [(n, span) for n, span in zip(found.ids, found.offsets, strict=True) if n != unknown]
    return [span for _, span in kept] if [n for n, _ in kept] == list(ids) else spans


def tokenize_ids(texts: Iterable[str], tokenizer: Any) -> Mapping[str, Ids]:
    """The token ids of every text, without special ones; by any tokenizer."""
    return {
        text: np.asarray(ids, dtype=np.int32)
        for chunk in _chunks(texts)
        for text, ids in zip(chunk, _call(tokenizer, chunk)["input_ids"], strict=True)
    }


def _chunks(texts: Iterable[str]) -> Iterable[list[str]]:
    different = list(dict.fromkeys(texts))  # in their order
    return (different[start : start + CHUNK] for start in range(0, len(different), CHUNK))


def _call(tokenizer: Any, texts: Sequence[str], **options: bool) -> Any:
    """The tokenizer's answer; it refuses half a surrogate pair, which is as good as an unknown."""
    with telling_refusals():
        found = tokenizer(
            [SURROGATES.sub("\ufffd", text) for text in texts],
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
            **options,
        )
    note_read(texts, found["input_ids"])
    return found


@contextmanager
def telling_refusals() -> Iterator[None]:
    """Makes a ModelError of what a tokenizer says of a word that its vocabulary cannot write."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:  # the one class that the tokenizers library raises
            raise
        raise ModelError(
            f"the checkpoint's tokenizer cannot read a text ({error}): its vocabulary is not whole."
        ) from error


def _tokens(text: str, ids: Sequence[int], spans: Spans) -> Tokens:
    edges = np.asarray(spans, dtype=np.int32).reshape(-1, 2)  # (tokens, 2), also of no tokens
    # Four bytes a character, so that places in the array are places in the Python text.
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    is_space = np.isin(codes, SPACES)
    starts, ends = _without_spaces(is_space, edges[:, 0], edges[:, 1])
    if len(uncovered := _uncovered(is_space, starts, ends)):
        starts, ends = _with_letters(text, uncovered, starts, ends)
    return Tokens(ids=np.asarray(ids, dtype=np.int32), starts=starts, ends=ends)


def _without_spaces(is_space: NDArray[np.bool_], starts: Ids, ends: Ids) -> tuple[Ids, Ids]:
    """The stretches [starts, ends) of a text without the white space at their ends."""
    size = len(is_space)
    places = np.arange(size, dtype=np.int32)
    # The next character from each place on, and the last one up to it, that is no space.
    following = np.minimum.accumulate(np.where(is_space, size, places)[::-1])[::-1]
    preceding = np.maximum.accumulate(np.where(is_space, -1, places))
    first = np.minimum(np.append(following, size)[starts], ends)
    last = np.maximum(np.append(-1, preceding)[ends] + 1, first)
    return first.astype(np.int32), last.astype(np.int32)


def _uncovered(is_space: NDArray[np.bool_], starts: Ids, ends: Ids) -> NDArray[np.int64]:
    """The characters, white space apart, that no token stands for."""
    size = len(is_space) + 1
    depth = np.bincount(starts, minlength=size) - np.bincount(ends, minlength=size)  # (size,)
    return np.flatnonzero((depth.cumsum()[:-1] == 0) & ~is_space)


JOINERS = "\u200c\u200d"
"""Without them a letter of Persian, Sinhala or Malayalam is another."""


def _with_letters(
    text: str, uncovered: NDArray[np.int64], starts: Ids, ends: Ids
) -> tuple[Ids, Ids]:
    """The stretches of tokens with the letters and marks beside them that have no token."""
    found, stops = starts.copy(), ends.copy()
    has_text = starts < ends
    for gap in np.split(uncovered, np.flatnonzero(np.diff(uncovered) > 1) + 1):
        first, after = int(gap[0]), int(gap[-1]) + 1
        marks = first
        while marks < after and _is_mark(text[marks]):
            marks += 1
        end, start = marks, after
        if first and _is_letter(text[first - 1]):
            while end < after and _is_letter(text[end]):
                end += 1
        if after < len(text) and _is_letter(text[after]):
            while start > marks and _is_letter(text[start - 1]):
                start -= 1
        stops[has_text & (ends == first)] = end
        found[has_text & (starts == after)] = start
    return found, stops


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me", "Mc") or character in JOINERS


def _is_letter(character: str) -> bool:
    """Whether a character is within a word, or an amount: a letter, a digit, a mark, a currency."""
    return character.isalnum() or _is_mark(character) or unicodedata.category(character) == "Sc"


# What a tokenizer makes nothing of, counted while it reads.


class Count:
    """How much of some texts a tokenizer knows; each different text counts once.

    A word, as white space cuts it, is lost where no character in it has a token.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._unknown = _unknown_tokens(tokenizer)
        self._seen: set[str] = set()
        self._tokens = self._missed = 0

    def add(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Counts the tokens of some texts."""
        new = {
            text: found for text, found in zip(texts, ids, strict=True) if text not in self._seen
        }
        self._seen.update(new)
        self._tokens += sum(map(len, new.values()))
        for unknown in self._unknown:
            self._missed += sum(found.count(unknown) for found in new.values())

    def numbers(self) -> NDArray[np.int64]:
        """Features' `counts`, (4,)."""
        silent = "".join(self._silent(sorted(set[str]().union(*self._seen))))
        lost = words = 0
        if silent:
            alone = re.compile(rf"(?<!\S)[{re.escape(silent)}]+(?!\S)")
            lost = sum(len(alone.findall(text)) for text in self._seen)
            words = sum(len(text.split()) for text in self._seen)
        return np.array([self._tokens, self._missed, lost, words], dtype=np.int64)

    def _silent(self, characters: Sequence[str]) -> list[str]:
        """Return the characters, white space apart, that have no token on their own."""
        # Half a surrogate pair is read as an unknown character.
        asked = [c for c in characters if not c.isspace() and not SURROGATES.fullmatch(c)]
        if not asked:
            return []
        found = self._tokenizer(asked, add_special_tokens=False, verbose=False)["input_ids"]
        tokens = map(self._tokenizer.convert_ids_to_tokens, found)
        return [c for c, own in zip(asked, tokens, strict=True) if own in ([], [METASPACE])]


METASPACE = "\u2581"
"""SentencePiece's token of a space, which stands before a word."""

_COUNT: ContextVar[Count | None] = ContextVar("_COUNT", default=None)


@contextmanager
def counting(tokenizer: Any) -> Iterator[Count]:
    """Counts what is read meanwhile."""
    count = Count(tokenizer)
    told = _COUNT.set(count)
    try:
        yield count
    finally:
        _COUNT.reset(told)


def note_read(texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
    """Tells whoever counts which tokens some texts have been read as."""
    count = _COUNT.get()
    if count is not None:
        count.add(texts, ids)


def _unknown_tokens(tokenizer: Any) -> set[int]:
    """The tokens that stand for unknown words, and for nothing else: GPT-2's ends texts too."""
    names = ("bos", "eos", "cls", "sep", "pad", "mask")
    others = {getattr(tokenizer, f"{name}_token_id", None) for name in names}
    found = {tokenizer.unk_token_id}
    if tokenizer.is_fast:
        model = tokenizer.backend_tokenizer.model
        token = getattr(model, "unk_token", None)
        found.add(token and tokenizer.backend_tokenizer.token_to_id(token))
        if isinstance(model, Unigram):  # says it in its state alone
            number = re.search(rb'"unk_id":(\d+)', model.__getstate__())
            found.add(number and int(number[1]))
    return found - others - {None}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The special tokens of a tokenizer before, between and after its texts.

    There are two parts around one text and three around two, each of (ids, token types); `texts`
    are the token types of the texts themselves. `has_types` is False for encoders without segments.
    A tokenizer without a padding token pads with id 0: nothing attends to a masked place.
    """

    parts: tuple[tuple[Ids, Ids], ...]
    texts: tuple[int, ...]
    null: int
    has_types: bool
    pad_id: int

    @classmethod
    def of(cls, tokenizer: Any, texts: int) -> "Frame":
        """The frame around one text or two, read off what the tokenizer puts around any text."""
        alone = ((p, tokenizer(p, add_special_tokens=False)["input_ids"]) for p in PROBES)
        probe, ids_of = next(((p, ids) for p, ids in alone if ids), (PROBES[0], []))
        size = len(ids_of)  # a tokenizer may make two tokens of "a", "▁" and "a"
        encoded = tokenizer(*[probe] * texts, return_special_tokens_mask=True)
        ids = np.asarray(encoded["input_ids"], dtype=np.int32)
        types = np.asarray(encoded.get("token_type_ids", np.zeros_like(ids)), dtype=np.int32)
        inner = np.flatnonzero(np.asarray(encoded["special_tokens_mask"]) == 0)
        if not size or len(inner) != size * texts:
            raise ModelError(f"{type(tokenizer).__name__} cannot encode {probe!r}: it is damaged.")
        firsts = inner[::size]  # (texts,), where each text begins
        edges = zip([0, *(firsts + size)], [*firsts, len(ids)], strict=True)
        # Where the classification token stands: from the start, or (XLNet) from the end if
        # negative. Another special token outside of the texts takes its place where there is
        # none, and the first token where there is no such one either.
        outer = [place for place in range(len(ids)) if not inner[0] <= place <= inner[-1]]
        found = [place for place in outer if ids[place] == tokenizer.cls_token_id] or outer or [0]
        return cls(
            parts=tuple((ids[start:end], types[start:end]) for start, end in edges),
            texts=tuple(int(types[first]) for first in firsts),
            null=found[0] if found[0] <= inner[0] else found[0] - len(ids),
            has_types="token_type_ids" in encoded,
            pad_id=tokenizer.pad_token_id or 0,
        )

    @property
    def size(self) -> int:
        """How many special tokens a row has."""
        return sum(len(ids) for ids, _ in self.parts)

    def row(self, *texts: Ids) -> tuple[Ids, Ids]:
        """The ids and the token types of one row."""
        ids, types = [self.parts[0][0]], [self.parts[0][1]]
        for text, kind, part in zip(texts, self.texts, self.parts[1:], strict=True):
            ids += [text, part[0]]
            types += [np.full(len(text), kind, dtype=np.int32), part[1]]
        return np.concatenate(ids), np.concatenate(types)

    def first(self, *before: Ids) -> int:
        """Where the text begins that follows these texts in a row."""
        special = sum(len(ids) for ids, _ in self.parts[: len(before) + 1])
        return special + sum(map(len, before))


def join(rows: Sequence[tuple[Ids, Ids]], frame: Frame, max_tokens: int) -> dict[str, Any]:
    """Rows end to end, none longer than `max_tokens`, by the names that Features has for them."""
    types = np.concatenate([types for _, types in rows])  # (tokens,)
    return {
        "token_ids": np.concatenate([ids for ids, _ in rows]),
        "token_types": types if frame.has_types else None,
        "starts": np.cumsum([0, *(len(ids) for ids, _ in rows)]),  # (rows + 1,)
        "pad_id": frame.pad_id,
        "max_tokens": max_tokens,
    }


def spread(
    parts: Sequence[NDArray[Any]],
    firsts: NDArray[np.int64] | int,
    starts: NDArray[np.int64],
    empty: int = 0,
) -> NDArray[Any]:
    """A value for every token of rows that begin at `starts` (rows + 1,), (tokens,).

    Each row has those of its part from the token `firsts` on, and `empty` before and behind them.
    """
    values, sizes = np.concatenate(parts), np.array([len(part) for part in parts])  # (rows,)
    column = np.full(starts[-1], empty, dtype=values.dtype)
    column[expand(starts[:-1] + firsts, sizes)] = values
    return column


# Encoded splits, kept on disk for the other seeds and jobs of the same texts and tokenizer.
#
# A file CACHE/features/DIGEST.npz has the arrays and numbers of a Features, or of a head's own
# kind.

KEPT_TOKENS = 200_000
"""Splits of fewer tokens are encoded again, in less than a second."""

KIND = "kind"

FORM = 3
"""Goes up when a file has something new: an old one would be read as having none of it."""


def encode_once(
    encode: Callable[[Sequence[Any], Any, Limits], Features],
    rows: SplitRows,
    tokenizer: Any,
    identity: str,
    limits: Limits,
) -> Features:
    """What a head makes of a split, or has made of it before; `identity` is the tokenizer's digest.

    A file that is damaged or cannot be written costs time only.
    """
    # The function's name stands for the head, and METHOD for how all of them encode.
    head = f"{encode.__module__}.{encode.__name__}"
    # An encoder's config says whether its tokenizer gives token types, and no digest of that does.
    kind = (type(tokenizer).__name__, "token_type_ids" in tokenizer.model_input_names)
    words = (head, rows.fingerprint, identity, *kind, METHOD, FORM)
    key = hashlib.sha256(json.dumps([words, asdict(limits)]).encode()).hexdigest()
    path = cache_folder("features") / f"{key}.npz"
    found = _read(path)
    if found is not None:
        return found
    with counting(tokenizer) as count:
        features = encode(rows.examples, tokenizer, limits)
    features = replace(features, counts=count.numbers())
    if len(features.token_ids) >= KEPT_TOKENS:
        with suppress(OSError):
            _write(path, features)
    return features


def _write(path: Path, features: Features) -> None:
    values = {field.name: getattr(features, field.name) for field in fields(features)}
    kept: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    kept[KIND] = type(features).__name__  # np.savez makes an array, (), of text and numbers too
    with whole_file(path) as file:
        np.savez(file, **kept)


def _read(path: Path) -> Features | None:
    """The features of a file; None where it is not there or not whole."""
    classes: list[type[Features]] = [Features, *Features.__subclasses__()]
    kinds = {kind.__name__: kind for kind in classes}
    try:
        # A damaged file that np.load has opened by itself stays open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            values = {name: _value(arrays[name]) for name in arrays.files}
        return kinds[values.pop(KIND)](**values)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


def _value(array: Any) -> Any:
    return array if array.ndim else array.item()  # pad_id, max_tokens and the kind are ()
