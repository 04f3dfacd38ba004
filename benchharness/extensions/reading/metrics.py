"""Metrics of QuAC, CoQA and HotpotQA, equal to their official scripts.

QuAC's scorer.py and CoQA's evaluate-v1.0.py compare an answer with all human answers but one, leave
out each in turn, and average. HotpotQA's hotpot_evaluate_v1.py has one gold answer, and sets of
supporting sentences. All normalise texts like SQuAD. Metrics are in 0..1; QUAC_SCRIPT, COQA_SCRIPT
and HOTPOTQA_SCRIPT have the scripts' keys and units.
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
    """Return the mean, over each gold answer left out, of the maximum against the others."""
    if len(points) == 1:
        return points[0]
    # For three answers: the maxima of the second and third, the first and third, the first two.
    left = [max([*points[:place], *points[place + 1 :]]) for place in range(len(points))]
    return total(left) / len(points)


# QuAC: F1, and the shares of questions (HEQ-Q) and dialogs (HEQ-D) with human-equivalent answers.

NO_ANSWER = "CANNOTANSWER"

LEAST_AGREEMENT = 0.4
"""Least F1 of the human answers with one another; questions below it do not count."""


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """Scores of a question.

    Attributes:
        points: F1 of the prediction.
        human: F1 of the human answers with one another.
        counts: True if people agree on the question, or the prediction is missing.
        missing: True if a file has no prediction.
        is_empty: True if the right answer is no answer.
        acts: True for each dialog act that is right.
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
        # A missing answer counts, as wrong, even where people disagree.
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
    """Return the mean F1 of each human answer with the most similar other; 1 for a single one."""
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
    """Create the mean of a value over the turns that `keeps` accepts; None without any.

    By default these are the questions that count.
    """

    def compute(predictions: Predictions, examples: Examples) -> float | None:
        turns = map(_turn, predictions, examples)
        values = [value(turn) for turn in turns if keeps(turn)]
        return fmean(values) if values else None

    return Metric(name=name, compute=compute)


def _is_human(turn: _Turn) -> bool:
    return not turn.missing and turn.points >= turn.human


def _heq_dialogs(predictions: Predictions, examples: Examples) -> float | None:
    """Return the share of dialogs whose counting questions all have human-equivalent answers."""
    dialogs: defaultdict[str, bool] = defaultdict(lambda: True)
    for prediction, example in zip(predictions, examples, strict=True):
        turn = _turn(prediction, example)
        dialogs[example.group or example.id] &= not turn.counts or _is_human(turn)
    return fmean(dialogs.values()) if dialogs else None


QUAC_F1 = _quac("f1", lambda turn: turn.points)
"""F1 over the questions whose human answers agree with an F1 of at least 0.4."""

