"""Tests of the cache of encoded splits: when an entry is stored, reused and rebuilt."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from benchharness import tiny
from benchharness.encoder import load_encoder
from benchharness.encoder.tokenizer import load_tokenizer
from benchharness.heads import Limits, head_for
from benchharness.heads import tokens as encoded
from benchharness.heads.tokens import encode_once
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training.batching import Features

LIMITS = Limits(max_tokens=64, stride=16, max_question_tokens=16)
BERT, DISTILBERT = transformers.BertConfig(), transformers.DistilBertConfig()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(encoded, "KEPT_TOKENS", 1)
    return tmp_path / "features"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_encoder("builtin:tiny", None, 1).tokenizer


def rows_of(task: str) -> SplitRows:
    return read(find_task(task), "dev", parse_data("mini"), 8)


def encode(task: str, tokenizer: Any, rows: SplitRows, **changes: Any) -> Features:
    options = {"identity": "the tokenizer's digest", "limits": LIMITS, **changes}
    return encode_once(head_for(find_task(task)).encode, rows, tokenizer, **options)


def assert_same(one: Features, other: Features) -> None:
    assert type(one) is type(other)
    for field in fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert type(mine) is type(theirs)
        np.testing.assert_array_equal(mine, theirs)
        assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None)


@pytest.mark.parametrize("task", ["glue/rte", "squad/v2.0", "race/all", "conll2003/ner", "wic"])
def test_features_of_every_head_type_are_loaded_from_the_cache_without_encoding(
    task: str, tokenizer: Any, folder: Path
) -> None:
    rows = rows_of(task)
    made = encode(task, tokenizer, rows)
    (file,) = folder.iterdir()
    written = file.stat().st_mtime_ns
    # The cache needs only the class of the tokenizer, so an empty object is enough.
    empty = object.__new__(type(tokenizer))
    assert_same(encode(task, empty, rows), made)
    assert file.stat().st_mtime_ns == written


def test_feature_cache_separates_a_tokenizer_with_and_without_token_types(folder: Path) -> None:
    """BERT and a DistilBERT with the same tokenizer files differ only in their config."""
    tokenizers = [load_tokenizer(tiny.folder(), config) for config in (BERT, DISTILBERT)]
    assert len({type(each) for each in tokenizers}) == 1
    rows = rows_of("glue/rte")
    first, second = (encode("glue/rte", tokenizer, rows) for tokenizer in tokenizers)
    assert first.token_types is not None
    assert second.token_types is None
    np.testing.assert_array_equal(first.token_ids, second.token_ids)
    assert len(list(folder.iterdir())) == 2


def test_feature_cache_has_separate_entries_per_length_limit_tokenizer_and_rows(
    tokenizer: Any, folder: Path
) -> None:
    rows = rows_of("glue/rte")
    encode("glue/rte", tokenizer, rows)
    encode("glue/rte", tokenizer, rows, limits=replace(LIMITS, max_tokens=32))
    encode("glue/rte", tokenizer, rows, identity="another tokenizer")
    encode("glue/rte", tokenizer, read(find_task("glue/rte"), "dev", parse_data("mini"), 9))
    assert len(list(folder.iterdir())) == 4


def test_damaged_file_of_the_feature_cache_is_rebuilt(tokenizer: Any, folder: Path) -> None:
    rows = rows_of("glue/rte")
    made = encode("glue/rte", tokenizer, rows)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:100], whole[: len(whole) // 2], b"PK\x03\x04" + bytes(500)):
        file.write_bytes(damaged)
        assert_same(encode("glue/rte", tokenizer, rows), made)
        assert file.read_bytes() != damaged


def test_feature_cache_that_cannot_be_written_is_ignored(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file"))
    assert len(encode("glue/rte", tokenizer, rows_of("glue/rte"))) == 8


def test_features_of_small_splits_are_not_cached(
    tokenizer: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoded, "KEPT_TOKENS", 10_000)
    encode("glue/rte", tokenizer, rows_of("glue/rte"))
    assert not folder.exists()
