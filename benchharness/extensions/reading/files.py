"""Read and write the prediction files of QuAC, CoQA and HotpotQA.

QuAC's file (for scorer.py) has one line per dialog, a JSON object with the lists "qid",
"best_span_str", "yesno" and "followup". CoQA's file (for evaluate-v1.0.py) is a list of {"id",
"turn_id", "answer"}. HotpotQA's file (for hotpot_evaluate_v1.py) is {"answer": {id: text}, "sp":
{id: [[title, number of the sentence], ...]}}. The hidden test sets are scored on CodaLab, where the
same scripts read the same files.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchharness.errors import first_line
from benchharness.extensions.submission.answer_file import (
    Faults,
    Form,
    Layout,
    PredictionFile,
    Reading,
    conclude,
    decoded,
    require_clear,
)
from benchharness.extensions.submission.questions import compare_ids
from benchharness.tasks.examples import SpanExample, SpanPrediction, fact_names
from benchharness.tasks.read import SplitRows
from benchharness.tasks.sources.formats import content_of
from benchharness.tasks.task import SpanTask

CANNOT_ANSWER = "CANNOTANSWER"
"""Answer in QuAC's files that means "no answer"."""


Found = dict[str, SpanPrediction]
"""Predictions, keyed by question id. If a file has supporting sentences for a question but no
answer, `missing` of the prediction is true.
"""


def write_conversations(
    layout: str, predictions: Sequence[SpanPrediction], examples: Sequence[SpanExample] = ()
) -> bytes:
    """Return the bytes of a prediction file for the official script of a task.

    Args:
        layout: The task: "quac", "coqa" or "hotpotqa".
        predictions: The predictions. Those that are marked as `missing` are left out.
        examples: The questions. Only HotpotQA needs them, because its file contains the names of
            their supporting sentences.
    """
    return WRITERS[layout]([p for p in predictions if not p.missing], examples).encode()


def read_conversations(
    name: str, content: bytes, layout: str, examples: Sequence[SpanExample]
) -> Reading:
    """Read a prediction file of QuAC, CoQA or HotpotQA, and report all problems in it.

    Some questions may be missing, because the official scripts count them as wrong.

    Args:
        name: The name of the file, for messages.
        content: The bytes of the file.
        layout: The task: "quac", "coqa" or "hotpotqa".
        examples: Questions of the split.

    Returns:
        Pairs (question id, prediction), or None if a problem has no clear fix; and the problems.
    """
    faults = Faults(name)
    text = decoded(content, faults)
    try:
        found = {} if text is None else READERS[layout](text, examples, faults)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        faults.add(f"it cannot be read as {LAYOUTS[layout]}: {first_line(error)}")
        return conclude(None, faults)
    asked = [example.id for example in examples]
    missing = [question for question in asked if question not in found or found[question].missing]
    if text is not None:
        compare_ids(found.keys(), missing, asked, faults, "the official script")
    return conclude(list(found.items()), faults)


LAYOUTS = {
    "quac": 'QuAC\'s lines of {"qid": [...], "best_span_str": [...], "yesno": [...], '
    '"followup": [...]}',
    "coqa": 'CoQA\'s list of {"id": ..., "turn_id": ..., "answer": ...}',
    "hotpotqa": 'HotpotQA\'s {"answer": {id: text}, "sp": {id: [[title, number], ...]}}',
}
"""Descriptions of the prediction files in messages, keyed by layout."""


