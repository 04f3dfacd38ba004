"""Questions on stories: yes or no (BoolQ), true and false answers (MultiRC), names (ReCoRD)."""

from dataclasses import replace
from random import Random
from typing import NamedTuple

from tasks.mini.drawing import Pair
from tasks.mini.grammar import other
from tasks.mini.lexicon import TOWNS
from tasks.mini.stories import KINDS, PLACES, Fact, draw_story, tell

__all__ = ["Cloze", "Quiz", "draw_cloze", "draw_quiz", "draw_yes_or_no"]


class Quiz(NamedTuple):
    """A story and its questions, each with answers that are true (1) or false (0)."""

    text: str
    questions: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


class Cloze(NamedTuple):
    """A story with its names, a sentence with "@placeholder" for one of them, and that name."""

    story: tuple[Fact, ...]
    names: tuple[str, ...]
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
    """Two facts, three questions, three to five answers of which one or two are true."""
    story = draw_story(rng, 2)
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
    unasked = rng.sample([k for k in KINDS if k != kind], 2)
    false = [rng.choice(story).answer(k) for k in unasked] + [rng.choice(sorted(told - {right}))]
    answers = [(text, 1) for text in true] + [(text, 0) for text in false[: rng.choice((2, 2, 3))]]
    rng.shuffle(answers)
    return fact.question(kind), tuple(answers)


def draw_cloze(rng: Random) -> Cloze:
    """The query retells one fact with its person or its town left out."""
    towns = rng.sample(TOWNS, 2)
    facts = zip(draw_story(rng, 2), towns, strict=True)
    story = tuple(replace(fact, place=f"in {town}") for fact, town in facts)
    names = (*(fact.person for fact in story), *towns)
    fact, town = rng.choice(list(zip(story, towns, strict=True)))
    if rng.random() < 0.5:
        query = f"It was @placeholder who {fact.verb.past} the {fact.things} {fact.time}."
        return Cloze(story, names, query, fact.person)
    query = f"It was in @placeholder that {fact.person} {fact.verb.past} the {fact.things}."
    return Cloze(story, names, query, town)
