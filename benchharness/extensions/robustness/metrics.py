"""Metrics of challenge sets, as their own scripts and papers compute them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchharness.tasks.examples import (
    PairExample,
    PairPrediction,
    SpanExample,
    SpanPrediction,
)
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


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """Scores of the answer to one version of a question.

    Attributes:
        is_original: True if no sentence was added to the passage.
        f1: Token F1.
        em: Exact match.
    """

    is_original: bool
    f1: float
    em: float


def _answers(
    predictions: Sequence[SpanPrediction], examples: Sequence[SpanExample]
) -> dict[str, list[_Answer]]:
    """Return the answered versions of each question, in order, keyed by the original id."""
    found: dict[str, list[_Answer]] = {}
    for prediction, example in zip(predictions, examples, strict=True):
        versions = found.setdefault(example.group or example.id, [])
        if prediction.missing:  # the script skips the version, but counts the question
            continue
        golds = gold_texts(example)
        versions.append(
            _Answer(
                is_original=example.group in (None, example.id),
                f1=max(token_f1(prediction.text, gold) for gold in golds),
                em=max(exact_match(prediction.text, gold) for gold in golds),
            )
        )
    return found


def _worst(versions: Sequence[_Answer]) -> _Answer | None:
    """Return the adversarial version with the lowest F1, else the original one.

    Of equal versions the first one counts, so its exact match need not be the lowest. Returns None
    if no version was answered.
    """
    added = [each for each in versions if not each.is_original]
    return min(added or versions, key=lambda each: each.f1, default=None)


def _original(versions: Sequence[_Answer]) -> _Answer | None:
    return next((each for each in versions if each.is_original), None)


def _span_metric(
    name: str, choose: Callable[[Sequence[_Answer]], _Answer | None], score: str
) -> SpanMetric:
    """Create a metric over questions: the score of one version of each question.

    Args:
        name: Name of the metric.
        choose: Function that chooses the version; a question without one scores 0.
        score: Field of the version's score: "f1" or "em".
    """

    def compute(predictions: Sequence[SpanPrediction], examples: Sequence[SpanExample]) -> float:
        found = _answers(predictions, examples)
        chosen = (choose(versions) for versions in found.values())
        return total(getattr(each, score) for each in chosen if each) / len(found)

    return Metric(name=name, compute=compute)


ADVERSARIAL_SQUAD = (
    _span_metric("adv_f1", _worst, "f1"),
    _span_metric("adv_exact_match", _worst, "em"),
)
"""Scores of the adversarial version of each question on which the model is worst."""

ORIGINAL_SQUAD = (
    _span_metric("orig_f1", _original, "f1"),
    _span_metric("orig_exact_match", _original, "em"),
)
"""Scores of the original questions."""
