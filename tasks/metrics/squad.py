"""Metrics of SQuAD 1.1, SQuAD 2.0 and MLQA: exact match and F1, as in the official scripts.

Scores are in 0..1. EVALUATE_V1 and EVALUATE_V2 describe the numbers that the official scripts
print. benchharness computes the same numbers up to the last digit, because it uses the same order
of operations.
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

# Texts are normalised and compared (exact match, token F1) as in SQuAD's evaluate-v1.1.py and
# evaluate-v2.0.py. ReCoRD's script has the same functions.

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=2**17)  # the metrics of a SQuAD run all normalise the same 50,000 texts
def normalise(text: str) -> str:
    """Normalise a text as in SQuAD's scripts.

    The result is in lower case, without ASCII punctuation, articles and redundant white space.
    """
    # The order is as in the scripts: "the-end" becomes "theend" before articles are removed, so
    # its "the" is kept.
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def exact_match(guess: str, gold: str, read: Callable[[str], str] = normalise) -> int:
    """Return 1 if both texts are equal after normalisation, else 0.

    Args:
        guess: Predicted answer.
        gold: Gold answer.
        read: Function that normalises a text.
    """
    return int(read(guess) == read(gold))


def token_f1(guess: str, gold: str, read: Callable[[str], str] = normalise) -> float:
    """Return the F1 of the words of the predicted answer, as in SQuAD 1.1 and ReCoRD.

    A word that occurs several times counts several times. The F1 is 0 if the texts have no word in
    common, even if neither has any word after normalisation, such as "the" and "".

    Args:
        guess: Predicted answer.
        gold: Gold answer.
        read: Function that normalises a text.
    """
    guess_words, gold_words = read(guess).split(), read(gold).split()
    shared = (Counter(guess_words) & Counter(gold_words)).total()
    if shared == 0:
        return 0
    return harmonic(shared / len(guess_words), shared / len(gold_words))


def answer_f1(guess: str, gold: str) -> float:
    """Return the F1 of a predicted answer as in SQuAD 2.0.

    If both texts have words after normalisation, the result is their token F1. Otherwise it is 1 if
    neither text has words, and 0 if only one of them has.
    """
    if normalise(guess) and normalise(gold):
        return token_f1(guess, gold)
    return exact_match(guess, gold)


# A question is left unanswered if its no-answer score exceeds a threshold. Scores are computed with
# three kinds of thresholds: a fixed threshold; the threshold that is best on the scored questions
# themselves, as in papers on SQuAD 2.0, which is too optimistic; and cross-fitted thresholds, where
# the threshold for an article is fitted on other articles, which is unbiased.

FOLDS = 5
"""Number of folds for cross-fitted thresholds."""


@dataclass(frozen=True, kw_only=True)
class _ScoredAnswer:
    """Score of the answer to a question, with the inputs for choosing a no-answer threshold.

    Attributes:
        points: Score of the predicted text, in 0..1.
        is_answered: True if the predicted text is not empty.
        has_answer: True if the question has a gold answer.
        no_answer_score: No-answer score of the prediction.
        threshold: Threshold of the prediction itself.
        group: Article of the question. Questions about the same article are never divided between
            fitting and scoring.
    """

    points: float
    is_answered: bool
    has_answer: bool
    no_answer_score: float
    threshold: float
    group: str = ""

    def points_at(self, threshold: float) -> float:
        """Return the score, in 0..1, if this no-answer threshold is applied."""
        if self.no_answer_score > threshold:
            return float(not self.has_answer)
        return self.points

    @property
    def decided(self) -> float:
        """Score at the threshold that the prediction itself has."""
        return self.points_at(self.threshold)


def _best_threshold(answers: Sequence[_ScoredAnswer]) -> tuple[float, float | None]:
    """Return the largest sum of scores over all thresholds, and the threshold that reaches it.

    The threshold is None if no threshold is better than leaving all questions unanswered. As in
    evaluate-v2.0.py, the questions are sorted by their no-answer scores, and one more question is
    answered at a time. Questions with equal scores keep their order. So the best sum may be reached
    between two questions with equal scores, although no threshold separates them.
    """
    # At first no question is answered, which is right for questions without an answer.
    points: float = sum(not answer.has_answer for answer in answers)
    best, threshold = points, None
    for answer in sorted(answers, key=lambda answer: answer.no_answer_score):
        # Answering one more question adds its score if the question has an answer. If it has none,
        # the point for leaving it unanswered is lost, unless the predicted answer is empty.
        points += answer.points if answer.has_answer else -answer.is_answered
        if points > best:
            best, threshold = points, answer.no_answer_score
    return best, threshold


def _cross_fitted_points(answers: Sequence[_ScoredAnswer]) -> float | None:
    """Return the sum of scores where each fold uses the threshold that is best on the other folds.

    Groups are assigned to five folds in turn. Returns None if there are fewer than two groups, so
    that there are no other groups on which a threshold could be fitted.
    """
    groups = sorted({answer.group for answer in answers})
    if len(groups) < 2:
        return None
    # Groups are sorted, so that the folds do not depend on the order of the rows.
    fold_of = {group: index % FOLDS for index, group in enumerate(groups)}
    points = 0.0
    for fold in sorted(set(fold_of.values())):
        _, fitted = _best_threshold([a for a in answers if fold_of[a.group] != fold])
        # If answering no question is best, the threshold is minus infinity, so that every no-answer
        # score exceeds it.
        threshold = -math.inf if fitted is None else fitted
        points += total(a.points_at(threshold) for a in answers if fold_of[a.group] == fold)
    return points


SpanMetric = Metric[SpanPrediction, SpanExample]
Predictions = Sequence[SpanPrediction]
Examples = Sequence[SpanExample]
Measure = Callable[[str, str], float]
"""Function that compares an answer with one gold answer and returns a score in 0..1."""


def gold_texts(example: SpanExample) -> tuple[str, ...]:
    """Return the texts of all gold answers, with repetitions.

    Raises:
        BenchError: If the answers are hidden.
    """
    if example.answers is None:
        raise BenchError(
            f"the answers to question {example.id} are hidden: this question cannot be scored."
        )
    return tuple(text for text, _ in example.answers)


def v1_points(predictions: Predictions, examples: Examples, measure: Measure) -> float:
    """Return the sum of the scores of all questions, as in SQuAD 1.1.

    The score of a question is the highest score of the prediction against any gold answer. It is 0
    if a prediction file does not contain the question.

    Args:
        predictions: Predictions in the order of the examples.
        examples: Questions with their gold answers.
        measure: Function that compares an answer with one gold answer.

    Raises:
        BenchError: If a question has no gold answer, or if the answers are hidden.
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
    """Return the score `points / count`, which is printed as `100 * points / count`.

    The scripts use this order of operations, which matters for the last digit.
    """
    return Printed(points / count, 100.0 * points / count, count)


