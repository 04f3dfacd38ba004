"""Tests of document context for NER sentences: the input of the encoder, and the predictions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchharness.errors import DataError
from benchharness.extensions.frozen.technique import FrozenEncoder
from benchharness.heads import Limits
from benchharness.heads.tag import (
    TagFeatures,
    TagNetwork,
    decode,
    encode,
    encode_in_documents,
    targets,
)
from benchharness.leaderboard.job import Job
from benchharness.splits import ChangedRowsError, check_documents, read_split
from benchharness.tasks.conll import NER
from benchharness.tasks.examples import Surroundings, TagExample
from benchharness.tasks.read import document_digest, fingerprint, read
from benchharness.tasks.sources import parse_data
from benchharness.worker.job import run_job
from tests.helpers.frozen import freeze_on, make_encoder, predict_on
from tests.helpers.made_tokenizers import KINDS, make_tokenizer
from tests.helpers.official_files import write_file
from tests.helpers.plans import plan_job

DOCUMENT = (
    ("Marie", "Skłodowska-Curie", "was", "born", "."),
    ("Warsaw", "is", "old"),
    ("She", "left", "in", "1891", "for", "Paris", "."),
)
TAGS = ("B-PER", "I-PER", "O", "O", "O", "B-LOC", "O", "O", "O", "O", "O", "O", "O", "B-LOC", "O")


def sentences(*document: tuple[str, ...]) -> list[TagExample]:
    words = tuple(word for sentence in document for word in sentence)
    starts = np.cumsum([0, *map(len, document)]).tolist()
    return [
        TagExample(
            id=str(n),
            words=sentence,
            tags=TAGS[start : start + len(sentence)],
            document=Surroundings(words=words, start=start),
        )
        for n, (sentence, start) in enumerate(zip(document, starts, strict=False))
    ]


def parts(features: TagFeatures, tokenizer: Any) -> list[tuple[str, str, str]]:
    """Return the text before the sentence, the sentence and the text after it, for each row."""
    found = []
    for first, last in zip(features.starts, features.starts[1:], strict=False):
        ids = features.token_ids[first:last][1:-1]  # without [CLS] and [SEP]
        is_own = (
            np.full(len(ids), True) if features.read is None else features.read[first:last][1:-1]
        )
        own = np.flatnonzero(is_own)
        cuts = np.split(ids, [own[0], own[-1] + 1])
        found.append(tuple(tokenizer.decode(part) for part in cuts))
    return found


def test_every_sentence_is_encoded_with_its_whole_document_if_it_fits():
    tokenizer = make_tokenizer("wordpiece")
    whole = [tokenizer.decode(tokenizer(" ".join(s))["input_ids"][1:-1]) for s in DOCUMENT]
    features = encode_in_documents(sentences(*DOCUMENT), tokenizer, Limits(max_tokens=256))
    assert parts(features, tokenizer) == [
        ("", whole[0], f"{whole[1]} {whole[2]}"),
        (whole[0], whole[1], whole[2]),
        (f"{whole[0]} {whole[1]}", whole[2], ""),
    ]
    assert features.words[features.words >= 0].tolist() == list(range(15))
    assert features.terms is not None
    assert features.terms.tolist() == [5, 3, 7]


def test_left_context_gets_the_tokens_that_right_context_leaves_and_vice_versa():
    """The reference is examples/ner/reader.py of studio-ousia/luke."""
    letters = tuple("abcdefghiklmnopr")
    document = (letters[:2], letters[2:8], letters[8:10], letters[10:16])
    tokenizer = make_tokenizer("wordpiece")
    features = encode_in_documents(_untagged(document), tokenizer, Limits(max_tokens=11))
    found = [tuple(p.replace(" ", "") for p in row) for row in parts(features, tokenizer)]
    assert found == [  # each row has nine tokens and two special tokens
        ("", "ab", "cdefghi"),
        ("b", "cdefgh", "ik"),
        ("efgh", "ik", "lmn"),
        ("hik", "lmnopr", ""),
    ]


def _untagged(document: tuple[tuple[str, ...], ...]) -> list[TagExample]:
    words = tuple(word for sentence in document for word in sentence)
    starts = np.cumsum([0, *map(len, document)]).tolist()
    return [
        TagExample(id=str(n), words=part, document=Surroundings(words=words, start=start))
        for n, (part, start) in enumerate(zip(document, starts, strict=False))
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_tokens", [8, 14, 64])
def test_one_sentence_document_is_encoded_like_a_sentence_without_context(
    kind: str, max_tokens: int
):
    examples = [example for part in DOCUMENT for example in sentences(part)]
    tokenizer, limits = make_tokenizer(kind), Limits(max_tokens=max_tokens)
    alone, within = (
        encode(examples, tokenizer, limits),
        encode_in_documents(examples, tokenizer, limits),
    )
    for name in ("token_ids", "token_types", "starts", "words", "terms", "read"):
        np.testing.assert_array_equal(getattr(within, name), getattr(alone, name), name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_tokens", [7, 12, 20, 64])
def test_words_of_the_document_context_are_neither_targets_nor_predicted(
    kind: str, max_tokens: int
):
    examples = sentences(*DOCUMENT)
    features = encode_in_documents(examples, make_tokenizer(kind), Limits(max_tokens=max_tokens))
    assert features.lengths.max() <= max_tokens
    assert sorted(features.words[features.words >= 0].tolist()) == list(range(15))
    table = targets(features, examples, NER)
    flat = np.concatenate([row[:n] for row, n in zip(table, features.lengths, strict=True)])
    assert (flat >= 0).tolist() == (features.words >= 0).tolist()
    logits = np.eye(len(NER.tags), dtype=np.float32)[np.maximum(flat, 0)]
    # Context words get wrong logits, which must be ignored.
    logits[flat < 0] = np.eye(len(NER.tags))[3]
    predictions = decode(logits, features, examples, NER)
    assert [p.tags for p in predictions] == [e.tags for e in examples]


def test_cached_states_contain_no_states_of_the_surrounding_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The head reads the same rows as without documents, but their states include the context."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    examples, tokenizer = sentences(*DOCUMENT), make_tokenizer("wordpiece")
    limits = Limits(max_tokens=40)
    within = encode_in_documents(examples, tokenizer, limits)
    network = TagNetwork(make_encoder(vocab_size=len(tokenizer)), len(NER.tags)).eval()
    whole = predict_on(network, within)
    (frozen,) = freeze_on(network, "last", within, head="tag")
    assert isinstance(network.encoder, FrozenEncoder)
    alone = encode(examples, tokenizer, limits)
    assert frozen.starts.tolist() == alone.starts.tolist()
    assert frozen.words.tolist() == alone.words.tolist()
    assert network.encoder.tables[0].shape[1] == len(alone.token_ids)
    np.testing.assert_allclose(predict_on(network, frozen), whole[within.read], atol=2e-5)
    assert torch.is_tensor(network.encoder.tables[0])


# Boundaries of documents.


FILE = """-DOCSTART- -X- O O

