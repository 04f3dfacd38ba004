"""QuAC and CoQA, conversations on stories, and HotpotQA, questions on two paragraphs."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.helpers.mini_data.grammar import draw_splits, other, to_json, write_text
from tests.helpers.mini_data.stories import PLACES, Fact, draw_story, tell

Json = dict[str, object]

DIALOG_SIZES = (70, 22, 0)

CANNOT_ANSWER = "CANNOTANSWER"


class Turn(NamedTuple):
    """A question, its answer span ("" for none), and the answer in free words.

    `said` is y, n or x: whether the answer is a yes, a no or neither.
    """

    question: str
    span: str
    free: str
    said: str


class Dialog(NamedTuple):
    """A story, and questions that depend on the earlier ones."""

    story: tuple[Fact, ...]
    turns: tuple[Turn, ...]


def _draw_dialog(rng: Random) -> Dialog:
    story = draw_story(rng, 2)
    fact = rng.choice(story)
    kinds = rng.sample(("when", "where", "how many"), 2)
    turns = [Turn(fact.question("who"), fact.person, fact.person, "x")]
    turns += [_elliptical(fact, kind) for kind in kinds]
    turns.insert(rng.randrange(1, 4), _yes_or_no(rng, fact))
    turns.insert(rng.randrange(1, 5), Turn("Why did they do it?", "", "unknown", "x"))
    return Dialog(story, tuple(turns))


def _elliptical(fact: Fact, kind: str) -> Turn:
    question = {"when": "When was that?", "where": "Where?", "how many": "How many of them?"}[kind]
    answer = fact.answer(kind)
    return Turn(question, answer, f"it was {answer}" if kind == "where" else answer, "x")


def _yes_or_no(rng: Random, fact: Fact) -> Turn:
    truth = rng.random() < 0.5
    place = fact.place if truth else other(rng, PLACES, fact.place)
    answer = ("yes", "y") if truth else ("no", "n")
    return Turn(f"Was it {place}?", fact.told(), *answer)


def _place(dialog: Dialog, turn: Turn) -> int:
    """Return the position of the turn's answer in the story."""
    told = tell(dialog.story)
    fact = next(f for f in dialog.story if turn.span in f.told())
    asked = next(f for f in dialog.story if f.question("who") == dialog.turns[0].question)
    within = asked if turn.span in asked.told() else fact
    return told.index(within.told()) + within.told().rindex(turn.span)


def write_quac(folder: Path) -> None:
    """Write train_v0.2.json and val_v0.2.json."""
    for name, dialogs in zip(
        ("train", "val"), draw_splits("quac", _draw_dialog, DIALOG_SIZES), strict=False
    ):
        articles = [_quac_article(f"{name}{n}", d, name) for n, d in enumerate(dialogs)]
        write_text(folder / f"{name}_v0.2.json", to_json({"data": articles}) + "\n")


def _quac_article(name: str, dialog: Dialog, split: str) -> Json:
    context = f"{tell(dialog.story)} {CANNOT_ANSWER}"
    qas = [
        _quac_question(f"C_{name}_q#{number}", dialog, turn, split, context)
        for number, turn in enumerate(dialog.turns)
    ]
    return {
        "title": f"Story {name}",
        "section_title": "What happened",
        "background": "A made-up story.",
        "paragraphs": [{"context": context, "qas": qas, "id": f"C_{name}"}],
    }


def _quac_question(name: str, dialog: Dialog, turn: Turn, split: str, context: str) -> Json:
    if turn.span:
        answer = {"text": turn.span, "answer_start": _place(dialog, turn)}
    else:
        answer = {"text": CANNOT_ANSWER, "answer_start": context.index(CANNOT_ANSWER)}
    answers = [answer]
    if split != "train":
        shorter = turn.span.rpartition(" ")[0]
        answers = [answer, {**answer, "text": shorter} if shorter else answer, answer]
    last = turn is dialog.turns[-1]
    return {
        "followup": "n" if last else "y" if turn.span else "m",
        "yesno": turn.said,
        "question": turn.question,
        "answers": answers,
        "id": name,
        "orig_answer": answer,
    }


SOURCES = ("mctest", "gutenberg", "race", "cnn", "wikipedia", "science", "reddit")
"""Sources; the last two are officially in the hidden test set only, here in every split."""


