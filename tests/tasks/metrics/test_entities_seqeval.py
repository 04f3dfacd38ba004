"""Tests of entity precision, recall and F1 against seqeval, which reads tags as conlleval does."""

from random import Random

import pytest
from seqeval.metrics import f1_score, precision_score, recall_score

from benchharness.tasks.examples import TagExample, TagPrediction
from benchharness.tasks.metrics.entities import (
    entity_f1,
    entity_precision,
    entity_recall,
    to_iob1,
    to_iob2,
)

KINDS = ("PER", "ORG", "LOC", "MISC")
ANY = ("O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in KINDS))

Tags = tuple[str, ...]
Corpus = list[tuple[Tags, Tags]]
"""Predicted and gold tags of every sentence."""


def any_tags(random: Random, length: int) -> Tags:
    """Draw tags with every transition, I- after O or after another type too."""
    return tuple(random.choices(ANY, weights=[3, *[1] * 8], k=length))


def noisy(random: Random, gold: Tags) -> Tags:
    """Replace some gold tags at random; the result need not be valid in any scheme."""
    return tuple(tag if random.random() < 0.75 else random.choice(ANY) for tag in gold)


def corpus(seed: int, scheme: str) -> Corpus:
    """Draw sentences with gold tags of a scheme, and with noisy, random or gold predictions."""
    random = Random(f"{scheme} {seed}")
    write = {"iob1": to_iob1, "iob2": to_iob2, "any": tuple}[scheme]
    sentences = []
    for _ in range(random.randint(1, 5)):
        gold = write(any_tags(random, random.randint(1, 15)))
        guess = random.choice((noisy(random, gold), any_tags(random, len(gold)), gold))
        sentences.append((guess, gold))
    return sentences


def ours(sentences: Corpus) -> list[float | None]:
    predictions = [TagPrediction(id=str(i), tags=g) for i, (g, _) in enumerate(sentences)]
    examples = [
        TagExample(id=str(i), words=("w",) * len(gold), tags=gold)
        for i, (_, gold) in enumerate(sentences)
    ]
    metrics = entity_precision, entity_recall, entity_f1
    return [metric.compute(predictions, examples) for metric in metrics]


def theirs(sentences: Corpus) -> list[float]:
    guesses, golds = [list(g) for g, _ in sentences], [list(gold) for _, gold in sentences]
    scores = precision_score, recall_score, f1_score
    return [float(score(golds, guesses, zero_division=0)) for score in scores]


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "any"])
def test_scores_of_500_random_files_match_seqeval(scheme: str) -> None:
    for seed in range(500):
        sentences = corpus(seed, scheme)
        assert ours(sentences) == pytest.approx(theirs(sentences), abs=1e-12), sentences


def test_random_test_files_have_malformed_transitions_and_varied_scores() -> None:
    """Check the drawn files: I- after O and after another type, and not only scores of 0 and 1."""
    files = [corpus(seed, "any") for seed in range(500)]
    guesses = [guess for sentences in files for guess, _ in sentences]
    steps = {step for guess in guesses for step in zip(("O", *guess), guess, strict=False)}
    assert {("O", "I-PER"), ("B-PER", "I-LOC"), ("I-PER", "I-LOC"), ("I-PER", "B-PER")} <= steps
    assert len({round(theirs(sentences)[2], 2) for sentences in files}) > 30
