from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness.errors import ModelError
from benchharness.heads.tokens import Frame, join, tokenize, tokenize_ids
from tests.helpers.made_tokenizers import CORPUS, KINDS, make_tokenizer

any_text = st.text(st.characters(codec=None), max_size=60)


@pytest.mark.parametrize("kind", KINDS)
def test_encoded_rows_equal_those_of_the_tokenizer(kind: str):
    tokenizer = make_tokenizer(kind)
    for texts in (CORPUS[:1], CORPUS[:2], ("", CORPUS[0]), (CORPUS[0], "")):
        frame = Frame.of(tokenizer, len(texts))
        ids = tokenize_ids(texts, tokenizer)
        row, types = frame.row(*(ids[text] for text in texts))
        # In a batch, an empty second text is not ignored.
        expected = tokenizer(*([text] for text in texts))
        assert row.tolist() == expected["input_ids"][0]
        assert types.tolist() == expected.get("token_type_ids", [[0] * len(row)])[0]
        assert frame.has_types == ("token_type_ids" in expected)
        assert frame.size == len(row) - sum(len(ids[text]) for text in texts)


@pytest.mark.parametrize("kind", KINDS)
def test_null_answer_is_at_the_position_of_the_classification_token(kind: str):
    tokenizer = make_tokenizer(kind)
    frame = Frame.of(tokenizer, 2)
    row, _ = frame.row(*tokenize_ids(["a tower", "stood"], tokenizer).values())
    assert row[frame.null] == tokenizer.cls_token_id


def test_encoded_rows_have_no_special_tokens_if_the_tokenizer_has_none():
    tokenizer = make_tokenizer("bare")
    frame = Frame.of(tokenizer, 2)
    assert (frame.size, frame.null) == (0, 0)
    first, second = tokenize_ids(["the tower", " stood"], tokenizer).values()
    assert frame.row(first, second)[0].tolist() == tokenizer("the tower", " stood")["input_ids"]


def test_first_position_of_each_text_in_an_encoded_row_is_found():
    frame = Frame.of(make_tokenizer("bytes"), 2)  # <s> a </s></s> b </s>
    a, b = np.array([50, 51], dtype=np.int32), np.array([60], dtype=np.int32)
    row, _ = frame.row(a, b)
    assert row[frame.first()] == 50
    assert row[frame.first(a)] == 60


@pytest.mark.parametrize("kind", KINDS)
def test_token_offsets_exclude_whitespace(kind: str):
    text = "  The storm of\t1846,  in Warsaw \n"
    tokens = tokenize([text], make_tokenizer(kind))[text]
    pieces = [text[a:b] for a, b in zip(tokens.starts, tokens.ends, strict=True)]
    assert all(piece == piece.strip() for piece in pieces)
    assert "".join(pieces) == "".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
@given(text=any_text)
def test_token_offsets_of_any_text_are_inside_the_text(kind: str, text: str):
    tokens = tokenize([text], make_tokenizer(kind))[text]
    assert len(tokens.ids) == len(tokens.starts) == len(tokens.ends)
    assert ((tokens.starts >= 0) & (tokens.starts <= tokens.ends)).all()
    assert (tokens.ends <= len(text)).all()
    for start, end in zip(tokens.starts, tokens.ends, strict=True):
        assert text[start:end] == text[start:end].strip()


def test_an_unpaired_surrogate_is_an_unknown_character():
    texts = ["bad \ud800 half", "bad \ufffd half"]
    first, second = (tokenize([t], make_tokenizer("bytes"))[t] for t in texts)
    assert first.ids.tolist() == second.ids.tolist()
    assert first.ends.tolist() == second.ends.tolist()


def test_repeated_text_is_tokenized_only_once(monkeypatch: pytest.MonkeyPatch):
    calls: list[list[str]] = []
    tokenizer = make_tokenizer("wordpiece")

    def count(texts: list[str], **options: Any) -> Any:
        calls.append(texts)
        return tokenizer(texts, **options)

    monkeypatch.setattr("benchharness.heads.tokens.CHUNK", 2)
    assert list(tokenize_ids(["a", "b", "a", "c", "b"], count)) == ["a", "b", "c"]
    assert calls == [["a", "b"], ["c"]]


def test_tokens_that_cover_a_range_of_characters_are_found():
    text = "in Warsaw 🐦 she"
    tokens = tokenize([text], make_tokenizer("bytes"))[text]
    first, last = tokens.covering(10, 11) or (0, 0)
    assert last > first, "an emoji is several tokens, which share its place"
    assert {(int(tokens.starts[i]), int(tokens.ends[i])) for i in (first, last)} == {(10, 11)}
    assert tokens.covering(2, 3) is None, "a space is nobody's"
    assert tokens.covering(99, 120) is None


def test_tokenizer_that_returns_no_tokens_is_an_error():
    def mute(*texts: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [], "special_tokens_mask": []}

    with pytest.raises(ModelError, match="cannot encode 'a'"):
        Frame.of(mute, 1)


def test_encoded_rows_are_concatenated_with_their_start_positions():
    frame = Frame.of(make_tokenizer("wordpiece"), 1)
    ids = np.array([7, 8], dtype=np.int32)
    columns = join([frame.row(ids), frame.row(ids[:1])], frame, 64)
    assert columns["starts"].tolist() == [0, 4, 7]
    assert columns["token_ids"].tolist() == [2, 7, 8, 3, 2, 7, 3]
    assert len(columns["token_types"]) == 7
    bare = Frame.of(make_tokenizer("bytes"), 1)
    assert join([bare.row(ids)], bare, 64)["token_types"] is None
