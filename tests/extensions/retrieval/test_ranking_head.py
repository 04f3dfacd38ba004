"""The ranking head: its loss is over the whole batch, and its search is exact."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from benchharness.encoder import load_encoder, set_dropout
from benchharness.errors import ModelError
from benchharness.extensions.retrieval.head import KEPT, decode, learned, loss
from benchharness.extensions.retrieval.hyperparameters import RankingOptions
from benchharness.extensions.retrieval.task import Corpus, QueryExample
from benchharness.heads import Limits, head_for
from benchharness.models import find_model
from benchharness.recipes.zero_shot import zero_shot_recipe
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import Data
from benchharness.tasks.suites import find_task
from tests.helpers.training import RECIPE, begin, having

TASK: Any = find_task("retrieval/folder")


def ask(name: str, corpus: Corpus, *relevant: str) -> QueryExample:
    judged = tuple((document, 1) for document in relevant)
    return QueryExample(id=name, text=name, relevant=judged, documents="", corpus=corpus)


def test_ranking_loss_is_a_softmax_over_the_documents_of_the_batch() -> None:
    vectors = functional.normalize(torch.randn(6, 2, 8), dim=-1)
    apart = torch.arange(6)[:, None].expand(6, 2)
    scores = 20 * vectors[:, 0] @ vectors[:, 1].T
    own = torch.arange(6)
    expected = functional.cross_entropy(scores, own, reduction="none")
    torch.testing.assert_close(loss(vectors, apart, 20.0), expected)
    # The second and third pairs share a document, and the first and last pairs share a query.
    both = torch.tensor([[0, 0], [1, 1], [2, 1], [3, 2], [4, 3], [0, 4]])
    for one, other in ((1, 2), (2, 1), (0, 5), (5, 0)):
        scores[one, other] = -torch.inf
    expected = functional.cross_entropy(scores, own, reduction="none")
    torch.testing.assert_close(loss(vectors, both, 20.0), expected)


def losses(accumulation: int) -> list[float]:
    """Return the losses of a few steps without dropout, whose batches are computed in parts."""
    encoder = load_encoder("builtin:tiny", None, 1)
    set_dropout(encoder, 0.0, None)
    head = head_for(TASK, RankingOptions())
    rows = read(TASK, "train", Data(source="mini"), limit=24)
    pairs = head.learned(rows)
    features = head.encode(pairs.examples, encoder.tokenizer, Limits(max_tokens=64))
    network = head.network(encoder, TASK)
    recipe = having(RECIPE, batch_size=12, epochs=3, accumulation=accumulation)
    data = features, head.targets(features, pairs.examples, TASK)
    training = begin(network, recipe, data, loss=head.loss, is_whole=head.whole_batch)
    for _ in training:
        pass
    return [point.loss for point in training.meter.curve]


def test_ranking_losses_do_not_depend_on_the_number_of_batch_parts() -> None:
    whole = losses(1)
    assert whole[-1] < whole[0]
    assert losses(2) == pytest.approx(whole, abs=1e-5)
    assert losses(4) == pytest.approx(whole, abs=1e-5)


def test_document_search_is_exact_with_ties_ordered_by_id() -> None:
    rng = np.random.default_rng(3)
    # With few distinct values, many similarities are equal.
    documents = rng.integers(-1, 2, (300, 4)).astype(np.float32)
    queries = rng.integers(-1, 2, (5, 4)).astype(np.float32)
    ids = tuple(f"d{number}" for number in range(300))
    corpus = Corpus(ids=ids, texts=ids, digest="")
    asked = [ask(name, corpus) for name in ("q1", "q2", "q3", "d7", "d8")]
    found = decode(np.concatenate([queries, documents]), None, asked, TASK)  # type: ignore[arg-type]
    for example, query, prediction in zip(asked, queries, found, strict=True):
        pairs = zip((documents @ query).tolist(), ids, strict=True)
        best = sorted((each for each in pairs if each[1] != example.id), reverse=True)[:KEPT]
        assert list(zip(prediction.scores, prediction.documents, strict=True)) == best


def test_each_relevant_document_becomes_a_training_pair() -> None:
    corpus = Corpus(ids=("a", "b"), texts=("A", "B"), digest="")
    rows = SplitRows(examples=(ask("q", corpus, "a", "b"), ask("r", corpus)), fingerprint="")
    made: Any = learned(rows).examples
    assert [(each.id, each.positive) for each in made] == [("q/a", "a"), ("q/b", "b")]


def test_pooling_is_read_from_the_sentence_transformers_folder(tmp_path: Any) -> None:
    def pooling(**stated: bool) -> object:
        (tmp_path / "1_Pooling").mkdir(exist_ok=True)
        if stated:
            (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(stated))
        return zero_shot_recipe("beir/nq", find_model(str(tmp_path))).settings["pooling"].value

    encoder = load_encoder("builtin:tiny", None, 1)
    encoder.network.save_pretrained(tmp_path)
    encoder.tokenizer.save_pretrained(tmp_path)
    assert pooling() == "mean"
    assert pooling(pooling_mode_cls_token=True) == "first"
    with pytest.raises(ModelError, match="uses the pooling max_tokens"):
        pooling(pooling_mode_max_tokens=True)


def test_ranking_with_frozen_features_is_an_error_that_suggests_zero_shot(bench: Any) -> None:
    ended = bench(
        *("run", "--model", "tiny", "--task", "retrieval/folder", "--data", "mini"),
        *("--set", "features=last", "--dry-run"),
    )
    assert ended.code == 2
    assert "freezes the encoder, as --shots 0 does: use only one of them" in ended.err


@pytest.mark.soak
def test_trained_encoder_ranks_better_than_the_untrained_one(bench: Any) -> None:
    both = ("--model", "tiny", "--task", "retrieval/folder", "--data", "mini", "--seeds", "1")
    for more in (["--shots", "0"], ["--set", "epochs=4", "--no-baselines"]):
        ended = bench("run", *both, *more, "--jobs", "1", "--db", "board.sqlite")
        assert ended.code == 0, ended.err
    shown = json.loads(bench("leaderboard", "--db", "board.sqlite", "--json").out)
    scores = {row["name"]: row["score"] for board in shown for row in board["entries"]}
    assert scores["tiny, zero-shot"] + 0.1 < max(scores.values())
    assert scores["majority"] < scores["bag-of-words"]
    ended = bench("compare", "tiny:epochs=4", "tiny:zero-shot", "--db", "board.sqlite", "--json")
    assert ended.code == 0, ended.err
