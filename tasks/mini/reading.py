"""Questions on stories: yes or no (BoolQ), true and false answers (MultiRC), names (ReCoRD)."""

from random import Random
from typing import NamedTuple

from tasks.mini.drawing import Pair
from tasks.mini.grammar import other
from tasks.mini.stories import KINDS, PLACES, Fact, answers_in_kind, draw_story, tell

__all__ = ["Cloze", "Quiz", "draw_cloze", "draw_quiz", "draw_yes_or_no"]


class Quiz(NamedTuple):
    """A story and its questions, each with answers that are true (1) or false (0)."""

    text: str
    questions: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


class Cloze(NamedTuple):
    """A story, a sentence with "@placeholder" for a name, and that name."""

    story: tuple[Fact, ...]
    query: str
    answer: str


def draw_yes_or_no(rng: Random) -> Pair:
    """Passage, question and "true" or "false"; a false one is denied or was done elsewhere."""
    fact, follower = draw_story(rng, 2)
    person, verb, things = fact.person, fact.verb, fact.things
    truth = rng.random() < 0.55
    told = fact.told()
    place = fact.place
    if not truth and rng.random() < 0.6:
        told = f"{person} did not {verb.base} {things} {fact.place} {fact.time}."
    elif not truth:
        place = other(rng, PLACES, fact.place)
    question = f"did {person} {verb.base} {things} {place}".lower()
    title = things.capitalize()
    return Pair(f"{title} -- {told} {follower.told()}", question, str(truth).lower())


def draw_quiz(rng: Random) -> Quiz:
    """Three facts, three questions, three or four answers of which one or two are true."""
    story = draw_story(rng, 3)
    asked = rng.sample([(fact, kind) for fact in story for kind in KINDS], 3)
    return Quiz(tell(story), tuple(_options(rng, story, fact, kind) for fact, kind in asked))


def _options(
    rng: Random, story: tuple[Fact, ...], fact: Fact, kind: str
) -> tuple[str, tuple[tuple[str, int], ...]]:
    right = fact.answer(kind)
    true = [right]
    if rng.random() < 0.6:
        true.append(f"It was {right}" if kind == "who" else f"{right}, as the story says")
    told = {f.answer(kind) for f in story}
    absent = [option for option in answers_in_kind(kind) if option not in told]
    false = [*rng.sample(absent, 2), rng.choice(sorted(told - {right}))]
    answers = [(text, 1) for text in true] + [(text, 0) for text in false[: rng.choice((2, 2, 3))]]
    rng.shuffle(answers)
    return fact.question(kind), tuple(answers)


def draw_cloze(rng: Random) -> Cloze:
    """The query retells one fact with another's nouns left out."""
    story = draw_story(rng, 3)
    fact = rng.choice(story)
    query = f"It was @placeholder who {fact.verb.past} the {fact.things} {fact.time}."
    return Cloze(story, query, fact.person)
