"""Metrics of challenge sets, as their own scripts and papers compute them."""

from collections.abc import Sequence
from statistics import fmean

from benchharness.tasks.examples import PairExample, PairPrediction, SpanExample, SpanPrediction
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.metrics.squad import exact_match, gold_texts, token_f1
from benchharness.tasks.task import Metric, total

PairMetric = Metric[PairPrediction, PairExample]
SpanMetric = Metric[SpanPrediction, SpanExample]

HEURISTICS = ("lexical_overlap", "subsequence", "constituent")
"""Heuristics that HANS tests, in the order of its paper."""


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
"""Accuracy per heuristic and gold label, the first six numbers of HANS' evaluate_heur_output.py."""


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
"""Share of the contrast sets whose questions, with the original one, are all answered rightly."""


# Adversarial SQuAD: eval_squad.py of robinjia/adversarial-squad.


def _squad_scores(
    predictions: Sequence[SpanPrediction], examples: Sequence[SpanExample]
) -> dict[str, float]:
    """Return the four numbers of the script, from 0 to 1.

    Of the adversarial versions of a question, the one with the lowest F1 counts, and its exact
    match even if another version has a lower one. Of equal versions the first one counts. Without
    any, the original version counts. Unanswered versions are skipped, but their question counts.
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
"""F1 and exact match."""


def _squad_metric(name: str) -> SpanMetric:
    return Metric(name=name, compute=lambda guesses, golds: _squad_scores(guesses, golds)[name])


ADVERSARIAL_SQUAD = (_squad_metric("adv_f1"), _squad_metric("adv_exact_match"))
"""Scores of the adversarial version of each question on which the model is worst."""

ORIGINAL_SQUAD = (_squad_metric("orig_f1"), _squad_metric("orig_exact_match"))
"""Scores of the original questions."""
