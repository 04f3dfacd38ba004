"""Define the metrics of challenge sets as in their official scripts and papers."""

from collections.abc import Sequence
from statistics import fmean

from benchharness.tasks.examples import PairExample, PairPrediction, SpanExample, SpanPrediction
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.metrics.squad import exact_match, gold_texts, token_f1
from benchharness.tasks.task import Metric, total

PairMetric = Metric[PairPrediction, PairExample]
SpanMetric = Metric[SpanPrediction, SpanExample]

HEURISTICS = ("lexical_overlap", "subsequence", "constituent")
"""Heuristics that HANS tests, in the order of the paper."""


def _of_heuristic(heuristic: str, *, entailed: bool) -> PairMetric:
    kept = f"heuristic {heuristic}"
    return accuracy.of(
        f"{heuristic}_{'entailed' if entailed else 'non_entailed'}",
        lambda e: kept in e.categories and (e.label == "entailment") == entailed,
    )


HANS_DETAILS = tuple(
    _of_heuristic(heuristic, entailed=entailed)
    for entailed in (True, False)
    for heuristic in HEURISTICS
)
"""Accuracy per heuristic and gold label: the first six numbers that HANS' evaluate_heur_output.py
prints."""


# BoolQ's contrast sets (Gardner et al., Findings of EMNLP 2020).

CONTRAST_ACCURACY = accuracy.of("contrast", lambda e: "contrast" in e.categories)
"""Accuracy on the perturbed questions."""

ORIGINAL_ACCURACY = accuracy.of("original", lambda e: "original" in e.categories)
"""Accuracy on the original questions of the contrast sets."""


def _consistency(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
    right: dict[str | None, bool] = {}
    for prediction, example in zip(predictions, examples, strict=True):
        known = right.get(example.group, True)
        right[example.group] = known and prediction.label == example.label
    return fmean(right.values())


CONSISTENCY: PairMetric = Metric(name="consistency", compute=_consistency)
"""Share of the contrast sets in which the original question and all perturbed questions are
answered correctly."""


# Adversarial SQuAD, as in eval_squad.py of robinjia/adversarial-squad.


def _squad_scores(
    predictions: Sequence[SpanPrediction], examples: Sequence[SpanExample]
) -> dict[str, float]:
    """Return the four numbers that eval_squad.py prints, from 0 to 1 and keyed by name.

    For a question with adversarial versions, only the version with the lowest F1 (the first one of
    equals) counts, both for F1 and for exact match. For a question without adversarial versions,
    the original version counts. Versions without a prediction are skipped, but all questions are
    part of the denominator.
    """
    questions = {example.group: example.id for example in examples}
    original, worst = dict[str | None, Scores](), dict[str | None, Scores]()
    for prediction, example in zip(predictions, examples, strict=True):
        if prediction.missing:
            continue
        golds, guess, group = gold_texts(example), prediction.text, example.group
        now = (
            max(token_f1(guess, gold) for gold in golds),
            max(float(exact_match(guess, gold)) for gold in golds),
        )
        if example.id == group:
            original[group] = now
        elif group not in worst or now[0] < worst[group][0]:
            worst[group] = now
    return {
        f"{kind}_{name}": total(scores[place] for scores in found.values()) / len(questions)
        for kind, found in (("adv", original | worst), ("orig", original))
        for place, name in enumerate(("f1", "exact_match"))
    }


Scores = tuple[float, float]
"""F1 and exact match of one prediction."""


def _squad_metric(name: str) -> SpanMetric:
    return Metric(name=name, compute=lambda guesses, golds: _squad_scores(guesses, golds)[name])


ADVERSARIAL_SQUAD = (_squad_metric("adv_f1"), _squad_metric("adv_exact_match"))
"""Mean F1 and exact match on the adversarial version of each question with the lowest F1."""

ORIGINAL_SQUAD = (_squad_metric("orig_f1"), _squad_metric("orig_exact_match"))
"""Mean F1 and exact match on the original questions."""
