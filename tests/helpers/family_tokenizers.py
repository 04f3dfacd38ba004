"""Working tokenizers of every family's own class, with the embedded data's vocabulary."""

import inspect
import json
import string
from collections.abc import Iterable
from functools import cache
from typing import Any

import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from benchharness.tiny import folder as tiny_folder

SIZE = 1200
METASPACE = "\u2581"
"""Character for the space before a word."""
UNIGRAM = ("albert", "big_bird", "camembert", "deberta-v2", "t5", "xlm-roberta", "xlnet")
BACKEND = {
    "modernbert": ("[PAD]", "[CLS]", "[SEP]"),
    "eurobert": ("<|pad|>", "<|begin_of_text|>", "<|end_of_text|>"),
}
"""Padding, first and last tokens of families that have a tokenizer.json and no own class."""


LIKE = dict.fromkeys(
    ("gemma3_text", "llama", "modernbert-decoder", "olmo2", "qwen3", "smollm3"), "eurobert"
)
"""Decoders, whose tokenizers here are byte pairs with a first and a last token."""

FIRST = {
    "t5": ("<pad>", "</s>", "<unk>"),
    "xlm-roberta": ("<s>", "<pad>", "</s>", "<unk>"),
    "xlnet": ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>"),
}
"""First tokens of classes that expect <unk> at its position in the published vocabulary."""


def make_family_tokenizer(family: str) -> Any:
    """Return the tokenizer that transformers makes for a checkpoint of the family."""
    family = LIKE.get(family, family)
    if family in BACKEND:
        return _make_backend(*BACKEND[family])
    kind = getattr(transformers, TOKENIZER_MAPPING_NAMES[family])
    parameters = inspect.signature(kind.__init__).parameters
    tokens = [p.default for name, p in parameters.items() if name.endswith("_token")]
    tokens = [*FIRST.get(family, ()), *(token for token in tokens if isinstance(token, str))]
    special = dict.fromkeys(tokens)
    if family in UNIGRAM:
        return kind(vocab=[*((token, 0.0) for token in special), *_unigram()])
    if "merges" in parameters:
        pairs = _pairs("</w>" if family == "openai-gpt" else None)
        merges = [tuple(pair) for pair in pairs["merges"]]
        return kind(vocab=_numbered([*special, *pairs["vocab"]]), merges=merges)
    return kind(vocab=_numbered([*special, *_words()]))


def _make_backend(pad: str, first: str, last: str) -> Any:
    pairs = _pairs(None)
    pieces = _numbered([pad, first, last, *pairs["vocab"]])
    merges = [tuple(pair) for pair in pairs["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B {last}",
        special_tokens=[(first, pieces[first]), (last, pieces[last])],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "attention_mask"],
        pad_token=pad,
        cls_token=first,
        sep_token=last,
    )


def _numbered(pieces: Iterable[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}


@cache
def _words() -> tuple[str, ...]:
    """Return the packaged WordPiece vocabulary without its special tokens."""
    return tuple((tiny_folder() / "vocab.txt").read_text("utf-8").split())[5:]


def _texts() -> list[str]:
    words = [word for word in _words() if not word.startswith("##")]
    lines = [" ".join(words[start : start + 9]) for start in range(0, len(words), 9)]
    return [*lines, *lines, *(line.upper() for line in lines)]


@cache
def _pairs(suffix: str | None) -> Any:
    """Return pairs of bytes, or pairs of characters with a suffix on the last one (GPT)."""
    if suffix:
        before, ending = pre_tokenizers.BertPreTokenizer(), {"end_of_word_suffix": suffix}
        alphabet = []
    else:
        before, ending = pre_tokenizers.ByteLevel(add_prefix_space=False), {}
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, initial_alphabet=alphabet, show_progress=False, **ending
    )
    return _train(Tokenizer(models.BPE()), before, trainer)


@cache
def _unigram() -> tuple[tuple[str, float], ...]:
    """Return a unigram model that prefers words, then pieces within words, then characters.

    It is not trained, because training differs from process to process.
    """
    pieces = [word.removeprefix("##") for word in _words() if word.startswith("##")]
    words = [word for word in _words() if not word.startswith("##")]
    scores = dict.fromkeys([METASPACE, *string.printable.strip()], -12.0)
    scores |= dict.fromkeys(pieces, -9.0)
    both = (*words, *map(str.capitalize, words))
    scores |= dict.fromkeys((f"{METASPACE}{word}" for word in both), -8.0)
    return tuple(scores.items())


def _train(tokenizer: Tokenizer, before: Any, trainer: Any) -> Any:
    tokenizer.pre_tokenizer = before
    tokenizer.train_from_iterator(_texts(), trainer)
    return json.loads(tokenizer.to_str())["model"]
