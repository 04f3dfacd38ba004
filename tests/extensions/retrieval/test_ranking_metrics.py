"""Tests of ranking metrics against trec_eval, by its Python binding."""

from random import Random
from typing import Any

import pytest
import pytrec_eval

from benchharness.errors import DataError
from benchharness.extensions.retrieval.metrics import ndcg, ranked, recall, reciprocal_rank
from benchharness.extensions.retrieval.task import Corpus, QueryExample, RankingPrediction
from benchharness.extensions.retrieval.trec import write_run

CORPUS = Corpus(ids=(), texts=(), digest="")


def query(relevant: dict[str, int]) -> QueryExample:
    return QueryExample(
        id="q", text="?", relevant=tuple(relevant.items()), documents="", corpus=CORPUS
    )


def drawn(rng: Random) -> tuple[dict[str, float], dict[str, int]]:
    """Draw scores with ties, also in fp32 alone, and grades with gaps or none at all."""
    ids = [f"d{number}" for number in rng.sample(range(1000), rng.randint(1, 150))]
    scores = [rng.choice((0.5, 0.5 + 1e-9, rng.random(), round(rng.random(), 1))) for _ in ids]
    judged = [*rng.sample(ids, rng.randint(0, min(20, len(ids)))), "absent1", "absent2"]
    grades = [rng.choice((-1, 0, 0, 1, 2, 3)) for _ in judged]
    return dict(zip(ids, scores, strict=True)), dict(zip(judged, grades, strict=True))


def test_ranking_scores_match_trec_eval() -> None:
    rng = Random("rankings")
    runs, qrels = {}, {}
    for number in range(1000):
        runs[str(number)], qrels[str(number)] = drawn(rng)
    judge: Any = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.100"})
    found = judge.evaluate(runs)
    predictions = {
        name: RankingPrediction(id="q", documents=tuple(run), scores=tuple(run.values()))
        for name, run in runs.items()
    }
    # trec_eval's reciprocal rank has no cutoff, so it gets only the first ten documents in its own
    # order.
    first = {name: dict.fromkeys(ranked(p)[:10], 0.0) for name, p in predictions.items()}
    for ten in first.values():
        ten.update((document, -float(place)) for place, document in enumerate(ten))
    ranks = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(first)
    for name, prediction in predictions.items():
        example = query(qrels[name])
        assert ndcg(prediction, example) == pytest.approx(found[name]["ndcg_cut_10"], abs=1e-9)
        assert recall(prediction, example) == pytest.approx(found[name]["recall_100"], abs=1e-9)
        rank = reciprocal_rank(prediction, example)
        assert rank == pytest.approx(ranks[name]["recip_rank"], abs=1e-9)
    assert len({found[name]["ndcg_cut_10"] for name in found}) > 400
    assert any(not any(grade > 0 for grade in grades.values()) for grades in qrels.values())


def test_written_trec_run_file_has_the_scores_of_its_rankings() -> None:
    rng = Random("run file")
    made = [drawn(rng) for _ in range(20)]
    predictions = [
        RankingPrediction(id=f"q{n}", documents=tuple(run), scores=tuple(run.values()))
        for n, (run, _) in enumerate(made)
    ]
    lines = write_run(predictions).decode().splitlines()
    assert {len(line.split(" ")) for line in lines} == {6}
    assert lines[0].split()[1::2] == ["Q0", "1", "benchharness"]
    qrels = {f"q{n}": grades for n, (_, grades) in enumerate(made)}
    judge: Any = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"})
    found = judge.evaluate(pytrec_eval.parse_run(lines))
    for prediction in predictions:
        expected = ndcg(prediction, query(qrels[prediction.id]))
        assert found[prediction.id]["ndcg_cut_10"] == pytest.approx(expected, abs=1e-9)
    odd = RankingPrediction(id="q", documents=("two words",), scores=(1.0,))
    with pytest.raises(DataError, match=r"cannot have the id 'two words'"):
        write_run([odd])