def write_coqa(folder: Path) -> None:
    """Write coqa-train-v1.0.json and coqa-dev-v1.0.json."""
    for name, dialogs in zip(
        ("train", "dev"), draw_splits("coqa", _draw_dialog, DIALOG_SIZES), strict=False
    ):
        stories = [_coqa_story(f"{name}{n}", n, d, name) for n, d in enumerate(dialogs)]
        content = {"version": "1.0", "data": stories}
        write_text(folder / f"coqa-{name}-v1.0.json", to_json(content) + "\n")


def _coqa_story(name: str, number: int, dialog: Dialog, split: str) -> Json:
    told = tell(dialog.story)
    questions = [
        {"input_text": turn.question, "turn_id": place}
        for place, turn in enumerate(dialog.turns, start=1)
    ]
    answers = [_coqa_answer(dialog, turn, place) for place, turn in enumerate(dialog.turns, 1)]
    others = {}
    if split != "train":
        # Two additional annotators give the same answer, and the third one copies words of the
        # story.
        words = [
            a if turn.said != "x" or not turn.span else {**a, "input_text": turn.span}
            for a, turn in zip(answers, dialog.turns, strict=True)
        ]
        others = {"0": answers, "1": words, "2": answers}
    return {
        "source": SOURCES[number % len(SOURCES)],
        "id": f"mini_{name}",
        "filename": f"{name}.txt",
        "story": told,
        "questions": questions,
        "answers": answers,
        **({"additional_answers": others} if others else {}),
        "name": f"{name}.txt",
    }


def _coqa_answer(dialog: Dialog, turn: Turn, number: int) -> Json:
    start = _place(dialog, turn) if turn.span else -1
    return {
        "span_start": start,
        "span_end": start + len(turn.span) if turn.span else -1,
        "span_text": turn.span or "unknown",
        "input_text": turn.free,
        "turn_id": number,
    }


HOTPOT_SIZES = (150, 50, 0)


class Hops(NamedTuple):
    """A question, its answer, and paragraphs: title, fact, and whether it is supporting."""

    question: str
    answer: str
    kind: str
    paragraphs: tuple[tuple[str, str, bool], ...]


def _draw_hops(rng: Random) -> Hops:
    """Draw two facts: one paragraph has the action, the other has the person."""
    one, two, *others = draw_story(rng, 4)
    is_same = rng.random() < 0.5
    if rng.random() < 0.7:
        two = replace(two, person=one.person)
        kind = rng.choice(("when", "where", "how many"))
        asked = f"the person who {one.verb.past} the {one.things}"
        question, answer = replace(two, person=asked).question(kind), two.answer(kind)
        sort = "bridge"
    else:
        two = replace(two, person=one.person) if is_same else two
        question = (
            f"Is it the same person that {one.verb.past} the {one.things} and "
            f"{two.verb.past} the {two.things}?"
        )
        answer, sort = ("yes" if is_same else "no"), "comparison"
    told = [(fact.things.capitalize(), fact.told(), fact in (one, two)) for fact in (one, two)]
    told += [(fact.things.capitalize(), fact.told(), False) for fact in others[:1]]
    rng.shuffle(told)
    return Hops(question, answer, sort, tuple(told))


def write_hotpotqa(folder: Path) -> None:
    """Write hotpot_train_v1.1.json and hotpot_dev_distractor_v1.json."""
    names = {"train": "hotpot_train_v1.1", "dev": "hotpot_dev_distractor_v1"}
    splits = draw_splits("hotpotqa", _draw_hops, HOTPOT_SIZES)
    for (split, name), questions in zip(names.items(), splits, strict=False):
        rows = [_hotpot_question(f"{split}{n}", found) for n, found in enumerate(questions)]
        write_text(folder / f"{name}.json", to_json(rows) + "\n")


def _hotpot_question(name: str, hops: Hops) -> Json:
    return {
        "_id": name,
        "answer": hops.answer,
        "question": hops.question,
        "supporting_facts": [[title, 0] for title, _, supports in hops.paragraphs if supports],
        "context": [[title, [fact, " Nobody knows why."]] for title, fact, _ in hops.paragraphs],
        "type": hops.kind,
        "level": "easy",
    }
