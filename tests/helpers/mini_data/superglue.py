"""SuperGLUE tasks in the JSON lines of the official download."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from tests.helpers.mini_data.grammar import (
    Pair,
    draw_distinct,
    draw_scene,
    draw_splits,
    other,
    sentence,
    write_json_lines,
)
from tests.helpers.mini_data.inference import (
    PRONOUNS,
    Alternatives,
    draw_alternatives,
    draw_coreference,
    draw_diagnostic,
    draw_entailment,
    draw_gender,
)
from tests.helpers.mini_data.lexicon import DOMAINS
from tests.helpers.mini_data.sentences import Usage, draw_usage
from tests.helpers.mini_data.stories import Cloze, Quiz, draw_cloze, draw_quiz, draw_yes_or_no, tell

# Clauses under verbs that show whether the speaker believes the clause, its negation, or neither
# (CB).

# verb phrases and their negations, keyed by the label of the clause
VERBS = {
    "entailment": ("knows that", "does not know that", "is glad that", "regrets that",
                   "was not surprised that"),
    "contradiction": ("is wrong to think that", "pretends that", "only dreamed that",
                      "falsely claims that"),
    "neutral": ("thinks that", "does not think that", "hopes that", "asks whether",
                "is not sure that", "was told that"),
}  # fmt: skip
LABELS = tuple(VERBS)
PEOPLE = tuple(person for domain in DOMAINS for person in domain.people)


def draw_commitment(rng: Random) -> Pair:
    """Draw a premise of two sentences, a clause, and the label; neutral is the rarest."""
    label = rng.choices(LABELS, weights=(42, 42, 16))[0]
    scene, before = draw_scene(rng), draw_scene(rng)
    clause = f"the {scene.person} {scene.verb.past} the {scene.thing}"
    believer = other(rng, PEOPLE, scene.person)
    told = sentence(f"the {believer} {rng.choice(VERBS[label])} {clause}")
    return Pair(f"{before.active()} {told}", clause, label)


Json = dict[str, object]

SPLITS = ("train", "val", "test")

# AX-b's name of each phenomenon, keyed by the column of GLUE's diagnostic set
AXB_COLUMNS = {
    "Lexical Semantics": ("lexical-semantics", "Lexical entailment"),
    "Predicate-Argument Structure": ("predicate-argument-structure", "Core args"),
    "Logic": ("logic", "Negation;Conjunction;Disjunction"),
    "Knowledge": ("knowledge", "Common sense"),
}


def write_superglue(folder: Path) -> None:
    """Write every SuperGLUE task's folder under `folder`."""
    for task in PLAIN:
        _write(folder, *task)
    for write in (_multirc, _record, _axb, _axg):
        write(folder)


def _write(  # noqa: PLR0917
    folder: Path,
    task: str,
    draw: Callable[[Random], Any],
    sizes: tuple[int, int, int],
    row: Callable[[Any], Json],
    label: Callable[[Any], object],
) -> None:
    """Write rows of train, val and test, with "idx" and, except for test, the label."""
    splits = draw_splits(f"superglue/{task.lower()}", draw, sizes)
    for name, drawn in zip(SPLITS, splits, strict=True):
        rows = [row(one) | {"idx": i} for i, one in enumerate(drawn)]
        if name != "test":
            rows = [r | {"label": label(one)} for r, one in zip(rows, drawn, strict=True)]
        write_json_lines(folder / task / f"{name}.jsonl", rows)


def _boolq(pair: Pair) -> Json:
    return {"question": pair.b, "passage": pair.a}


def _premise(pair: Pair) -> Json:
    return {"premise": pair.a, "hypothesis": pair.b}


def _alternatives(drawn: Alternatives) -> Json:
    first, second = drawn.choices
    return {
        "premise": drawn.premise,
        "choice1": first,
        "choice2": second,
        "question": drawn.question,
    }


def _multirc(folder: Path) -> None:
    """Write MultiRC, whose question and answer ids are consecutive in the whole file."""
    for name, quizzes in zip(
        SPLITS, draw_splits("superglue/multirc", draw_quiz, (80, 24, 12)), strict=True
    ):
        questions, answers = count(), count()
        rows = [
            {"idx": i, "version": 1.1, "passage": _passage(quiz, questions, answers, name)}
            for i, quiz in enumerate(quizzes)
        ]
        write_json_lines(folder / f"MultiRC/{name}.jsonl", rows)


