"""Metrics of SQuAD 1.1, SQuAD 2.0 and MLQA: exact match and F1, equal to the official scripts.

Every metric is in 0..1. EVALUATE_V1 and EVALUATE_V2 print the same scores in percent under the
scripts' keys, equal to the last digit, because they add and divide in the scripts' order.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from unicodedata import category

from benchharness.errors import BenchError
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.task import Metric, Printed, Script, harmonic, total

# Texts as answers: normalisation, exact match and token F1 from SQuAD's evaluate-v1.1.py and
# evaluate-v2.0.py, which ReCoRD shares.

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=2**17)  # every metric of a SQuAD run normalises the same 50,000 texts
def normalise(text: str) -> str:
    """Return the text in lower case without ASCII punctuation, articles and extra white space."""
    # In the scripts' order: "the-end" becomes "theend" before articles are removed, so its "the"
    # stays.
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def exact_match(guess: str, gold: str, read: Callable[[str], str] = normalise) -> int:
    """Return 1 if both texts are equal after normalisation by `read`, else 0."""
    return int(read(guess) == read(gold))


def token_f1(guess: str, gold: str, read: Callable[[str], str] = normalise) -> float:
    """Return F1 of the words that both texts share, counted with repetition; 0 without any.

    This is the F1 of SQuAD 1.1 and ReCoRD: two texts that both have no words ("the", "") get 0.
    """
    guess_words, gold_words = read(guess).split(), read(gold).split()
    shared = (Counter(guess_words) & Counter(gold_words)).total()
    if shared == 0:
        return 0
    return harmonic(shared / len(guess_words), shared / len(gold_words))


def answer_f1(guess: str, gold: str) -> float:
    """Return SQuAD 2.0's F1: if a text has no words, 1 if neither has any, else 0."""
    if normalise(guess) and normalise(gold):
        return token_f1(guess, gold)
    return exact_match(guess, gold)


# No-answer thresholds.
#
# A question is left unanswered if its no-answer score exceeds the threshold. Three kinds of
# threshold are in use: a fixed one; the best one on the scored questions themselves (the published
# convention for SQuAD 2.0, which is too optimistic); and cross-fitted ones, each fitted on other
# articles (unbiased).

FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class _ScoredAnswer:
    """Score of a question's answer in 0..1, with all that a no-answer threshold needs.

    `group` (the article) names questions that must not be split between fitting and scoring.
    """

    points: float
    is_answered: bool
    has_answer: bool
    no_answer_score: float
    threshold: float
    group: str = ""

    def points_at(self, threshold: float) -> float:
        """Return the score at a no-answer threshold."""
        if self.no_answer_score > threshold:
            return float(not self.has_answer)
        return self.points

    @property
    def decided(self) -> float:
        """Score at the prediction's own threshold."""
        return self.points_at(self.threshold)


def _best_threshold(answers: Sequence[_ScoredAnswer]) -> tuple[float, float | None]:
    """Return the largest sum of scores that a threshold can reach, and that threshold.

    The threshold is None if no threshold is better than answering nothing. Like evaluate-v2.0.py,
    this is one sweep from answering nothing, question by question in the order of the no-answer
    scores; ties keep the given order. The best sum may therefore lie between two equal scores,
    where no threshold reaches it.
    """
    # If nothing is answered, the questions without an answer are right.
    points: float = sum(not answer.has_answer for answer in answers)
    best, threshold = points, None
    for answer in sorted(answers, key=lambda answer: answer.no_answer_score):
        # Answering one more question wins its points if it has an answer. If it has none, the
        # point for no answer is lost, unless the predicted answer is empty.
        points += answer.points if answer.has_answer else -answer.is_answered
        if points > best:
            best, threshold = points, answer.no_answer_score
    return best, threshold


def _cross_fitted_points(answers: Sequence[_ScoredAnswer]) -> float | None:
    """Return the sum of scores if each fold uses the best threshold of the other folds.

    Groups are assigned to five folds in turn. None if there is only one group, so that nothing is
    left to fit on.
    """
    groups = sorted({answer.group for answer in answers})
    if len(groups) < 2:
        return None
    # Folds follow the sorted titles, so that the order of the rows does not matter.
    fold_of = {group: index % FOLDS for index, group in enumerate(groups)}
    points = 0.0
    for fold in sorted(set(fold_of.values())):
        _, fitted = _best_threshold([a for a in answers if fold_of[a.group] != fold])
        # If answering nothing is best, minus infinity, which every score exceeds.
        threshold = -math.inf if fitted is None else fitted
        points += total(a.points_at(threshold) for a in answers if fold_of[a.group] == fold)
    return points