def _v1_metric(name: str, measure: Measure) -> SpanMetric:
    return Metric(
        name=name,
        compute=lambda ps, es: _share(v1_points(ps, es, measure), len(es)),
        is_mean=True,
    )


SQUAD_V1 = (_v1_metric("em", exact_match), _v1_metric("f1", token_f1))
"""Metrics of SQuAD 1.1: exact match ("em") and F1 ("f1"). Every question must have an answer."""

EVALUATE_V1 = Script(lines=dict(zip(("exact_match", "f1"), SQUAD_V1, strict=True)))
"""Description of SQuAD's evaluate-v1.1.py; XTREME's evaluate_squad.py is equivalent."""


def _v2_answers(
    predictions: Predictions, examples: Examples, measure: Measure
) -> list[_ScoredAnswer]:
    """Score every question. As in the official script, gold answers without words are ignored."""
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
    """Return the mean score at the predictions' own thresholds; None if there are no questions."""
    return _share(total(a.decided for a in answers), len(answers)) if answers else None


def _best(answers: Sequence[_ScoredAnswer]) -> float:
    return _share(_best_threshold(answers)[0], len(answers))


def _threshold(answers: Sequence[_ScoredAnswer]) -> float:
    # The script prints 0.0 if answering no question is best. It never multiplies thresholds by 100.
    found = _best_threshold(answers)[1] or 0.0
    return Printed(found, found)


def _cross(answers: Sequence[_ScoredAnswer]) -> float | None:
    points = _cross_fitted_points(answers)
    return None if points is None else points / len(answers)


