"""QuAC's, CoQA's and HotpotQA's scores, as their official scripts count them.

QuAC's scorer.py holds an answer against every human answer but one, in turn, and the mean counts;
CoQA's evaluate-v1.0.py does the same; HotpotQA's hotpot_evaluate_v1.py has one answer, and sets of
supporting sentences. All normalise as SQuAD's do. Metrics are in 0..1; the scripts' own keys and
units are in QUAC_SCRIPT, COQA_SCRIPT and HOTPOTQA_SCRIPT.
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
    """The mean, over all gold answers, of the most points against the others."""
    if len(points) == 1:
        return points[0]
    # Of three answers: the most of the second and third, of the first and third, of the first two.
    left = [max([*points[:place], *points[place + 1 :]]) for place in range(len(points))]
    return total(left) / len(points)


# QuAC: F1, and the share of questions (HEQ-Q) and dialogs (HEQ-D) answered as well as people do.

NO_ANSWER = "CANNOTANSWER"

LEAST_AGREEMENT = 0.4
"""Questions on which people agree less, by their F1 with one another, do not count."""


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """A question's points and those of people; `counts` where they agree, or an answer is missing.

    `acts` says of each dialog act whether it is right; `is_empty` that the right answer is none.
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
    """The mean F1 of each human answer with the most alike of the others; 1 for a single one."""
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
    """The mean of a value of the questions that count, or of others; None where there is none."""

    def compute(predictions: Predictions, examples: Examples) -> float | None:
        turns = map(_turn, predictions, examples)
        values = [value(turn) for turn in turns if keeps(turn)]
        return fmean(values) if values else None

    return Metric(name=name, compute=compute)


def _is_human(turn: _Turn) -> bool:
    return not turn.missing and turn.points >= turn.human


def _heq_dialogs(predictions: Predictions, examples: Examples) -> float | None:
    """A dialog counts where every question of it does that is of those that count."""
    dialogs: defaultdict[str, bool] = defaultdict(lambda: True)
    for prediction, example in zip(predictions, examples, strict=True):
        turn = _turn(prediction, example)
        dialogs[example.group or example.id] &= not turn.counts or _is_human(turn)
    return fmean(dialogs.values()) if dialogs else None


QUAC_F1 = _quac("f1", lambda turn: turn.points)
"""Over the questions on which people agree at least by 0.4."""

QUAC_DETAILS = (
    _quac("heq_q", _is_human),
    Metric(name="heq_d", compute=_heq_dialogs),
    _quac("yes_no", lambda turn: turn.acts[0]),
    _quac("followup", lambda turn: turn.acts[1]),
    _quac("f1_all", lambda turn: turn.points, lambda _: True),
    _quac("unanswerable", lambda turn: turn.points, lambda turn: turn.counts and turn.is_empty),
)
"""The shares of questions and of dialogs answered as well as people do, the accuracies of both
dialog acts, F1 of all questions, and the share of unanswerable questions left unanswered."""

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
"""scorer.py; what it would divide by zero is left out."""


# CoQA: exact match and F1, of all turns and of each domain.

COQA_DOMAINS: Mapping[str, str] = {
    "mctest": "children_stories",
    "gutenberg": "literature",
    "race": "mid-high_school",
    "cnn": "news",
    "wikipedia": "wikipedia",
    "science": "science",
    "reddit": "reddit",
}
"""The script's names of the domains, by the data's; the last two are in the hidden test set only,
and "out of domain"."""

OUT_OF_DOMAIN = ("science", "reddit")

_IN_DOMAIN = tuple(name for name in COQA_DOMAINS.values() if name not in OUT_OF_DOMAIN)


def _coqa(name: str, measure: Callable[[str, str], float], *domains: str) -> SpanMetric:
    """Each turn's points against all but one of the answers, in turn; of some domains or of all."""

    def compute(predictions: Predictions, examples: Examples) -> float | None:
        pairs = [
            (example, _turn_points(measure, prediction, example))
            for prediction, example in zip(predictions, examples, strict=True)
            if not domains or not {*domains}.isdisjoint(example.categories)
        ]
        if not pairs:
            return None
        # The script rounds to one decimal. It adds domain by domain, so that halves round as there.
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
"""Over all turns."""

_COQA_PARTS = {
    "in_domain": _IN_DOMAIN,
    "out_domain": OUT_OF_DOMAIN,
    **{name: (name,) for name in COQA_DOMAINS.values()},
}
_COQA_F1 = {part: _coqa(f"f1_{part}", answer_f1, *names) for part, names in _COQA_PARTS.items()}
_COQA_EM = {part: _coqa(f"em_{part}", exact_match, *names) for part, names in _COQA_PARTS.items()}

_COQA_WHOLE = _coqa("em", exact_match)

COQA_DETAILS = (_COQA_WHOLE, *_COQA_F1.values(), *_COQA_EM.values())
"""Exact match; both of the domains of train and dev, of those of the hidden test set, of each."""

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
"""evaluate-v1.0.py: each domain that is here and all of them, as "news f1"."""

# HotpotQA: the answer, the supporting facts, and both at once.

_FIXED = ("yes", "no", "noanswer")
"""Answers that share nothing with any other one, whatever its words."""

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
    # "yes" against "yes, it is" shares a word and gets nothing: it is another kind of answer.
    if not shared or (one != other and (one in _FIXED or other in _FIXED)):
        return exact, 0.0, 0.0, 0.0
    precision, recall = shared / len(one.split()), shared / len(other.split())
    return exact, harmonic(precision, recall), precision, recall


def _facts_part(prediction: SpanPrediction, example: SpanExample) -> Part:
    names = fact_names(example)  # two sentences may have one, as for the script
    # By title and number, as the files name them; a sentence without a name keeps its own number.
    guess, gold = ({names.get(n, n) for n in each.facts} for each in (prediction, example))
    shared = len(guess & gold)
    precision = shared / len(guess) if guess else 0.0
    recall = shared / len(gold) if gold else 0.0
    return float(guess == gold), harmonic(precision, recall), precision, recall


def _joint_part(prediction: SpanPrediction, example: SpanExample) -> Part:
    """The products of both parts' exact match, precision and recall, and F1 of the latter."""
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
"""Precision and recall of the same."""


HOTPOTQA_SCRIPT = Script(
    lines={metric.name: metric for metric in (*HOTPOTQA, *HOTPOTQA_DETAILS)},
    unit=1.0,
    said="from 0 to 1",
)
"""hotpot_evaluate_v1.py."""