QUAC_DETAILS = (
    _quac("heq_q", _is_human),
    Metric(name="heq_d", compute=_heq_dialogs),
    _quac("yes_no", lambda turn: turn.acts[0]),
    _quac("followup", lambda turn: turn.acts[1]),
    _quac("f1_all", lambda turn: turn.points, lambda _: True),
    _quac("unanswerable", lambda turn: turn.points, lambda turn: turn.counts and turn.is_empty),
)
"""Shares of questions and of dialogs with human-equivalent answers, accuracies of both dialog acts,
F1 over all questions, and share of unanswerable questions that are left unanswered.
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
"""Script scorer.py; numbers for which it would divide by zero are left out."""


# CoQA: exact match and F1, over all turns and per domain.

COQA_DOMAINS: Mapping[str, str] = {
    "mctest": "children_stories",
    "gutenberg": "literature",
    "race": "mid-high_school",
    "cnn": "news",
    "wikipedia": "wikipedia",
    "science": "science",
    "reddit": "reddit",
}
"""Names of the domains in the script, by their names in the data. The last two domains occur in the
hidden test set only and are "out of domain".
"""

OUT_OF_DOMAIN = ("science", "reddit")

_IN_DOMAIN = tuple(name for name in COQA_DOMAINS.values() if name not in OUT_OF_DOMAIN)


def _coqa(name: str, measure: Callable[[str, str], float], *domains: str) -> SpanMetric:
    """Create the mean over turns of their scores against all gold answers but one, in turn.

    With `domains` the mean is over the turns of these domains.
    """

    def compute(predictions: Predictions, examples: Examples) -> float | None:
        pairs = [
            (example, _turn_points(measure, prediction, example))
            for prediction, example in zip(predictions, examples, strict=True)
            if not domains or not {*domains}.isdisjoint(example.categories)
        ]
        if not pairs:
            return None
        # The script rounds to one decimal and adds domain by domain. The same order of additions
        # makes halves round as in the script.
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
"""F1 over all turns."""

_COQA_PARTS = {
    "in_domain": _IN_DOMAIN,
    "out_domain": OUT_OF_DOMAIN,
    **{name: (name,) for name in COQA_DOMAINS.values()},
}
_COQA_F1 = {part: _coqa(f"f1_{part}", answer_f1, *names) for part, names in _COQA_PARTS.items()}
_COQA_EM = {part: _coqa(f"em_{part}", exact_match, *names) for part, names in _COQA_PARTS.items()}

_COQA_WHOLE = _coqa("em", exact_match)

COQA_DETAILS = (_COQA_WHOLE, *_COQA_F1.values(), *_COQA_EM.values())
"""Exact match over all turns; F1 and exact match in domain, out of domain, and per domain."""

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
"""Script evaluate-v1.0.py: the domains that occur and the overall score, e.g. "news f1"."""

# HotpotQA: scores of the answer, of the supporting facts, and of both together.

_FIXED = ("yes", "no", "noanswer")
"""Answers that have no overlap with any other answer, whatever its words."""

Part = tuple[float, float, float, float]
"""Exact match, F1, precision and recall."""

NOTHING: Part = (0.0, 0.0, 0.0, 0.0)


def _answer_part(prediction: SpanPrediction, example: SpanExample) -> Part:
    if prediction.missing:
        return NOTHING
    guess, (gold,) = prediction.text, gold_texts(example)
    exact = float(exact_match(guess, gold))
    one, other = normalise(guess), normalise(gold)
    shared = (Counter(one.split()) & Counter(other.split())).total()
    # "yes" and "yes, it is" share a word but get 0: a fixed answer only matches itself.
    if not shared or (one != other and (one in _FIXED or other in _FIXED)):
        return exact, 0.0, 0.0, 0.0
    precision, recall = shared / len(one.split()), shared / len(other.split())
    return exact, harmonic(precision, recall), precision, recall


def _facts_part(prediction: SpanPrediction, example: SpanExample) -> Part:
    names = fact_names(example)  # two sentences may have the same name, as in the script
    # By title and number, the names in the files; a sentence without a name keeps its index.
    guess, gold = ({names.get(n, n) for n in each.facts} for each in (prediction, example))
    shared = len(guess & gold)
    precision = shared / len(guess) if guess else 0.0
    recall = shared / len(gold) if gold else 0.0
    return float(guess == gold), harmonic(precision, recall), precision, recall


def _joint_part(prediction: SpanPrediction, example: SpanExample) -> Part:
    """Return the products of both parts' exact match, precision and recall, with their F1."""
    answer, facts = _answer_part(prediction, example), _facts_part(prediction, example)
    precision, recall = answer[2] * facts[2], answer[3] * facts[3]
    return answer[0] * facts[0], harmonic(precision, recall), precision, recall


_PARTS = {"": _answer_part, "sp_": _facts_part, "joint_": _joint_part}
_NUMBERS = ("em", "f1", "prec", "recall")


def _hotpot(part: str, number: str) -> SpanMetric:
    measure, place = _PARTS[part], _NUMBERS.index(number)
    return mean_metric(part + number, lambda *pair: measure(*pair)[place])


HOTPOTQA = tuple(_hotpot(part, number) for part in _PARTS for number in ("em", "f1"))
"""Exact match and F1 of the answer, of the supporting facts ("sp_") and of both ("joint_")."""

HOTPOTQA_DETAILS = tuple(_hotpot(part, number) for part in _PARTS for number in ("prec", "recall"))
"""Precision and recall of the answer, of the supporting facts and of both."""


HOTPOTQA_SCRIPT = Script(
    lines={metric.name: metric for metric in (*HOTPOTQA, *HOTPOTQA_DETAILS)},
    unit=1.0,
    said="from 0 to 1",
)
"""Script hotpot_evaluate_v1.py."""