def _loaded(text: str) -> Any:
    """Parse JSON; raise ValueError for NaN and Infinity, which are not valid JSON."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not a number in JSON")

    return json.loads(text, parse_constant=refuse)


def _is_whole(value: Any) -> bool:
    """Return whether a value equals an integer; 1.0 does, since it is the same dict key as 1."""
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the answer {value!r:.40} is not a text")
    return value


# A file of QuAC has one dialog per line.


def _write_quac(predictions: Sequence[SpanPrediction], _examples: Sequence[SpanExample]) -> str:
    dialogs: defaultdict[str, list[SpanPrediction]] = defaultdict(list)
    for prediction in predictions:
        # "C_1ab_0_q#3" is turn 3 of the dialog "C_1ab_0".
        dialogs[prediction.id.rpartition("_q#")[0]].append(prediction)
    lines = (
        {
            "qid": [p.id for p in turns],
            "best_span_str": [CANNOT_ANSWER if p.abstains else p.text for p in turns],
            # The defaults are "neither yes nor no" (x), and "maybe a follow-up question" (m).
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


# A file of CoQA is a list of turns.


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
    # An unknown turn gets a name such as "('story', 3)", which is never the id of a question.
    named = [(asked.get(row[:2], str(row[:2])), row[2]) for row in rows]
    found = {name: SpanPrediction(id=name, text=answer) for name, answer in named}
    if odd := [turn for _, turn, _ in rows if not _is_whole(turn)]:
        faults.add(
            f"{len(odd)} of its turns have a turn_id that is not a whole number, such as "
            f"{odd[0]!r:.40}: the official script ignores these turns",
            mendable=not parts.keys().isdisjoint(found),
        )
    return found


# A file of HotpotQA has answers and supporting facts. A fact is a paragraph's title and a sentence
# number.


def _write_hotpotqa(predictions: Sequence[SpanPrediction], examples: Sequence[SpanExample]) -> str:
    names = {example.id: fact_names(example) for example in examples}
    facts = {
        p.id: [names[p.id][fact] for fact in p.facts if fact in names[p.id]] for p in predictions
    }
    return json.dumps({"answer": {p.id: p.text for p in predictions}, "sp": facts}) + "\n"


def _read_hotpotqa(text: str, examples: Sequence[SpanExample], faults: Faults) -> Found:
    document = _loaded(text)
    answers, facts = document["answer"], document["sp"]
    # In reversed order, the first of two sentences with the same name overwrites the second one.
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
        # An unknown fact gets a negative index, so it counts as wrong.
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
            f"{len(odd)} of its supporting facts are not a title and a whole number, such as "
            f"{list(odd[0])!r:.80}: the official script counts them as wrong",
            mendable=True,
        )
    return found


def _fact(found: Any) -> tuple[Any, ...]:
    if not isinstance(found, list):
        raise TypeError(f"the fact {found!r:.40} is not a list")
    return tuple(found)


WRITERS: Mapping[str, Callable[[Sequence[SpanPrediction], Sequence[SpanExample]], str]] = {
    "quac": _write_quac,
    "coqa": _write_coqa,
    "hotpotqa": _write_hotpotqa,
}
"""Functions that return the text of a prediction file, keyed by layout."""
READERS: Mapping[str, Callable[[str, Sequence[SpanExample], Faults], Found]] = {
    "quac": _read_quac,
    "coqa": _read_coqa,
    "hotpotqa": _read_hotpotqa,
}
"""Functions that read the text of a prediction file, keyed by layout."""


def read_questions(path: Path, task: SpanTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read a prediction file of QuAC, CoQA or HotpotQA; missing answers count as wrong.

    Args:
        path: Path of the file.
        task: The task, whose field `files` names the layout.
        rows: The questions of the split.
        _: Not used.

    Returns:
        One prediction per question, in the order of `rows`, and notes about the problems that were
        mended.

    Raises:
        DataError: The file is malformed, or has a problem without a clear fix.
    """
    examples: Sequence[Any] = rows.examples
    reading = read_conversations(path.name, content_of(path), task.files, examples)
    notes = require_clear(path, reading.faults)
    answers = dict(reading.answers or ())
    predictions = tuple(
        answers.get(e.id) or SpanPrediction(id=e.id, text="", missing=True) for e in examples
    )
    return PredictionFile(predictions=predictions, notes=notes)


def _questions(task: Any, predictions: Any, examples: Any, _: Any) -> Mapping[str, bytes]:
    return {"": write_conversations(task.files, predictions, examples)}


LAYOUT = Layout(read=read_questions)
"""Reader of the prediction files of all three tasks for `bench score`."""

QUAC = Form(split="dev", write=_questions, ending=".jsonl")
COQA = Form(split="dev", write=_questions, ending=".json")
HOTPOTQA = Form(split="dev", write=_questions, needs_rows=True, ending=".json")
"""Submissions of QuAC, CoQA and HotpotQA: prediction files for their official scripts."""