SpanMetric = Metric[SpanPrediction, SpanExample]
Predictions = Sequence[SpanPrediction]
Examples = Sequence[SpanExample]
Measure = Callable[[str, str], float]
"""Function that returns the score, in 0..1, of an answer against one gold answer."""


def gold_texts(example: SpanExample) -> tuple[str, ...]:
    """Return the texts of all gold answers; raise BenchError if they are hidden."""
    if example.answers is None:
        raise BenchError(f"question {example.id} hides its answers, so it cannot be scored.")
    return tuple(text for text, _ in example.answers)


def v1_points(predictions: Predictions, examples: Examples, measure: Measure) -> float:
    """Sum over questions the best score against any gold answer; a missing answer counts 0.

    Raises BenchError for a question without an answer.
    """
    points = 0.0
    for prediction, example in zip(predictions, examples, strict=True):
        golds = gold_texts(example)
        if not golds:
            raise BenchError(
                f"question {example.id} has no answer, but every question of SQuAD 1.1 has one: "
                "score these questions as SQuAD 2.0."
            )
        if not prediction.missing:
            points += max(measure(prediction.text, gold) for gold in golds)
    return points


def _share(points: float, count: int) -> Printed:
    """Return a mean; its printed percentage is multiplied before dividing, as in the scripts."""
    return Printed(points / count, 100.0 * points / count, count)


def _v1_metric(name: str, measure: Measure) -> SpanMetric:
    return Metric(name=name, compute=lambda ps, es: _share(v1_points(ps, es, measure), len(es)))


SQUAD_V1 = (_v1_metric("em", exact_match), _v1_metric("f1", token_f1))
"""Exact match "em" and "f1" over questions that all have an answer."""

EVALUATE_V1 = Script(lines=dict(zip(("exact_match", "f1"), SQUAD_V1, strict=True)))
"""SQuAD's evaluate-v1.1.py, which is also XTREME's evaluate_squad.py."""


def _v2_answers(
    predictions: Predictions, examples: Examples, measure: Measure
) -> list[_ScoredAnswer]:
    """Score every question; gold answers without a word do not count, as in the script."""
    answers = []
    for prediction, example in zip(predictions, examples, strict=True):
        golds = [gold for gold in gold_texts(example) if normalise(gold)] or [""]
        answers.append(
            _ScoredAnswer(
                points=max(measure(prediction.text, gold) for gold in golds),
                is_answered=bool(prediction.text),
                has_answer=bool(example.answers),
                no_answer_score=prediction.no_answer_score,
                threshold=prediction.threshold,
                group=example.title,
            )
        )
    return answers


Reduce = Callable[[list[_ScoredAnswer]], float | None]


def _v2_metric(name: str, measure: Measure, reduce: Reduce) -> SpanMetric:
    return Metric(
        name=name,
        compute=lambda ps, es: reduce(_v2_answers(ps, es, measure)),
        bounds=(-math.inf, math.inf) if reduce is _threshold else (0.0, 1.0),
    )


def _decided(answers: Sequence[_ScoredAnswer]) -> float | None:
    """Return the mean score at the predictions' own thresholds; None without questions."""
    return _share(total(a.decided for a in answers), len(answers)) if answers else None


def _best(answers: Sequence[_ScoredAnswer]) -> float:
    return _share(_best_threshold(answers)[0], len(answers))


def _threshold(answers: Sequence[_ScoredAnswer]) -> float:
    # The script prints 0.0 if answering nothing is best, and never multiplies the threshold by 100.
    found = _best_threshold(answers)[1] or 0.0
    return Printed(found, found)


def _cross(answers: Sequence[_ScoredAnswer]) -> float | None:
    points = _cross_fitted_points(answers)
    return None if points is None else points / len(answers)


SQUAD_V2 = (_v2_metric("em", exact_match, _decided), _v2_metric("f1", answer_f1, _decided))
"""Exact match "em" and "f1" over all questions at a fixed threshold: 0, or the one of a file."""


