"""SQuAD 1.1 and 2.0: exact match and F1 as evaluate-v1.1.py and evaluate-v2.0.py count them.

Every metric is in 0..1; the scripts' own keys in percent are the same scores (EVALUATE_V1,
EVALUATE_V2), equal to the last digit, because these add and divide in the scripts' order.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from unicodedata import category

from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.task import Metric, Printed, Script, harmonic, total

# Texts as answers: SQuAD's normalisation, exact match and token F1, which ReCoRD shares.
#
# The rules are those of SQuAD's evaluate-v1.1.py and evaluate-v2.0.py.

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=2**17)  # every metric of a SQuAD run normalises the same 50,000 texts
def normalise(text: str) -> str:
    """The text in lower case without ASCII punctuation, articles and spare white space."""
    # In the scripts' order: "the-end" becomes "theend" before articles go, and keeps its "the".
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def exact_match(guess: str, gold: str, read: Callable[[str], str] = normalise) -> int:
    """1 where both texts are the same once normalised (by `read`), else 0."""
    return int(read(guess) == read(gold))


def token_f1(guess: str, gold: str, read: Callable[[str], str] = normalise) -> float:
    """F1 of the words that both texts share, counted with repetition; 0 where they share none.

    This is SQuAD 1.1's and ReCoRD's: two texts without any word ("the", "") get 0.
    """
    guess_words, gold_words = read(guess).split(), read(gold).split()
    shared = (Counter(guess_words) & Counter(gold_words)).total()
    if shared == 0:
        return 0
    return harmonic(shared / len(guess_words), shared / len(gold_words))


def answer_f1(guess: str, gold: str) -> float:
    """SQuAD 2.0's F1: where either text has no word it is 1 if the other has none too, else 0."""
    if normalise(guess) and normalise(gold):
        return token_f1(guess, gold)
    return exact_match(guess, gold)


# No-answer thresholds: where a question's answer gives way to "no answer".
#
# A question is left unanswered where its no-answer score exceeds the threshold. Three thresholds
# are in use: a fixed one, the best on the very questions that are scored (the published
# convention for SQuAD 2.0, which flatters), and cross-fitted ones, each fitted on other articles
# (honest).

FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class _ScoredAnswer:
    """A question's points (0..1) for its answer as it stands, and what a threshold needs to know.

    `group` names what must not be split between fitting and scoring (the article).
    """

    points: float
    is_answered: bool
    has_answer: bool
    no_answer_score: float
    threshold: float
    group: str = ""

    def points_at(self, threshold: float) -> float:
        """The points once a threshold is applied."""
        if self.no_answer_score > threshold:
            return float(not self.has_answer)
        return self.points

    @property
    def decided(self) -> float:
        """The points at the prediction's own threshold."""
        return self.points_at(self.threshold)


def _best_threshold(answers: Sequence[_ScoredAnswer]) -> tuple[float, float | None]:
    """The most points in sum that a threshold can win, and that threshold.

    The threshold is None where no threshold beats answering nothing. As evaluate-v2.0.py does it:
    one sweep from answering nothing, question by question in the order of the no-answer scores,
    ties in the order given. So within a tie the best may lie between two equal scores, which no
    threshold reaches.
    """
    # With no answer to any question, those that have none are right.
    points: float = sum(not answer.has_answer for answer in answers)
    best, threshold = points, None
    for answer in sorted(answers, key=lambda answer: answer.no_answer_score):
        # Answering one more question wins its points where it has an answer. Where it has none
        # the point for silence is lost, unless the answer is empty and so still silence.
        points += answer.points if answer.has_answer else -answer.is_answered
        if points > best:
            best, threshold = points, answer.no_answer_score
    return best, threshold


def _cross_fitted_points(answers: Sequence[_ScoredAnswer]) -> float | None:
    """The points in sum where each fold's threshold is the best one of the other folds.

    Groups are dealt to five folds in turn. None where there is one group only, which leaves
    nothing to fit on.
    """
    groups = sorted({answer.group for answer in answers})
    if len(groups) < 2:
        return None
    # By sorted titles, so that the order of the rows does not matter.
    fold_of = {group: index % FOLDS for index, group in enumerate(groups)}
    points = 0.0
    for fold in sorted(set(fold_of.values())):
        _, fitted = _best_threshold([a for a in answers if fold_of[a.group] != fold])
        # Where answering nothing is best: every score exceeds minus infinity.
        threshold = -math.inf if fitted is None else fitted
        points += total(a.points_at(threshold) for a in answers if fold_of[a.group] == fold)
    return points


SpanMetric = Metric[SpanPrediction, SpanExample]
Predictions = Sequence[SpanPrediction]
Examples = Sequence[SpanExample]
Measure = Callable[[str, str], float]
"""The points, in 0..1, of an answer against one gold answer."""


