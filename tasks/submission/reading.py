"""The prediction files of QuAC, CoQA and HotpotQA, as their official scripts read them.

QuAC (scorer.py): a JSON object a dialog and line, with the lists "qid", "best_span_str", "yesno"
and "followup". CoQA (evaluate-v1.0.py): a list of {"id", "turn_id", "answer"}. HotpotQA
(hotpot_evaluate_v1.py): {"answer": {id: text}, "sp": {id: [[title, sentence's number], ...]}}. The
test sets are hidden behind CodaLab worksheets, which run the same scripts on such files.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchharness.tasks.examples import SpanExample, SpanPrediction, fact_names
from benchharness.tasks.submission.answer_file import Faults, Reading, conclude, decoded

CANNOT_ANSWER = "CANNOTANSWER"


Found = dict[str, SpanPrediction]
"""By the question's id. One with supporting sentences and no answer is `missing`."""


def write_conversations(
    layout: str, predictions: Sequence[SpanPrediction], examples: Sequence[SpanExample] = ()
) -> bytes:
    """The file of a layout; HotpotQA's needs the examples, whose sentences it names."""
    return WRITERS[layout]([p for p in predictions if not p.missing], examples).encode()


def read_conversations(
    name: str, content: bytes, layout: str, examples: Sequence[SpanExample]
) -> Reading:
    """A file by anybody; its answers are predictions by id, and some may be missing."""
    faults = Faults(name)
    text = decoded(content, faults)
    try:
        found = {} if text is None else READERS[layout](text, examples, faults)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        faults.add(f"it is not laid out as {LAYOUTS[layout]}: {reason}")
        return conclude(None, faults)
    asked = [example.id for example in examples]
    missing = [question for question in asked if question not in found or found[question].missing]
    if text is not None and len(missing) == len(asked):
        faults.add(f"none of its {len(found)} answers is to one of the {len(asked)} questions")
    elif missing:
        faults.add(
            f"{len(missing)} of {len(asked)} questions are missing, such as {missing[0]}: each "
            "counts as wrong, as in the official script",
            mendable=True,
        )
    if others := len(found.keys() - set(asked)):
        faults.add(f"{others} of its answers are to other questions", mendable=True)
    return conclude(list(found.items()), faults)


LAYOUTS = {
    "quac": 'QuAC\'s lines of {"qid": [...], "best_span_str": [...], "yesno": [...], '
    '"followup": [...]}',
    "coqa": 'CoQA\'s list of {"id": ..., "turn_id": ..., "answer": ...}',
    "hotpotqa": 'HotpotQA\'s {"answer": {id: text}, "sp": {id: [[title, number], ...]}}',
}