def _details(reductions: Mapping[str, Reduce]) -> tuple[SpanMetric, ...]:
    """Create each reduction for exact match ("em") and F1 ("f1")."""
    return tuple(
        _v2_metric(f"{name}_{suffix}", measure, reduce)
        for suffix, reduce in reductions.items()
        for name, measure in {"em": exact_match, "f1": answer_f1}.items()
    )


SWEPT = _details({"best": _best, "best_threshold": _threshold})
"""Scores at the threshold that is best on the scored questions ("f1_best", the number in papers),
and that threshold, in the unit of the no-answer scores: a logit difference, or the file's unit.
"""

_ANSWERED = tuple(m.of("hasans", lambda example: bool(example.answers)) for m in SQUAD_V2)
_UNANSWERED = tuple(m.of("noans", lambda example: not example.answers) for m in SQUAD_V2)

SQUAD_V2_DETAILS = (
    *_ANSWERED,
    *_UNANSWERED,
    *SWEPT,
    *_details({"cross": _cross}),
)
"""Scores of the questions with and without an answer, of the sweep, and at thresholds fitted on
other articles ("f1_cross").
"""

_BY_PREFIX = {"": SQUAD_V2, "HasAns_": _ANSWERED, "NoAns_": _UNANSWERED}
_SWEPT_KEYS = ("best_exact", "best_f1", "best_exact_thresh", "best_f1_thresh")

EVALUATE_V2 = Script(
    lines={
        **{prefix + "exact": exact for prefix, (exact, _) in _BY_PREFIX.items()},
        **{prefix + "f1": f1 for prefix, (_, f1) in _BY_PREFIX.items()},
        **dict(zip(_SWEPT_KEYS, SWEPT, strict=True)),
    },
    counts={prefix + "total": exact for prefix, (exact, _) in _BY_PREFIX.items()},
)
"""SQuAD's evaluate-v2.0.py; the predictions' threshold is its --na-prob-thresh."""


def swept_in_order(
    predictions: Predictions, examples: Examples, order: Sequence[str] | None
) -> Mapping[SpanMetric, float | None]:
    """Compute the scores of the sweep with ties in the given order of question ids.

    Without a file of no-answer scores there is no order, and the script sweeps nothing: all are
    None.
    """
    if order is None:
        return dict.fromkeys(SWEPT)
    rank = {name: number for number, name in enumerate(order)}
    places = sorted(range(len(examples)), key=lambda place: rank[examples[place].id])
    ordered = [predictions[place] for place in places], [examples[place] for place in places]
    return {metric: metric.compute(*ordered) for metric in SWEPT}


# MLQA: SQuAD's metrics with language-specific normalisation.
#
# Checked against facebookresearch/MLQA mlqa_evaluation_v1.py (24bf470).

_ARTICLES = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    # The first half of the official pattern matches nothing, so the article is removed within words
    # too.
    "ar": "ال",
}
"""Patterns of articles by language; Hindi and Chinese have none."""


@lru_cache(maxsize=2**16)
def _is_punctuation(character: str) -> bool:
    return category(character).startswith("P") or character in string.punctuation


@lru_cache(maxsize=2**17)  # both metrics normalise the same answers
def normalise_mlqa(answer: str, language: str) -> str:
    """Return an answer in lower case without Unicode punctuation, articles and extra white space.

    Each Chinese character is a word of its own.
    """
    kept = "".join(c for c in answer.lower() if not _is_punctuation(c))
    if language in _ARTICLES:
        kept = re.sub(_ARTICLES[language], " ", kept)
    if language == "zh":
        kept = re.sub(r"([\u4e00-\u9fa5])", r" \1 ", kept)
    return " ".join(kept.split())


def _by_language(measure: Callable[..., float], examples: Examples) -> Measure:
    return partial(measure, read=partial(normalise_mlqa, language=examples[0].language))


def _mlqa(name: str, measure: Callable[..., float]) -> SpanMetric:
    def compute(predictions: Predictions, examples: Examples) -> float:
        points = v1_points(predictions, examples, _by_language(measure, examples))
        return _share(points, len(examples))

    return Metric(name=name, compute=compute)


MLQA_METRICS = (_mlqa("em", exact_match), _mlqa("f1", token_f1))
"""Exact match and F1 of questions in one language (`SpanExample.language`)."""

EVALUATE_MLQA = Script(lines=dict(zip(("exact_match", "f1"), MLQA_METRICS, strict=True)))
"""Script mlqa_evaluation_v1.py for one language."""
