"""Metrics of QuAC, CoQA and HotpotQA, which equal those of the official scripts.

QuAC's scorer.py and CoQA's evaluate-v1.0.py leave out each human answer in turn, take the best
score of the prediction against the others, and average these scores. HotpotQA's
hotpot_evaluate_v1.py compares the prediction with a single gold answer, and also compares sets of
supporting sentences. All scripts normalise texts like SQuAD's script. Metrics are in 0..1;
QUAC_SCRIPT, COQA_SCRIPT and HOTPOTQA_SCRIPT describe the numbers that the scripts print.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from benchharness.tasks.examples import SpanExample, SpanPrediction, fact_names
from benchharness.tasks.metrics.squad import (
    Examples,
    Predictions,
    SpanMetric,
    answer_f1,
    exact_match,
    gold_texts,
    normalise,
    token_f1,
)
from benchharness.tasks.task import Metric, Printed, Script, harmonic, mean_metric, total


def _without_one(points: Sequence[float]) -> float:
    """Leave out each gold answer in turn; return the mean of the best scores against the others.

    Args:
        points: Score against each gold answer. A single score is returned unchanged.
    """
    if len(points) == 1:
        return points[0]
    # With three gold answers: max(second, third), max(first, third) and max(first, second).
    left = [max([*points[:place], *points[place + 1 :]]) for place in range(len(points))]
    return total(left) / len(points)


# QuAC: F1, and the shares of questions (HEQ-Q) and of dialogs (HEQ-D) with predictions that are as
# good as human answers.

NO_ANSWER = "CANNOTANSWER"
"""Answer of QuAC to a question that has no answer in the text."""

LEAST_AGREEMENT = 0.4
"""Minimum F1 of the human answers to a question, each compared with the others. Questions with a
lower F1 are not scored, unless the prediction is missing: it then counts as wrong.
"""


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """Scores of the prediction for a question in QuAC.

    Attributes:
        points: F1 of the prediction.
        human: Mean F1 of the human answers among each other.
        counts: True if the question is scored, because the human answers agree or the prediction
            is missing.
        missing: True if the predictions do not contain the question.
        is_empty: True if the right answer is "no answer".
        acts: For each dialog act, whether its prediction is right.
    """

    points: float
    human: float
    counts: bool
    missing: bool
    is_empty: bool
    acts: tuple[bool, ...]


def _turn(prediction: SpanPrediction, example: SpanExample) -> _Turn:
    golds = gold_texts(example) or (NO_ANSWER,)
    human = _human_f1(golds)
    guess = NO_ANSWER if prediction.abstains else prediction.text
    points = 0.0 if prediction.missing else _without_one([_overlap(guess, g) for g in golds])
    acts = prediction.classes or ("",) * len(example.classes)
    return _Turn(
        points=points,
        human=human,
        # A missing prediction counts as wrong even if the human answers disagree.
        counts=prediction.missing or human >= LEAST_AGREEMENT,
        missing=prediction.missing,
        is_empty=golds == (NO_ANSWER,),
        acts=tuple(
            guess == gold and not prediction.missing
            for guess, gold in zip(acts, example.classes, strict=True)
        ),
    )


def _overlap(guess: str, gold: str) -> float:
    if gold == NO_ANSWER:
        return float(guess == NO_ANSWER)
    return token_f1(guess, gold)


@lru_cache(maxsize=2**15)
def _human_f1(golds: tuple[str, ...]) -> float:
    """Return the mean F1 of each human answer and the most similar other human answer.

    If there is only one human answer, return 1.
    """
    if len(golds) == 1:
        return 1.0
    best = (
        max(token_f1(gold, other) for place, other in enumerate(golds) if place != own)
        for own, gold in enumerate(golds)
    )
    return total(best) / len(golds)


def _quac(
    name: str,
    value: Callable[[_Turn], float],
    keeps: Callable[[_Turn], bool] = lambda turn: turn.counts,
) -> SpanMetric:
    """Create a metric that is the mean of a value over questions; None if there are none.

    Args:
        name: Name of the metric.
        value: Function that returns the value of a question.
        keeps: Predicate that selects the questions; by default, those that are scored.
    """

    def compute(predictions: Predictions, examples: Examples) -> float | None:
        turns = map(_turn, predictions, examples)
        values = [value(turn) for turn in turns if keeps(turn)]
        return fmean(values) if values else None

    return Metric(name=name, compute=compute)


def _is_human(turn: _Turn) -> bool:
    return not turn.missing and turn.points >= turn.human


def _heq_dialogs(predictions: Predictions, examples: Examples) -> float | None:
    """Return the share of dialogs in which all scored predictions are as good as human answers.

    A prediction is as good as human answers if its F1 is at least the F1 among these answers.
    """
    dialogs: defaultdict[str, bool] = defaultdict(lambda: True)
    for prediction, example in zip(predictions, examples, strict=True):
        turn = _turn(prediction, example)
        dialogs[example.group or example.id] &= not turn.counts or _is_human(turn)
    return fmean(dialogs.values()) if dialogs else None


QUAC_F1 = _quac("f1", lambda turn: turn.points)
"""QuAC's F1 over the questions on which human answers agree (with an F1 of at least 0.4), and over
questions whose prediction is missing.
"""

QUAC_DETAILS = (
    _quac("heq_q", _is_human),
    Metric(name="heq_d", compute=_heq_dialogs),
    _quac("yes_no", lambda turn: turn.acts[0]),
    _quac("followup", lambda turn: turn.acts[1]),
    _quac("f1_all", lambda turn: turn.points, lambda _: True),
    _quac("unanswerable", lambda turn: turn.points, lambda turn: turn.counts and turn.is_empty),
)
"""Further scores of QuAC: the shares of questions and of dialogs with predictions that are as good
as human answers, the accuracies of both dialog acts (yes/no and follow-up), F1 over all questions,
and the share of unanswerable questions that are recognized.
"""

_QUAC = {metric.name: metric for metric in (QUAC_F1, *QUAC_DETAILS)}

QUAC_SCRIPT = Script(
    lines={
        "unfiltered_f1": _QUAC["f1_all"],
        "f1": QUAC_F1,
        "HEQ": _QUAC["heq_q"],
        "DHEQ": _QUAC["heq_d"],
        "yes/no": _QUAC["yes_no"],
        "followup": _QUAC["followup"],
        "unanswerable_acc": _QUAC["unanswerable"],
    }
)
"""Scores that QuAC's scorer.py prints. Lines in which the script itself divides by zero are left
out.
"""


# CoQA: exact match and F1 over all turns, and per domain.

COQA_DOMAINS: Mapping[str, str] = {
    "mctest": "children_stories",
    "gutenberg": "literature",
    "race": "mid-high_school",
    "cnn": "news",
    "wikipedia": "wikipedia",
    "science": "science",
    "reddit": "reddit",
}
"""Names of CoQA's domains in the official script, keyed by their names in the data. The last two
domains occur only in the hidden test set and are "out of domain".
"""

OUT_OF_DOMAIN = ("science", "reddit")
"""Domains that occur only in the hidden test set."""

_IN_DOMAIN = tuple(name for name in COQA_DOMAINS.values() if name not in OUT_OF_DOMAIN)


def _coqa(name: str, measure: Callable[[str, str], float], *domains: str) -> SpanMetric:
    """Create a metric of CoQA: the mean score over turns.

    Args:
        name: Name of the metric.
        measure: Function that compares an answer with one gold answer. Each gold answer is left
            out in turn, as in `_without_one`.
        *domains: Domains of the turns to score; by default, all.
    """

    def compute(predictions: Predictions, examples: Examples) -> float | None:
        pairs = [
            (example, _turn_points(measure, prediction, example))
            for prediction, example in zip(predictions, examples, strict=True)
            if not domains or not {*domains}.isdisjoint(example.categories)
        ]
        if not pairs:
            return None
        # Add scores in the same order as the script, domain by domain, so that values near a
        # rounding boundary are rounded equally to one decimal.
        sums = (
            total(total(points for e, points in pairs if name in e.categories) for name in group)
            for group in (_IN_DOMAIN, OUT_OF_DOMAIN)
        )
        line = round(total(sums) / len(pairs) * 100, 1)
        return Printed(fmean(points for _, points in pairs), line, len(pairs))

    return Metric(name=name, compute=compute)


def _turn_points(
    measure: Callable[[str, str], float], prediction: SpanPrediction, example: SpanExample
) -> float:
    if prediction.missing:
        return 0.0
    return _without_one([measure(prediction.text, gold) for gold in gold_texts(example)])


COQA_F1 = _coqa("f1", answer_f1)
"""CoQA's F1 over all turns."""

