"""Tokenizers of each kind, trained on demand on a few sentences."""

from functools import cache
from typing import Any

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

KINDS = ("wordpiece", "bytes", "unigram")

CORPUS = (
    "The old tower of Saint-Denis, built in 1137, stood 86 metres high until the storm of 1846.",
    "In 1998 the team from Warsaw won $3.5 million; nobody had expected it (least of all they).",
    "Marie Skłodowska-Curie was born in Warsaw and named polonium after her country's name.",
    'He said: "I do not know", and walked away. Who built the tower? When did the storm come?',
    "naïve café façade élan, 東京 and 北京, Москва; שלום and سلام; 🐦 and 👩‍👩‍👧 and ﷽.",
) * 4


@cache
def make_tokenizer(kind: str, texts: tuple[str, ...] = CORPUS, size: int = 400) -> Any:
    """Train a tokenizer of one of KINDS, as in BERT, RoBERTa, XLNet and GPT-2."""
    return _MAKERS[kind](texts, size)


def _wordpiece(texts: tuple[str, ...], size: int) -> Any:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return _fast(tokenizer, pad="[PAD]", unk="[UNK]", cls="[CLS]", sep="[SEP]")


def _byte_pairs(texts: tuple[str, ...], size: int, *special: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _bytes(texts: tuple[str, ...], size: int) -> Any:
    tokenizer = _byte_pairs(texts, size, "<s>", "<pad>", "</s>")
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    return _fast(tokenizer, has_types=False, pad="<pad>", cls="<s>", sep="</s>")


def _unigram(texts: tuple[str, ...], size: int) -> Any:
    """Train a tokenizer like XLNet's, with the classification token last."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["<pad>", "<unk>", "<sep>", "<cls>"]
    tokenizer.train_from_iterator(
        texts,
        trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>"),
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A:0 <sep>:0 <cls>:2",
        pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
        special_tokens=[("<sep>", 2), ("<cls>", 3)],
    )
    return _fast(tokenizer, pad="<pad>", unk="<unk>", cls="<cls>", sep="<sep>")


def _bare(texts: tuple[str, ...], size: int) -> Any:
    """Train a tokenizer like GPT-2's, without special tokens and padding."""
    tokenizer = _byte_pairs(texts, size)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return _fast(tokenizer, has_types=False)


def _decoder(texts: tuple[str, ...], size: int) -> Any:
    """Train a tokenizer like Qwen's: one token ends documents and pads, and none is added."""
    tokenizer = _byte_pairs(texts, size, "<|endoftext|>")
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return _fast(tokenizer, has_types=False, eos="<|endoftext|>", pad="<|endoftext|>")


def _llama(texts: tuple[str, ...], size: int) -> Any:
    """Train a tokenizer like Llama's: each text begins with a token, without padding."""
    tokenizer = _byte_pairs(texts, size, "<s>", "</s>")
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 0)]
    )
    return _fast(tokenizer, has_types=False, bos="<s>", eos="</s>")


def _fast(tokenizer: Tokenizer, *, has_types: bool = True, **special: str) -> Any:
    types = ["token_type_ids"] if has_types else []
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", *types, "attention_mask"],
        **{f"{name}_token": token for name, token in special.items()},
    )


_MAKERS = {
    "wordpiece": _wordpiece,
    "bytes": _bytes,
    "unigram": _unigram,
    "bare": _bare,
    "decoder": _decoder,
    "llama": _llama,
}