def _loaded(text: str) -> Any:
    """What the JSON says; ValueError for NaN and Infinity, which only Python reads."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number of JSON")

    return json.loads(text, parse_constant=refuse)


def _is_whole(value: Any) -> bool:
    """A number that equals a whole one, as 1.0 does: the scripts look it up in a dict."""
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the answer {value!r:.40} is no text")
    return value


# QuAC: a dialog a line.


def _write_quac(predictions: Sequence[SpanPrediction], _examples: Sequence[SpanExample]) -> str:
    dialogs: defaultdict[str, list[SpanPrediction]] = defaultdict(list)
    for prediction in predictions:
        dialogs[prediction.id.rpartition("_q#")[0]].append(prediction)
    lines = (
        {
            "qid": [p.id for p in turns],
            "best_span_str": [CANNOT_ANSWER if p.abstains else p.text for p in turns],
            # Where a file said neither: an answer that is neither, after which one may ask on.
            "yesno": [(p.classes or ("x", "m"))[0] for p in turns],
            "followup": [(p.classes or ("x", "m"))[1] for p in turns],
        }
        for turns in dialogs.values()
    )
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def _read_quac(text: str, _examples: Sequence[SpanExample], _faults: Faults) -> Found:
    found: Found = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        dialog = _loaded(line)
        columns = [dialog[name] for name in ("qid", "best_span_str", "yesno", "followup")]
        for question, answer, yes_no, follow_up in zip(*columns, strict=True):
            said = "" if answer == CANNOT_ANSWER else _text(answer)
            found[_text(question)] = SpanPrediction(
                id=question,
                text=said,
                no_answer_score=float(not said),
                classes=(_text(yes_no), _text(follow_up)),
            )
    return found


# CoQA: a list of turns.


def _write_coqa(predictions: Sequence[SpanPrediction], _examples: Sequence[SpanExample]) -> str:
    turns = (prediction.id.rpartition("/") for prediction in predictions)
    rows = [
        {"id": story, "turn_id": int(turn), "answer": prediction.text}
        for (story, _, turn), prediction in zip(turns, predictions, strict=True)
    ]
    return json.dumps(rows) + "\n"


def _read_coqa(text: str, examples: Sequence[SpanExample], faults: Faults) -> Found:
    parts = {example.id: example.id.rpartition("/") for example in examples}
    asked = {(story, int(turn)): question for question, (story, _, turn) in parts.items()}
    rows = [(row["id"], row["turn_id"], _text(row["answer"])) for row in _loaded(text)]
    named = [(asked.get(row[:2], str(row[:2])), row[2]) for row in rows]
    found = {name: SpanPrediction(id=name, text=answer) for name, answer in named}
    if odd := [turn for _, turn, _ in rows if not _is_whole(turn)]:
        faults.add(
            f"{len(odd)} of its turns have another turn_id than a whole number, such as "
            f"{odd[0]!r:.40}: the official script finds none of them",
            mendable=not parts.keys().isdisjoint(found),
        )
    return found


# HotpotQA: answers, and supporting facts by their paragraph's title and their number in it.


def _write_hotpotqa(predictions: Sequence[SpanPrediction], examples: Sequence[SpanExample]) -> str:
    names = {example.id: fact_names(example) for example in examples}
    facts = {
        p.id: [names[p.id][fact] for fact in p.facts if fact in names[p.id]] for p in predictions
    }
    return json.dumps({"answer": {p.id: p.text for p in predictions}, "sp": facts}) + "\n"


def _read_hotpotqa(text: str, examples: Sequence[SpanExample], faults: Faults) -> Found:
    document = _loaded(text)
    answers, facts = document["answer"], document["sp"]
    known = {
        example.id: {name: number for number, name in reversed(fact_names(example).items())}
        for example in examples
    }
    found: Found = {}
    odd: list[Any] = []
    for question in {**answers, **facts}:
        said = dict.fromkeys(map(_fact, facts.get(question, ())))
        odd += [fact for fact in said if not (len(fact) > 1 and _is_whole(fact[1]))]
        numbers = known.get(question, {})
        # A fact that is none of these has a number below 0: it is wrong, and counts.
        places = [numbers.get(fact, -1 - place) for place, fact in enumerate(said)]
        answer = answers.get(question)
        found[question] = SpanPrediction(
            id=question,
            text="" if answer is None else _text(answer),
            facts=tuple(places),
            missing=answer is None,
        )
    if odd:
        faults.add(
            f"{len(odd)} of its supporting facts are no title and whole number, such as "
            f"{list(odd[0])!r:.80}: the official script counts them as wrong",
            mendable=True,
        )
    return found


def _fact(found: Any) -> tuple[Any, ...]:
    if not isinstance(found, list):
        raise TypeError(f"the fact {found!r:.40} is no list")
    return tuple(found)


WRITERS: Mapping[str, Callable[[Sequence[SpanPrediction], Sequence[SpanExample]], str]] = {
    "quac": _write_quac,
    "coqa": _write_coqa,
    "hotpotqa": _write_hotpotqa,
}
READERS: Mapping[str, Callable[[str, Sequence[SpanExample], Faults], Found]] = {
    "quac": _read_quac,
    "coqa": _read_coqa,
    "hotpotqa": _read_hotpotqa,
}
"""By layout."""