Marie NNP I-NP I-PER
left VBD I-VP O

Paris NNP I-NP I-LOC
-DOCSTART- -X- O O

Warsaw NNP I-NP I-LOC
"""


def read_train(folder: Path, text: str) -> tuple[TagExample, ...]:
    write_file(folder, "conll2003/eng.train", text)
    return read(NER, "train", parse_data(str(folder))).examples  # type: ignore[return-value]


def test_conll_documents_start_at_docstart_lines(tmp_path: Path):
    first, second, third = (example.document for example in read_train(tmp_path, FILE))
    assert first == Surroundings(words=("Marie", "left", "Paris"), start=0)
    assert second == Surroundings(words=("Marie", "left", "Paris"), start=2)
    assert third == Surroundings(words=("Warsaw",), start=0)


def test_document_boundaries_change_their_digest_but_not_the_row_fingerprint(tmp_path: Path):
    begun = read_train(tmp_path / "one", FILE)
    other = read_train(tmp_path / "two", FILE.replace("\nParis", "\n-DOCSTART- -X- O O\n\nParis"))
    none = read_train(tmp_path / "none", FILE.replace("-DOCSTART- -X- O O\n", "\n"))
    assert begun == other == none
    assert fingerprint(begun) == fingerprint(other) == fingerprint(none)
    assert document_digest(begun) not in ("", document_digest(other))
    assert document_digest(none) == "", "nothing says where one begins"
    assert document_digest(begun[:1]) != document_digest(begun), "a part of the rows"
    assert begun[0].document == read_train(tmp_path / "one", FILE)[0].document


# Complete jobs.


def plan(data: str = "mini", **texts: str) -> Job:
    quick = {"epochs": "1", "evaluations": "1", "max_tokens": "48", "batch_size": "8"}
    return plan_job(
        "tiny", "conll2003/ner", data, overrides=quick | texts, limit=12, precision="fp32"
    )


def test_job_key_includes_documents_only_if_the_job_uses_them():
    plain, asked = plan(), plan(context="document")
    assert plan(context="sentence").key == plain.key
    assert plain.documents == {}
    assert sorted(asked.documents) == ["conll2003/ner:dev", "conll2003/ner:train"]
    assert asked.fingerprints == plain.fingerprints
    assert Job.from_json(asked.to_json()) == asked
    assert asked.key != plain.key


def test_data_without_documents_are_an_error_at_planning(tmp_path: Path):
    for name in ("train", "testa"):
        text = FILE.replace("-DOCSTART- -X- O O\n", "\n")
        write_file(tmp_path, f"conll2003/eng.{name}", text)
    with pytest.raises(DataError, match="does not show where documents begin"):
        plan(str(tmp_path), context="document")


def test_documents_changed_since_planning_are_an_error():
    job = plan(context="document")
    name = "conll2003/ner:dev"
    check_documents(job, {split: read_split(job, split) for split in job.fingerprints})
    job.documents[name] = "0" * 64  # type: ignore[index]
    with pytest.raises(ChangedRowsError, match=r"conll2003/ner dev \(mini\) has changed"):
        check_documents(job, {split: read_split(job, split) for split in job.fingerprints})


@pytest.mark.parametrize("features", ["fine-tuned", "mix"])
def test_a_job_trains_with_document_context(
    features: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    plain, within = (run_job(plan(context=c, features=features)) for c in ("sentence", "document"))
    one, other = plain.evaluations[0], within.evaluations[0]
    assert one.fingerprint == other.fingerprint, "the same rows, scored alike"
    assert [row["id"] for row in one.predictions] == [row["id"] for row in other.predictions]
    assert one.scores.keys() == other.scores.keys()
    assert within.cost.train_tokens > plain.cost.train_tokens or features == "mix"
