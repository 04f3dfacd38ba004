"""Made-up tokenizers that split, fold or drop letters, each like some real ones."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from tests.helpers.gold_spans import GOLD

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _texts() -> list[str]:
    return [text for text, _ in GOLD] * 3


def _wordpiece(normalizer: Any, cut: Any, size: int = 900) -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizer, cut
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(SPECIAL), show_progress=False
    )
    made.train_from_iterator(_texts(), trainer)
    return made


def _pairs(normalizer: Any, cut: Any, alphabet: list[str], texts: list[str]) -> Tokenizer:
    """Return a BPE model of the alphabet without an unknown token: other letters are dropped."""
    made = Tokenizer(models.BPE())
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer = cut
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + 60,
        special_tokens=list(SPECIAL),
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return made


def _unigram(normalizer: Any, cut: Any) -> Tokenizer:
    """Return a unigram model with a piece per letter, so that words have many pieces."""
    letters = sorted({c for text in _texts() for c in normalizer.normalize_str(text)} - {" "})
    pieces = [(token, 0.0) for token in SPECIAL]
    pieces += [("\u2581", -3.0), ("th", -4.0), ("\u2581the", -4.0), ("an", -4.0)]
    pieces += [(letter, -5.0) for letter in letters]
    made = Tokenizer(models.Unigram(pieces, unk_id=1))
    made.normalizer, made.pre_tokenizer = normalizer, cut
    return made


def _letters(drop: str) -> Tokenizer:
    """Return a tokenizer with a token per letter, except for `drop`."""
    known = sorted({c for text in _texts() for c in text} - set(drop))
    made = Tokenizer(models.BPE(vocab={t: n for n, t in enumerate([*SPECIAL, *known])}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


_LATIN = [chr(code) for code in range(33, 127)]
_META = pre_tokenizers.Metaspace

ODD: Mapping[str, Callable[[], Tokenizer]] = {
    "accents off": lambda: _wordpiece(
        normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    ),
    "accents kept, in parts": lambda: _wordpiece(
        normalizers.NFD(), pre_tokenizers.BertPreTokenizer()
    ),
    "put together": lambda: _wordpiece(normalizers.NFC(), pre_tokenizers.Whitespace(), 300),
    "marks off, letters kept": lambda: _wordpiece(
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
        pre_tokenizers.WhitespaceSplit(),
    ),
    "latin letters alone": lambda: _pairs(
        normalizers.BertNormalizer(lowercase=False), pre_tokenizers.Whitespace(), _LATIN, _texts()
    ),
    "bytes": lambda: _pairs(
        None,
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.ByteLevel.alphabet(),
        _texts(),
    ),
    "bytes behind a space": lambda: _pairs(
        normalizers.NFKC(),
        pre_tokenizers.ByteLevel(add_prefix_space=True),
        pre_tokenizers.ByteLevel.alphabet(),
        [text.lower() for text in _texts()],
    ),
    "compatible forms": lambda: _unigram(normalizers.NFKC(), _META()),
    "as ALBERT": lambda: _unigram(
        normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        ),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), _META()]),
    ),
    "as Llama": lambda: _unigram(
        normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
        pre_tokenizers.Split("\u2581", "merged_with_next"),
    ),
    "some letters dropped": lambda: _letters("AcéбПšшנ大京सท한"),
    "letters taken out": lambda: _wordpiece(
        normalizers.Sequence(
            [normalizers.Replace(Regex("[hKЗשم東]"), ""), normalizers.Lowercase()]
        ),
        pre_tokenizers.BertPreTokenizer(),
    ),
    "marks of punctuation taken out": lambda: _wordpiece(
        normalizers.NFKC(),
        pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("removed")]
        ),
    ),
    "single digits": lambda: _wordpiece(
        normalizers.Lowercase(),
        pre_tokenizers.Sequence(
            [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits(individual_digits=True)]
        ),
    ),
}
"""Tokenizer by its oddity."""


@cache
def odd_tokenizer(name: str) -> Any:
    """Return an odd tokenizer as transformers wraps it, with BERT's template."""
    made = ODD[name]()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.decoder = decoders.Fuse()
    names = ("pad", "unk", "cls", "sep", "mask")
    special = {f"{name}_token": token for name, token in zip(names, SPECIAL, strict=True)}
    types = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=types, **special)