def gold_texts(example: SpanExample) -> tuple[str, ...]:
    """The texts of all answers; BenchError where they are hidden."""
    if example.answers is None:
        raise BenchError(f"question {example.id} hides its answers, so it cannot be scored.")
    return tuple(text for text, _ in example.answers)


def v1_points(predictions: Predictions, examples: Examples, measure: Measure) -> float:
    """The sum over questions of the best score against any gold answer; 0 for a missing answer."""
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
    """A mean with the percent of the scripts, which multiply before they divide."""
    return Printed(points / count, 100.0 * points / count, count)


def _v1_metric(name: str, measure: Measure) -> SpanMetric:
    return Metric(name=name, compute=lambda ps, es: _share(v1_points(ps, es, measure), len(es)))


SQUAD_V1 = (_v1_metric("em", exact_match), _v1_metric("f1", token_f1))
"""Exact match "em" and "f1" over questions that all have an answer."""

EVALUATE_V1 = Script(lines=dict(zip(("exact_match", "f1"), SQUAD_V1, strict=True)))
"""SQuAD's evaluate-v1.1.py, which XTREME's evaluate_squad.py is too."""


def _v2_answers(
    predictions: Predictions, examples: Examples, measure: Measure
) -> list[_ScoredAnswer]:
    """Every question's points. Gold answers without a word do not count, as in the script."""
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
    """The mean points with "no answer" where the model prefers it."""
    return _share(total(a.decided for a in answers), len(answers)) if answers else None


def _best(answers: Sequence[_ScoredAnswer]) -> float:
    return _share(_best_threshold(answers)[0], len(answers))


def _threshold(answers: Sequence[_ScoredAnswer]) -> float:
    # The script's 0.0 where answering nothing is best; it stays as it is in percent too.
    found = _best_threshold(answers)[1] or 0.0
    return Printed(found, found)


def _cross(answers: Sequence[_ScoredAnswer]) -> float | None:
    points = _cross_fitted_points(answers)
    return None if points is None else points / len(answers)


SQUAD_V2 = (_v2_metric("em", exact_match, _decided), _v2_metric("f1", answer_f1, _decided))
"""Exact match "em" and "f1" over all questions at a fixed threshold: 0, or that of a file."""


def _details(reductions: Mapping[str, Reduce]) -> tuple[SpanMetric, ...]:
    """Each of them for "em" and for "f1"."""
    return tuple(
        _v2_metric(f"{name}_{suffix}", measure, reduce)
        for suffix, reduce in reductions.items()
        for name, measure in {"em": exact_match, "f1": answer_f1}.items()
    )


SWEPT = _details({"best": _best, "best_threshold": _threshold})
"""At the threshold that is best on the scored questions ("f1_best", what papers print), and that
threshold, in the unit of the no-answer scores: a logit difference, or what a file has."""

_ANSWERED = tuple(m.of("hasans", lambda example: bool(example.answers)) for m in SQUAD_V2)
_UNANSWERED = tuple(m.of("noans", lambda example: not example.answers) for m in SQUAD_V2)

SQUAD_V2_DETAILS = (
    *_ANSWERED,
    *_UNANSWERED,
    *SWEPT,
    *_details({"cross": _cross}),
)
"""The same of questions with and without an answer; those of the sweep; and at thresholds fitted on
other articles ("f1_cross")."""

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
    """The scores of the sweep, whose equal no-answer scores stand in an order of question ids.

    Without a file of such scores there is no order, and the script sweeps nothing.
    """
    if order is None:
        return dict.fromkeys(SWEPT)
    rank = {name: number for number, name in enumerate(order)}
    places = sorted(range(len(examples)), key=lambda place: rank[examples[place].id])
    ordered = [predictions[place] for place in places], [examples[place] for place in places]
    return {metric: metric.compute(*ordered) for metric in SWEPT}


# MLQA: SQuAD's scores of answers normalised by language.
#
# Checked against facebookresearch/MLQA mlqa_evaluation_v1.py (24bf470).

_ARTICLES = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    # Of the official pattern the first half fits nothing: the article goes within words too.
    "ar": "ال",
}
"""By language; Hindi and Chinese have none."""


@lru_cache(maxsize=2**16)
def _is_punctuation(character: str) -> bool:
    return category(character).startswith("P") or character in string.punctuation


@lru_cache(maxsize=2**17)  # both metrics normalise the same answers
def normalise_mlqa(answer: str, language: str) -> str:
    """An answer in lower case without Unicode's punctuation, a language's articles, and blanks.

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
"""Exact match and F1, of questions in one language (`SpanExample.language`)."""

EVALUATE_MLQA = Script(lines=dict(zip(("exact_match", "f1"), MLQA_METRICS, strict=True)))
"""mlqa_evaluation_v1.py of one language."""