_COQA_PARTS = {
    "in_domain": _IN_DOMAIN,
    "out_domain": OUT_OF_DOMAIN,
    **{name: (name,) for name in COQA_DOMAINS.values()},
}
_COQA_F1 = {part: _coqa(f"f1_{part}", answer_f1, *names) for part, names in _COQA_PARTS.items()}
_COQA_EM = {part: _coqa(f"em_{part}", exact_match, *names) for part, names in _COQA_PARTS.items()}

_COQA_WHOLE = _coqa("em", exact_match)

COQA_DETAILS = (_COQA_WHOLE, *_COQA_F1.values(), *_COQA_EM.values())
"""Further scores of CoQA: exact match over all turns; and F1 and exact match over the turns in
domain, out of domain, and in each domain.
"""

COQA_SCRIPT = Script(
    lines={
        f"{part} {key}": metric
        for key, parts in {
            "em": {**_COQA_EM, "overall": _COQA_WHOLE},
            "f1": {**_COQA_F1, "overall": COQA_F1},
        }.items()
        for part, metric in parts.items()
    }
)
"""Scores that CoQA's evaluate-v1.0.py prints, for each domain in the data (such as "news f1") and
for all turns ("overall f1").
"""

# HotpotQA: scores of the answer, of the supporting facts, and of both combined.