def _passage(quiz: Quiz, questions: "count[int]", answers: "count[int]", split: str) -> Json:
    asked = []
    for question, options in quiz.questions:
        rows: list[Json] = [
            {"text": text, "idx": next(answers)} | ({} if split == "test" else {"label": label})
            for text, label in options
        ]
        asked.append({"question": question, "answers": rows, "idx": next(questions)})
    return {"text": quiz.text, "questions": asked}


def _record(folder: Path) -> None:
    """Write ReCoRD; spans end at their last character, as the official ones do."""
    splits = draw_splits("superglue/record", draw_cloze, (300, 100, 60))
    for name, clozes in zip(SPLITS, splits, strict=True):
        rows = [_cloze(i, cloze, hidden=name == "test") for i, cloze in enumerate(clozes)]
        write_json_lines(folder / f"ReCoRD/{name}.jsonl", rows)


def _cloze(index: int, cloze: Cloze, *, hidden: bool) -> Json:
    text = tell(cloze.story)
    spans = {name: _span(text, name) for name in cloze.names}
    query: Json = {"query": cloze.query, "idx": index}
    if not hidden:
        query["answers"] = [{**spans[cloze.answer], "text": cloze.answer}]
    passage = {"text": text, "entities": list(spans.values())}
    return {"source": "mini", "passage": passage, "qas": [query], "idx": index}


def _span(text: str, name: str) -> dict[str, int]:
    start = text.index(name)
    return {"start": start, "end": start + len(name) - 1}


def _usage(drawn: Usage) -> Json:
    """Return the character offsets of the word, with an exclusive end."""
    starts = [s.index(f" {drawn.word}") + 1 for s in (drawn.first, drawn.second)]
    return {
        "word": drawn.word,
        "sentence1": drawn.first,
        "sentence2": drawn.second,
        "start1": starts[0],
        "start2": starts[1],
        "end1": starts[0] + len(drawn.word),
        "end2": starts[1] + len(drawn.word),
        "version": 1.1,
    }


def _coreference(pair: Pair) -> Json:
    """Return span indices in words between spaces; a noun's span starts at its article."""
    words = pair.a.split()
    target = {
        "span1_text": f"{words[words.index(pair.b) - 1]} {pair.b}",
        "span1_index": words.index(pair.b) - 1,
        "span2_text": "it",
        "span2_index": words.index("it"),
    }
    return {"text": pair.a, "target": target}


PLAIN: tuple[tuple[Any, ...], ...] = (
    ("BoolQ", draw_yes_or_no, (600, 150, 80), _boolq, lambda p: p.label == "true"),
    ("CB", draw_commitment, (250, 120, 80), _premise, lambda p: p.label),
    ("COPA", draw_alternatives, (400, 120, 80), _alternatives, lambda a: a.label),
    ("RTE", draw_entailment, (600, 160, 80), _premise, lambda p: p.label),
    ("WiC", draw_usage, (600, 160, 80), _usage, lambda u: u.same),
    ("WSC", draw_coreference, (500, 150, 80), _coreference, lambda p: p.label == "1"),
)
"""Tasks with equal layouts of their splits: the numbers of rows, and the form of a row."""


def _axb(folder: Path) -> None:
    """Write the diagnostic pairs with two labels; `idx` is a string there."""
    rows = []
    for i, pair in enumerate(draw_distinct("superglue/axb", 120, draw_diagnostic)):
        label = pair.label if pair.label == "entailment" else "not_entailment"
        column, phenomenon = AXB_COLUMNS[pair.category]
        texts = {"sentence1": pair.a, "sentence2": pair.b}
        rows.append({"idx": str(i), "label": label, **texts, column: phenomenon})
    write_json_lines(folder / "AX-b/AX-b.jsonl", rows)


def _axg(folder: Path) -> None:
    """Write pairs of rows, one after the other."""
    pairs = draw_distinct("superglue/axg", 50, draw_gender)
    rows = [
        {
            "hypothesis": pair.b,
            "idx": 2 * i + n,
            "label": pair.label,
            "pair_id": 2 * i + n,
            "premise": pair.a.format(pronoun),
        }
        for i, pair in enumerate(pairs)
        for n, pronoun in enumerate(PRONOUNS)
    ]
    write_json_lines(folder / "AX-g/AX-g.jsonl", rows)
