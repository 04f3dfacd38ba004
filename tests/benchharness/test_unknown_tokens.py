"""Tests of unknown tokens and lost words, which are counted per split, stored and shown."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast

from benchharness.encoder import load_encoder
from benchharness.heads import Limits, pair, tag
from benchharness.heads.tokens import counting, encode_once, tokenize, tokenize_ids
from benchharness.leaderboard.result import MANY, Reading, RunRow, reading_words
from benchharness.tasks.examples import PairExample, TagExample
from benchharness.tasks.read import SplitRows
from benchharness.tiny import folder as tiny_folder
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.odd_tokenizers import odd_tokenizer

TINY = load_encoder("builtin:tiny", None, 1).tokenizer
STRANGE = ("\u2603\u2604", "ܐܒ")
"""Words that no vocabulary of the tests contains."""


def numbers(tokenizer: Any, *texts: str) -> tuple[int, int, int, int]:
    with counting(tokenizer) as count:
        tokenize_ids(texts, tokenizer)
    tokens, unknown, lost, words = count.numbers().tolist()
    return tokens, unknown, lost, words


def test_unknown_tokens_of_a_repeated_text_are_counted_once():
    tokens, unknown, lost, words = numbers(TINY, "the bird", f"the {STRANGE[1]}", "the bird")
    assert (unknown, lost, words) == (1, 0, 0)
    assert tokens == sum(
        len(TINY(text, add_special_tokens=False)["input_ids"])
        for text in ("the bird", f"the {STRANGE[1]}")
    )


def test_words_of_only_invisible_characters_are_counted_as_lost():
    assert numbers(TINY, "the \u200b bird \u00ad\u200b", "a\u200bb \ufeff")[2:] == (3, 6)


def test_words_of_a_script_that_the_tokenizer_drops_are_counted_as_lost():
    tokenizer = odd_tokenizer("latin letters alone")
    tokens, unknown, lost, words = numbers(tokenizer, "Он жил in Moskau", "東京 a b")
    assert (unknown, lost, words) == (0, 3, 7)
    assert tokens


def test_byte_level_tokenizer_has_no_unknown_tokens():
    assert numbers(odd_tokenizer("bytes"), "Он жил \u200b 東京 \U0001f600")[1:3] == (0, 0)


def test_word_with_only_a_space_token_is_counted_as_lost():
    assert numbers(odd_tokenizer("as ALBERT"), "the \u0301 an")[2:] == (1, 3)


def test_an_end_token_that_is_also_the_unknown_token_is_not_counted():
    tokenizer = GPT2Tokenizer(
        vocab={"<|endoftext|>": 0, "a": 1, "Ġ": 2}, merges=[], unk_token="<|endoftext|>"
    )
    assert numbers(tokenizer, "a a")[1] == 0


def test_an_unknown_token_named_only_in_tokenizer_json_is_counted():
    pieces = [("<pad>", 0.0), ("?", 0.0), ("\u2581", -2.0), ("a", -2.0)]
    made = Tokenizer(models.Unigram(pieces, unk_id=1))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    assert numbers(PreTrainedTokenizerFast(tokenizer_object=made), "a b")[1] == 1
    words = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    assert numbers(PreTrainedTokenizerFast(tokenizer_object=words), "a b a")[1] == 1


def test_an_unpaired_surrogate_is_not_an_invisible_character():
    assert numbers(TINY, "the \ud800 bird")[2] == 0


def test_unknown_token_counts_are_stored_in_the_feature_cache(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("benchharness.heads.tokens.KEPT_TOKENS", 1)
    examples = (PairExample(id="1", text_a=f"the {STRANGE[1]}", text_b="a \u200b bird"),)
    rows = SplitRows(examples=examples, fingerprint="f")
    made, kept = (
        encode_once(pair.encode, rows, TINY, "t", Limits(max_tokens=24)) for _ in range(2)
    )
    assert made.counts is not None
    assert kept.counts is not None
    assert made.counts.tolist() == kept.counts.tolist()
    assert made.counts[1:].tolist() == [1, 1, 5]
    words = TagExample(id="1", words=("the", "\u200b", "bird"), tags=("O", "O", "O"))
    rows = SplitRows(examples=(words,), fingerprint="g")
    found = encode_once(tag.encode, rows, TINY, "t", Limits(max_tokens=24))
    assert found.counts is not None
    assert found.counts[2:].tolist() == [1, 3]


def test_unknown_tokens_in_texts_tokenized_after_counting_has_ended_are_not_counted():
    with counting(TINY) as count:
        pass
    tokenize(["the bird"], TINY)
    assert count.numbers().tolist() == [0, 0, 0, 0]


# Messages to the user.


def read(unknown: tuple[int, int], lost: tuple[int, int] = (0, 9), **source: Any) -> Reading | None:
    data = {"a/b:dev": dict(zip(("unknown", "tokens"), unknown, strict=True))}
    data["a/b:dev"] |= dict(zip(("lost", "words"), lost, strict=True))
    return Reading.of({"model": {"tokenizer_source": source}, "data": data})


def test_unknown_tokens_are_reported_only_if_their_share_is_high():
    few, many = read((1, 100)), read((30, 100), (5, 10))
    assert few is not None
    assert (few.unknown, few.told) == ({"a/b:dev": (1, 100)}, None)
    assert many is not None
    assert many.told is not None
    row = object.__new__(RunRow)
    vars(row).update(model="mine", reading=many.told)
    unknown, lost = reading_words([row])
    assert unknown.startswith("unknown tokens of mine: ")
    assert "30 of 100" in unknown
    assert "do_lower_case" in unknown
    assert "5 of 10" in lost
    assert MANY < 0.05


@pytest.mark.parametrize("provenance", [None, {}, {"model": {}}, {"model": 1, "data": 2}, "x"])
def test_runs_stored_without_token_counts_report_no_unknown_tokens(provenance: object):
    assert Reading.of(provenance) is None


def test_a_run_warns_if_many_tokens_are_unknown(bench, tmp_path: Path):
    folder = save_checkpoint(tmp_path / "mine")
    (folder / "tokenizer.json").unlink()
    pieces = (tiny_folder() / "vocab.txt").read_text().split()
    # A vocabulary with capitals only, while a file of the tokenizer lower-cases the texts.
    kept = [p if p.startswith("[") else p.upper() for p in pieces]
    (folder / "vocab.txt").write_text("\n".join(kept) + "\n")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"do_lower_case": True}))
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("text", "label"), *((f"the bird {n} was old", "ab"[n % 2]) for n in range(40))]
        )
    where = ("--data-file", "rows.csv", "--db", "s.sqlite", "--device", "cpu", "--no-baselines")
    how = ("--seeds", "1", "--precision", "fp32", "--set", "epochs=1", "--set", "evaluations=1")
    code, _, error = bench("run", "--model", "mine=./mine", *where, *how)
    assert code == 0, error
    assert "unknown tokens of mine" in error
    runs = json.loads(bench("show", "runs", "--json", "--db", "s.sqlite")[1])
    (run,) = [each for each in runs if each["model"] == "mine"]
    assert run["unknown_tokens"]
    shown = json.loads(bench("show", run["key"], "--json", "--db", "s.sqlite")[1])
    (dev,) = [of for name, of in shown["unknown_tokens"].items() if name.endswith(":dev")]
    assert 0.3 * dev["of"] < dev["tokens"] <= dev["of"]
    assert shown["tokenizer"] == "vocab.txt by BertTokenizer"
    assert (
        f"{dev['tokens']:,} of {dev['of']:,} tokens"
        in bench("show", run["key"], "--db", "s.sqlite")[1]
    )
    assert bench("report", "--db", "s.sqlite", "--out", "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert "unknown tokens" in page
    assert bench("db", "check", "--db", "s.sqlite")[0] == 0


def test_run_prints_a_note_that_tokenizer_json_overrides_the_tokenizer_class(bench, tmp_path: Path):
    folder = save_checkpoint(tmp_path / "mine")
    told = json.loads((folder / "tokenizer.json").read_text())
    told["normalizer"] |= {"strip_accents": False, "lowercase": False}
    (folder / "tokenizer.json").write_text(json.dumps(told))
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("text", "label"), *((f"the bird {n} was old", "ab"[n % 2]) for n in range(40))]
        )
    where = ("--data-file", "rows.csv", "--db", "s.sqlite", "--device", "cpu", "--no-baselines")
    how = ("--seeds", "1", "--precision", "fp32", "--set", "epochs=1", "--set", "evaluations=1")
    keep = ("--keep-models",)
    code, _, error = bench("run", "--model", "mine=./mine", *where, *how, *keep)
    assert code == 0, error
    assert (
        "mine: tokenized as tokenizer.json specifies; transformers' BertTokenizer differs" in error
    )
    runs = json.loads(bench("show", "runs", "--json", "--db", "s.sqlite")[1])
    (run,) = [each for each in runs if each["model"] == "mine"]
    assert run["tokenizer"].startswith("tokenized as tokenizer.json specifies")
    shown = json.loads(bench("show", run["key"], "--json", "--db", "s.sqlite")[1])
    source = shown["provenance"]["model"]["tokenizer_source"]
    assert (source["file"], source["instead_of"]) == ("tokenizer.json", "BertTokenizer")
    assert source["unlike"] == ["normalizer"]
    taken = ("model", run["key"], "--to", "taken", "--collapsed-too", "--db", "s.sqlite")
    code, _, error = bench(*taken)
    assert code == 0, error
    plain = AutoTokenizer.from_pretrained(tmp_path / "taken")
    file = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in ("The BIRD was old.", "a café É", "Was the old bird"):
        assert plain(text)["input_ids"] == file.encode(text).ids
