"""Tests of the comparison on real data: statistics, files, and runs without dropout."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats

from benchmarks import derived
from benchmarks.equivalence import WORKLOADS, Pair
from benchmarks.parity_page import REAL
from benchmarks.tost import MEASURES, Equivalence, compared, shown
from benchmarks.workloads import Values
from tests.helpers.families import save_family


def of(gaps: list[float], margin: float = 1.0) -> Equivalence:
    return Equivalence(
        task="SST-2", score="accuracy", margin=margin, ours=gaps, theirs=[0.0] * len(gaps)
    )


def test_equivalence_intervals_and_p_values_match_scipy():
    draw = random.Random(3)
    gaps = [draw.gauss(0.3, 0.6) for _ in range(10)]
    found = of(gaps)
    for share in (0.9, 0.95):
        known = stats.ttest_1samp(gaps, 0.0).confidence_interval(share)
        assert found.interval(share) == pytest.approx((known.low, known.high))
    below = stats.ttest_1samp(gaps, 1.0, alternative="less").pvalue
    above = stats.ttest_1samp(gaps, -1.0, alternative="greater").pvalue
    assert found.p_value == pytest.approx(max(below, above))


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ([0.1, -0.1, 0.2, -0.2], "equivalent"),
        ([3.0, 3.2, 2.9, 3.1], "different"),
        ([0.4, 0.5, 0.4, 0.5], "equivalent and different"),
        ([3.0, -3.0, 2.0, -2.0], "open"),
    ],
)
def test_equivalence_verdict_follows_from_the_score_differences(gaps: list[float], verdict: str):
    assert of(gaps).verdict == verdict


def test_equivalence_compares_only_seeds_that_both_programs_ran():
    runs = [
        {"task": "SQuAD", "side": side, "seed": seed, "scores": scores}
        for seed in (1, 2, 3)
        for side, scores in (
            ("ours", {"em": 0.2, "f1": 0.4}),
            ("theirs", {"exact_match": 21.0 + seed, "f1": 40.0}),
        )
        if (side, seed) != ("theirs", 3)
    ]
    exact, f1 = compared(runs)
    assert exact.gaps == pytest.approx([-2.0, -3.0])
    assert f1.gaps == pytest.approx([0.0, 0.0])
    assert "| SQuAD em | 2 | 20.0 (0.0) | 22.5 (0.7) | -2.5 |" in "\n".join(shown([exact]))


def test_every_equivalence_workload_has_metrics():
    assert {each.name for each in WORKLOADS} == MEASURES.keys()
    assert "{table}" in REAL


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Files in the layout of SQuAD and of ReCoRD."""
    folder = tmp_path / "data"
    sentences = [f"The river {name} is long." for name in ("Aa", "Ob", "Po", "Inn", "Lek")]
    context = " ".join(sentences)
    asked = [
        {
            "id": f"{n}",
            "question": f"Which river is number {n}?",
            "answers": [{"text": name, "answer_start": context.index(f"{name} is")}],
        }
        for n, name in enumerate(("Aa", "Ob", "Po", "Inn", "Lek"))
    ]
    squad = {"data": [{"title": "", "paragraphs": [{"context": context, "qas": asked}]}]}
    entity = {"start": context.index("Inn"), "end": context.index("Inn") + 2}
    record = {"passage": {"text": context, "entities": [entity]}}
    (folder / "squad-by-article").mkdir(parents=True)
    (folder / "superglue" / "ReCoRD").mkdir(parents=True)
    for split, file in (("train", "train.jsonl"), ("dev", "dev32.jsonl")):
        path = folder / "squad-by-article" / f"{split}-v1.1.json"
        path.write_text(json.dumps(squad), encoding="utf-8")
        (folder / "superglue" / "ReCoRD" / file).write_text(json.dumps(record), encoding="utf-8")
    return folder


def test_derived_benchmark_data_have_entity_tags_and_valid_answer_offsets(
    data: Path, tmp_path: Path
):
    for benchmark in ("conll2003", "squad", "swag"):
        derived.write(benchmark, data, "train", 3, tmp_path)
    tags = (tmp_path / "conll2003" / "eng.train").read_text().splitlines()
    assert [line for line in tags if not line.endswith(" O") and line] == ["Inn X X B-MISC"]
    assert tags.count("") == 5
    squad = json.loads((tmp_path / "squad" / "train-v1.1.json").read_text())
    for passage in squad["data"][0]["paragraphs"]:
        answer = passage["qas"][0]["answers"][0]
        assert passage["context"][answer["answer_start"] :].startswith(f"{answer['text']} is")
    rows = (tmp_path / "swag" / "train.csv").read_text().splitlines()
    assert len(rows) == 4


@pytest.mark.parametrize("name", ["choice", "tags"])
def test_scores_without_dropout_equal_those_of_the_trainer_script(
    data: Path, tmp_path: Path, monkeypatch: Any, name: str
):
    """Compare heads whose scores do not depend on padding, unlike the softmax of a span."""
    monkeypatch.setattr("benchmarks.equivalence.FLAG", "random")
    monkeypatch.setattr("benchmarks.equivalence.PRECISION", "fp32")
    torch.manual_seed(1)
    changes = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = str(save_family(tmp_path / "bert", "bert", max_position_embeddings=192, **changes))
    (workload,) = (each for each in WORKLOADS if each.name == name)
    values = Values(epochs=4, batch_size=2, learning_rate=1e-3, max_tokens=160)
    pair = Pair.of(replace(workload, values=values), model, data, tmp_path / "files")
    ours, theirs = (pair.run(side, 1) for side in ("ours", "theirs"))
    for mine, other, _ in MEASURES[name]:
        assert ours[mine] == pytest.approx(theirs[other])