_FIXED = ("yes", "no", "noanswer")
"""Answers whose F1 with any other answer is 0, even if they share words."""

Part = tuple[float, float, float, float]
"""Scores of one prediction: exact match, F1, precision and recall."""

NOTHING: Part = (0.0, 0.0, 0.0, 0.0)
"""Scores of a missing prediction."""


def _answer_part(prediction: SpanPrediction, example: SpanExample) -> Part:
    if prediction.missing:
        return NOTHING
    guess, (gold,) = prediction.text, gold_texts(example)
    exact = float(exact_match(guess, gold))
    one, other = normalise(guess), normalise(gold)
    shared = (Counter(one.split()) & Counter(other.split())).total()
    # "yes" and "yes, it is" share a word, but score 0, because a fixed answer matches only itself.
    if not shared or (one != other and (one in _FIXED or other in _FIXED)):
        return exact, 0.0, 0.0, 0.0
    precision, recall = shared / len(one.split()), shared / len(other.split())
    return exact, harmonic(precision, recall), precision, recall


def _facts_part(prediction: SpanPrediction, example: SpanExample) -> Part:
    names = fact_names(example)  # as in HotpotQA's script, equal names are one fact
    # Compare facts by (title, number) as in the files, or by index if they have no such name.
    guess, gold = ({names.get(n, n) for n in each.facts} for each in (prediction, example))
    shared = len(guess & gold)
    precision = shared / len(guess) if guess else 0.0
    recall = shared / len(gold) if gold else 0.0
    return float(guess == gold), harmonic(precision, recall), precision, recall


def _joint_part(prediction: SpanPrediction, example: SpanExample) -> Part:
    """Return the joint scores of the answer and its supporting facts.

    Exact match, precision and recall are each the answer's score times the score of the facts. F1
    is computed from the joint precision and recall.
    """
    answer, facts = _answer_part(prediction, example), _facts_part(prediction, example)
    precision, recall = answer[2] * facts[2], answer[3] * facts[3]
    return answer[0] * facts[0], harmonic(precision, recall), precision, recall


_PARTS = {"": _answer_part, "sp_": _facts_part, "joint_": _joint_part}
_NUMBERS = ("em", "f1", "prec", "recall")


def _hotpot(part: str, number: str) -> SpanMetric:
    measure, place = _PARTS[part], _NUMBERS.index(number)
    return mean_metric(part + number, lambda *pair: measure(*pair)[place])


HOTPOTQA = tuple(_hotpot(part, number) for part in _PARTS for number in ("em", "f1"))
"""Main metrics of HotpotQA: exact match and F1 of the answer, of the supporting facts (prefix
"sp_"), and of both combined (prefix "joint_").
"""

HOTPOTQA_DETAILS = tuple(_hotpot(part, number) for part in _PARTS for number in ("prec", "recall"))
"""Further metrics of HotpotQA: precision and recall of the answer, of the supporting facts, and of
both combined.
"""


HOTPOTQA_SCRIPT = Script(
    lines={metric.name: metric for metric in (*HOTPOTQA, *HOTPOTQA_DETAILS)},
    unit=1.0,
    said="from 0 to 1",
)
"""Scores that HotpotQA's hotpot_evaluate_v1.py prints."""
