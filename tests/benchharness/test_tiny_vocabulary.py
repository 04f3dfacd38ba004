"""Tests of the packaged tokenizer: it loads as BERT's and covers the packaged texts."""

import json
import re
import string

import pytest

from benchharness import tiny
from benchharness.tasks.sources.files import mini_folder

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def vocabulary() -> list[str]:
    return (tiny.folder() / "vocab.txt").read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def tokenizer() -> object:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny.folder())


def test_vocabulary_begins_with_special_tokens_and_has_no_duplicates() -> None:
    pieces = vocabulary()
    assert tuple(pieces[:5]) == SPECIAL_TOKENS
    assert len(set(pieces)) == len(pieces)
    assert 500 <= len(pieces) <= 2000


def test_packaged_config_has_the_size_of_the_vocabulary() -> None:
    config = json.loads((tiny.folder() / "config.json").read_text("utf-8"))
    assert config["vocab_size"] == len(vocabulary())
    assert (config["num_hidden_layers"], config["hidden_size"]) == (2, 128)
    assert config["max_position_embeddings"] == 512


def test_packaged_folder_loads_as_a_fast_bert_tokenizer(tokenizer) -> None:
    assert tokenizer.is_fast
    assert len(tokenizer) == len(vocabulary())
    assert tokenizer.pad_token_id == 0
    encoded = tokenizer("The baker", "sold it")
    assert encoded["token_type_ids"][0] == 0
    assert encoded["token_type_ids"][-1] == 1


def test_printable_ascii_text_has_no_unknown_tokens(tokenizer) -> None:
    words = [c for c in string.printable if not c.isspace()]
    words += [f"{first}{second}" for first in "aZ9" for second in string.ascii_letters]
    assert tokenizer.unk_token not in tokenizer.tokenize(" ".join(words))


def test_frequent_words_are_one_token(tokenizer) -> None:
    assert tokenizer.tokenize("The baker SOLD the car.") == [
        "the",
        "baker",
        "sold",
        "the",
        "car",
        ".",
    ]


def test_words_of_packaged_data_have_fewer_than_1_1_tokens_on_average(tokenizer) -> None:
    suites = ("conll2003", "glue", "race", "snli", "squad", "superglue", "swag")
    files = [path for name in suites for path in sorted((mini_folder() / name).rglob("*.*"))]
    text = " ".join(path.read_text("utf-8").lower() for path in files)
    words = re.findall(r"[a-z]+", text)[::50]
    assert len(tokenizer.tokenize(" ".join(words))) < 1.1 * len(words)
