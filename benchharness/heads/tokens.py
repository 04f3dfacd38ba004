"""Tokenization: ids and character offsets of texts, and the special tokens around the texts.

Each distinct text is tokenized only once and on its own, because one passage may be part of many
rows (several questions in SQuAD, four options in RACE). Rows are put together and windows are cut
here, because the tokenizer's own truncation raises an error if there is too little room.
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

from benchharness.errors import ModelError
from benchharness.heads import Limits
from benchharness.leaderboard.job import METHOD
from benchharness.leaderboard.text import whole_file
from benchharness.machine import cache_folder
from benchharness.tasks.read import SplitRows
from benchharness.training.batching import Features, expand

Ids = NDArray[np.int32]

CHUNK = 1000
"""Number of texts per call of the tokenizer. The texts of a call are tokenized in parallel."""

SURROGATES = re.compile("[\ud800-\udfff]")
"""Pattern that matches one half of a surrogate pair. A JSON file may contain such halves as
escapes."""

SPACES = np.array([code for code in range(0x3001) if chr(code).isspace()], dtype=np.uint32)
"""Code points of Unicode's white space characters."""

PROBES = ("a", "1", "我", "и", "ا", "न", "한", "ก")
"""Sample texts that are encoded to find the special tokens around a text. There are several,
because a vocabulary without an unknown token may contain only one script."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Token ids of a text, and the characters that each token stands for.

    White space at the start and the end of a token (SentencePiece's tokens begin with it) is
    excluded, so a token of only white space stands for no characters. Several tokens may share one
    character. If a normalizer dropped letters or accents of a word, these characters are assigned
    to the adjacent tokens: letters to the tokens on both sides, accents to the token before.

    Attributes:
        ids: Token ids: `[tokens]`.
        starts: Index of the first character of each token: `[tokens]`.
        ends: Index after the last character of each token: `[tokens]`.
    """

    ids: Ids
    starts: Ids
    ends: Ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice | Ids) -> "Tokens":
        return Tokens(ids=self.ids[part], starts=self.starts[part], ends=self.ends[part])

    def covering(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the indices of the first and last token that cover the characters [start, end).

        Returns None if no token stands for any of these characters.
        """
        touching = np.flatnonzero(
            (self.ends > start) & (self.starts < end) & (self.starts < self.ends)
        )
        if not len(touching):
            return None
        first, last = edges_of(self.starts[touching], self.ends[touching], start, end)
        return int(touching[first]), int(touching[last])


def edges_of(starts: Ids, ends: Ids, start: int, end: int) -> tuple[int, int]:
    """Select the first and the last token of a span of characters.

    A token that begins exactly at `start`, or ends exactly at `end`, is preferred to a token that
    only overlaps the span.

    Args:
        starts: Index of the first character of each token that overlaps the span: `[tokens]`.
        ends: Index after the last character of each of these tokens: `[tokens]`.
        start: Index of the first character of the span.
        end: Index after the last character of the span.

    Returns:
        The indices of the two tokens in `starts` and `ends`.
    """
    begin, stop = np.flatnonzero(starts == start), np.flatnonzero(ends == end)
    return (
        int(begin[0]) if len(begin) else 0,
        int(stop[-1]) if len(stop) else len(ends) - 1,
    )


def tokenize(texts: Iterable[str], tokenizer: Any) -> Mapping[str, Tokens]:
    """Return the tokens of each text, without special tokens, keyed by the text.

    Raises ModelError for a slow (pure Python) tokenizer, because it does not return the characters
    of each token, and for a text that the tokenizer refuses.
    """
    if not tokenizer.is_fast:
        raise ModelError(
            f"{type(tokenizer).__name__} does not return the characters of each token: this task "
            "needs a checkpoint with a tokenizer.json (a fast tokenizer)."
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
    """Return a copy of a BPE tokenizer that has a token for each letter that the original drops.

    The tokenizers library does not count dropped letters, which shifts the offsets of the tokens
    after them in the word. The copy has the right offsets. Returns None for tokenizers without this
    problem.
    """
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    model = None if backend is None else backend.model
    if not isinstance(model, BPE) or model.unk_token is not None or model.byte_fallback:
        return None
    vocabulary = backend.get_vocab()
    if vocabulary.keys() >= set(ByteLevel.alphabet()):  # byte-level: nothing is unknown
        return None
    copy = Tokenizer.from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    # The token with the lowest id is a special token, which the tokens of a text do not contain.
    copy.model.unk_token = min(vocabulary, key=vocabulary.__getitem__)
    return copy


def _places(text: str, ids: Sequence[int], spans: Spans, naming: Tokenizer) -> Spans:
    """Return the offsets of a text's tokens, corrected for dropped letters if possible.

    They are read from the tokenizer `naming` (see `_naming_unknown`) if it returns the same
    tokens, except for its tokens of dropped letters. Otherwise, `spans` is returned: the original
    tokenizer may join the letters on either side of a dropped one.
    """
    found = naming.encode(SURROGATES.sub("\ufffd", text), add_special_tokens=False)
    unknown = naming.token_to_id(naming.model.unk_token)
    kept = [(n, span) for n, span in zip(found.ids, found.offsets, strict=True) if n != unknown]
    return [span for _, span in kept] if [n for n, _ in kept] == list(ids) else spans


def tokenize_ids(texts: Iterable[str], tokenizer: Any) -> Mapping[str, Ids]:
    """Return the token ids of each text, without special tokens, keyed by the text.

    Unlike `tokenize`, this function also accepts slow (pure Python) tokenizers. Raises ModelError
    for a text that the tokenizer refuses.
    """
    return {
        text: np.asarray(ids, dtype=np.int32)
        for chunk in _chunks(texts)
        for text, ids in zip(chunk, _call(tokenizer, chunk)["input_ids"], strict=True)
    }


def _chunks(texts: Iterable[str]) -> Iterable[list[str]]:
    different = list(dict.fromkeys(texts))  # keeps the order
    return (different[start : start + CHUNK] for start in range(0, len(different), CHUNK))


def _call(tokenizer: Any, texts: Sequence[str], **options: bool) -> Any:
    """Call the tokenizer on texts whose halves of surrogate pairs are replaced.

    The tokenizer would refuse these halves, so it gets replacement characters (U+FFFD) instead.
    """
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
    """Context manager that turns errors of the tokenizers library into a ModelError.

    The library raises such an error for a word that a tokenizer's vocabulary cannot represent.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:  # the tokenizers library raises only Exception itself
            raise
        raise ModelError(
            f"the checkpoint's tokenizer cannot tokenize a text ({error}): its vocabulary is "
            "incomplete."
        ) from error


def _tokens(text: str, ids: Sequence[int], spans: Spans) -> Tokens:
    edges = np.asarray(spans, dtype=np.int32).reshape(-1, 2)  # (tokens, 2), also without tokens
    # Four bytes per character, so that indices in the array are indices in the Python string.
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    is_space = np.isin(codes, SPACES)
    starts, ends = _without_spaces(is_space, edges[:, 0], edges[:, 1])
    if len(uncovered := _uncovered(is_space, starts, ends)):
        starts, ends = _with_letters(text, uncovered, starts, ends)
    return Tokens(ids=np.asarray(ids, dtype=np.int32), starts=starts, ends=ends)


def _without_spaces(is_space: NDArray[np.bool_], starts: Ids, ends: Ids) -> tuple[Ids, Ids]:
    """Shrink the character ranges [starts, ends) to exclude white space at their ends."""
    size = len(is_space)
    places = np.arange(size, dtype=np.int32)
    # The nearest non-space character at or after each position, and at or before each position.
    following = np.minimum.accumulate(np.where(is_space, size, places)[::-1])[::-1]
    preceding = np.maximum.accumulate(np.where(is_space, -1, places))
    first = np.minimum(np.append(following, size)[starts], ends)
    last = np.maximum(np.append(-1, preceding)[ends] + 1, first)
    return first.astype(np.int32), last.astype(np.int32)


def _uncovered(is_space: NDArray[np.bool_], starts: Ids, ends: Ids) -> NDArray[np.int64]:
    """Return the characters, except white space, that no token stands for."""
    size = len(is_space) + 1
    depth = np.bincount(starts, minlength=size) - np.bincount(ends, minlength=size)  # (size,)
    return np.flatnonzero((depth.cumsum()[:-1] == 0) & ~is_space)


JOINERS = "\u200c\u200d"
"""Zero-width joiners and non-joiners, which change letters in Persian, Sinhala and Malayalam."""


def _with_letters(
    text: str, uncovered: NDArray[np.int64], starts: Ids, ends: Ids
) -> tuple[Ids, Ids]:
    """Extend the character ranges of tokens to adjacent letters and marks that have no token."""
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
    """Return whether a character is part of a word or amount: letter, digit, mark, currency."""
    return character.isalnum() or _is_mark(character) or unicodedata.category(character) == "Sc"


# Counting of unknown tokens and lost words during tokenization.


class Count:
    """Counter of tokens, unknown tokens and lost words in the texts that a tokenizer has encoded.

    Each distinct text counts once. A word, as delimited by white space, is lost if none of its
    characters has a token.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._unknown = _unknown_tokens(tokenizer)
        self._seen: set[str] = set()
        self._tokens = self._missed = 0

    def add(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Count the texts that have not been counted yet; `ids` are the token ids of each text."""
        new = {
            text: found for text, found in zip(texts, ids, strict=True) if text not in self._seen
        }
        self._seen.update(new)
        self._tokens += sum(map(len, new.values()))
        for unknown in self._unknown:
            self._missed += sum(found.count(unknown) for found in new.values())

    def numbers(self) -> NDArray[np.int64]:
        """Return the numbers of tokens, of unknown tokens, of lost words, and of all words.

        The words are counted only if some character has no token; otherwise the last two numbers
        are 0. The field `counts` of Features contains these four numbers.
        """
        silent = "".join(self._silent(sorted(set[str]().union(*self._seen))))
        lost = words = 0
        if silent:
            alone = re.compile(rf"(?<!\S)[{re.escape(silent)}]+(?!\S)")
            lost = sum(len(alone.findall(text)) for text in self._seen)
            words = sum(len(text.split()) for text in self._seen)
        return np.array([self._tokens, self._missed, lost, words], dtype=np.int64)

    def _silent(self, characters: Sequence[str]) -> list[str]:
        """Return the characters, except white space, that have no token on their own."""
        # Halves of surrogate pairs are left out, because the tokenizer reads them as another
        # character.
        asked = [c for c in characters if not c.isspace() and not SURROGATES.fullmatch(c)]
        if not asked:
            return []
        found = self._tokenizer(asked, add_special_tokens=False, verbose=False)["input_ids"]
        tokens = map(self._tokenizer.convert_ids_to_tokens, found)
        return [c for c, own in zip(asked, tokens, strict=True) if own in ([], [METASPACE])]


METASPACE = "\u2581"
"""Token with which SentencePiece represents the space before a word."""

_COUNT: ContextVar[Count | None] = ContextVar("_COUNT", default=None)


@contextmanager
def counting(tokenizer: Any) -> Iterator[Count]:
    """Context manager that yields the `Count` of all texts that are tokenized in its block.

    The object counts their tokens, unknown tokens and lost words. `tokenizer` is the tokenizer that
    encodes the texts.
    """
    count = Count(tokenizer)
    told = _COUNT.set(count)
    try:
        yield count
    finally:
        _COUNT.reset(told)


def note_read(texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
    """Count texts in the block of a `counting` context; outside of such a block, do nothing.

    `ids` contains the token ids of each text.
    """
    count = _COUNT.get()
    if count is not None:
        count.add(texts, ids)


def _unknown_tokens(tokenizer: Any) -> set[int]:
    """Return the tokens that stand only for unknown words.

    GPT-2's unknown token, for example, is not returned, because it also marks the end of a text.
    """
    names = ("bos", "eos", "cls", "sep", "pad", "mask")
    others = {getattr(tokenizer, f"{name}_token_id", None) for name in names}
    found = {tokenizer.unk_token_id}
    if tokenizer.is_fast:
        model = tokenizer.backend_tokenizer.model
        token = getattr(model, "unk_token", None)
        found.add(token and tokenizer.backend_tokenizer.token_to_id(token))
        if isinstance(model, Unigram):  # only its serialized state contains the id
            number = re.search(rb'"unk_id":(\d+)', model.__getstate__())
            found.add(number and int(number[1]))
    return found - others - {None}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Special tokens that a tokenizer puts before, between and after the texts of a row.

    Attributes:
        parts: Special tokens before, between and after the texts, each as a pair of their token ids
            and their token types: two pairs for rows of one text, three for rows of two texts.
        texts: Token type of each text.
        null: Position of the classification token in a row, counted from the end if negative. If
            the tokenizer has no such token, another special token outside of the texts, or else the
            first token, takes its role.
        has_types: Whether the tokenizer returns token types.
        pad_id: Token id of padding. It is 0 for a tokenizer without a padding token, which is
            harmless because no token attends to padding.
    """

    parts: tuple[tuple[Ids, Ids], ...]
    texts: tuple[int, ...]
    null: int
    has_types: bool
    pad_id: int

    @classmethod
    def of(cls, tokenizer: Any, texts: int) -> "Frame":
        """Find the special tokens around one or two texts by encoding a sample text.

        Args:
            tokenizer: Tokenizer to examine.
            texts: Number of texts per row, 1 or 2.

        Raises:
            ModelError: The tokenizer does not encode the sample text as expected.
        """
        alone = ((p, tokenizer(p, add_special_tokens=False)["input_ids"]) for p in PROBES)
        probe, ids_of = next(((p, ids) for p, ids in alone if ids), (PROBES[0], []))
        size = len(ids_of)  # 1, or e.g. 2 if the tokens of "a" are "▁" and "a"
        encoded = tokenizer(*[probe] * texts, return_special_tokens_mask=True)
        ids = np.asarray(encoded["input_ids"], dtype=np.int32)
        types = np.asarray(encoded.get("token_type_ids", np.zeros_like(ids)), dtype=np.int32)
        inner = np.flatnonzero(np.asarray(encoded["special_tokens_mask"]) == 0)
        if not size or len(inner) != size * texts:
            raise ModelError(
                f"the tokenizer {type(tokenizer).__name__} cannot encode {probe!r}: its files are "
                "damaged."
            )
        firsts = inner[::size]  # (texts,), the start of each text
        edges = zip([0, *(firsts + size)], [*firsts, len(ids)], strict=True)
        # Find the classification token: counted from the start, or (XLNet) from the end if
        # negative. If there is none, take another special token outside of the texts, or else
        # the first token.
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
        """Number of special tokens in a row."""
        return sum(len(ids) for ids, _ in self.parts)

    def row(self, *texts: Ids) -> tuple[Ids, Ids]:
        """Return the token ids and token types of a row, given the token ids of its texts."""
        ids, types = [self.parts[0][0]], [self.parts[0][1]]
        for text, kind, part in zip(texts, self.texts, self.parts[1:], strict=True):
            ids += [text, part[0]]
            types += [np.full(len(text), kind, dtype=np.int32), part[1]]
        return np.concatenate(ids), np.concatenate(types)

    def first(self, *before: Ids) -> int:
        """Return the position in a row of the first token of a text.

        `before` contains the token ids of the texts before this text.
        """
        special = sum(len(ids) for ids, _ in self.parts[: len(before) + 1])
        return special + sum(map(len, before))


def join(rows: Sequence[tuple[Ids, Ids]], frame: Frame, max_tokens: int) -> dict[str, Any]:
    """Concatenate rows, and return the fields that every Features needs, keyed by name.

    Args:
        rows: Token ids and token types of each row.
        frame: Special tokens of the rows.
        max_tokens: Maximum number of tokens of a row.
    """
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
    """Return an array with one value per token of concatenated rows: `[tokens]`.

    Args:
        parts: For each row, the values of some consecutive tokens.
        firsts: Position in each row of the first of these tokens: `[rows]`, or one number.
        starts: Index of each row's first token, followed by the number of all tokens: `[rows + 1]`.
        empty: Value of all other tokens.
    """
    values, sizes = np.concatenate(parts), np.array([len(part) for part in parts])  # (rows,)
    column = np.full(starts[-1], empty, dtype=values.dtype)
    column[expand(starts[:-1] + firsts, sizes)] = values
    return column


# Encoded splits, cached on disk for other seeds and jobs with the same texts and tokenizer.
#
# A file CACHE/features/DIGEST.npz has the fields of a Features object, or of a subclass.

KEPT_TOKENS = 200_000
"""Minimum number of tokens of a split that is cached. Smaller splits are not cached, because they
are encoded in less than a second."""

KIND = "kind"

FORM = 3
"""Version of the cache files. Increase it when their contents change, so that files of older
versions are not read."""


def encode_once(
    encode: Callable[[Sequence[Any], Any, Limits], Features],
    rows: SplitRows,
    tokenizer: Any,
    identity: str,
    limits: Limits,
) -> Features:
    """Encode a split, or load its features from the cache on disk.

    A cache file that is damaged or cannot be written is no error: the split is encoded again.

    Args:
        encode: Function `encode` of a head.
        rows: Rows of the split.
        tokenizer: Tokenizer of the encoder.
        identity: Digest of the tokenizer, and further text that must identify everything else that
            affects the features and is not in the other arguments.
        limits: Length limits of the rows.

    Returns:
        The features, whose field `counts` is set.
    """
    # The function's name identifies the head, METHOD the version of the encoding code.
    head = f"{encode.__module__}.{encode.__name__}"
    # The tokenizer's digest does not include whether it returns token types, which depends on the
    # encoder's config.
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
    kept[KIND] = type(features).__name__  # np.savez stores it as an array of the shape ()
    with whole_file(path) as file:
        np.savez(file, **kept)


def _read(path: Path) -> Features | None:
    """Return the features of a file; None if it is missing or damaged."""
    classes: list[type[Features]] = [Features, *Features.__subclasses__()]
    kinds = {kind.__name__: kind for kind in classes}
    try:
        # Open the file here, because np.load would leave a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            values = {name: _value(arrays[name]) for name in arrays.files}
        return kinds[values.pop(KIND)](**values)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


def _value(array: Any) -> Any:
    return array if array.ndim else array.item()  # pad_id, max_tokens and KIND have the shape ()