SQUAD_V2 = (_v2_metric("em", exact_match, _decided), _v2_metric("f1", answer_f1, _decided))
"""Metrics of SQuAD 2.0: exact match ("em") and F1 ("f1") over all questions.

A question counts as unanswered if its no-answer score exceeds `SpanPrediction.threshold`, which is
0 for predictions of models and can be set by the user for a prediction file.
"""


def _details(reductions: Mapping[str, Reduce]) -> tuple[SpanMetric, ...]:
    """Create two metrics per reduction: one from exact match ("em"), one from F1 ("f1").

    Args:
        reductions: For each suffix of a metric's name, the function that computes the value from
            all answers.
    """
    return tuple(
        _v2_metric(f"{name}_{suffix}", measure, reduce)
        for suffix, reduce in reductions.items()
        for name, measure in {"em": exact_match, "f1": answer_f1}.items()
    )


SWEPT = _details({"best": _best, "best_threshold": _threshold})
"""Metrics with the no-answer threshold that is best on the scored questions themselves.

"em_best" and "f1_best" are the scores at this threshold, which papers report.
"em_best_threshold" and "f1_best_threshold" are the threshold itself, in the unit of the no-answer
scores (a difference of logits for models).
"""

_ANSWERED = tuple(m.of("hasans", lambda example: bool(example.answers)) for m in SQUAD_V2)
_UNANSWERED = tuple(m.of("noans", lambda example: not example.answers) for m in SQUAD_V2)

SQUAD_V2_DETAILS = (
    *_ANSWERED,
    *_UNANSWERED,
    *SWEPT,
    *_details({"cross": _cross}),
)
"""Further metrics of SQuAD 2.0.

These are the scores of the questions with an answer ("f1_hasans") and without one ("f1_noans"), the
scores at the best no-answer threshold ("f1_best"), and the scores at thresholds that are fitted on
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
"""Description of SQuAD's evaluate-v2.0.py.

The value of its option --na-prob-thresh is `SpanPrediction.threshold`.
"""


def swept_in_order(
    predictions: Predictions, examples: Examples, order: Sequence[str] | None
) -> Mapping[SpanMetric, float | None]:
    """Compute the scores at the best no-answer threshold as the official script does.

    The script sorts the questions by their no-answer scores. The order of questions with equal
    scores, which can change the result, is their order in the file with the no-answer scores.

    Args:
        predictions: Predictions in the order of the examples.
        examples: All questions of the split.
        order: Ids of the questions in the order of the file with the no-answer scores; None if
            there is no such file.

    Returns:
        Value of each metric in SWEPT. All values are None without a file, because the script then
        does not search for the best threshold.
    """
    if order is None:
        return dict.fromkeys(SWEPT)
    rank = {name: number for number, name in enumerate(order)}
    places = sorted(range(len(examples)), key=lambda place: rank[examples[place].id])
    ordered = [predictions[place] for place in places], [examples[place] for place in places]
    return {metric: metric.compute(*ordered) for metric in SWEPT}


# MLQA uses SQuAD's metrics with language-specific normalisation. This code was checked against
# mlqa_evaluation_v1.py of facebookresearch/MLQA (24bf470).

_ARTICLES = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    # The official pattern has two alternatives, and the first never matches. So the script also
    # removes the article inside of words.
    "ar": "ال",
}
"""Patterns of articles, keyed by language; Hindi and Chinese have no articles."""


@lru_cache(maxsize=2**16)
def _is_punctuation(character: str) -> bool:
    return category(character).startswith("P") or character in string.punctuation


@lru_cache(maxsize=2**17)  # both metrics normalise the same answers
def normalise_mlqa(answer: str, language: str) -> str:
    """Normalise an answer as in MLQA's script.

    The result is in lower case, without Unicode punctuation, articles and redundant white space.
    If the language is Chinese, spaces are put around each Chinese character, so that each of them
    counts as a word.

    Args:
        answer: Answer to normalise.
        language: Language code of the answer, which selects the articles to remove.
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
"""Metrics of MLQA: exact match ("em") and F1 ("f1").

All questions must be in the same language (`SpanExample.language`).
"""

EVALUATE_MLQA = Script(lines=dict(zip(("exact_match", "f1"), MLQA_METRICS, strict=True)))
"""Description of MLQA's mlqa_evaluation_v1.py for questions in one language."""
