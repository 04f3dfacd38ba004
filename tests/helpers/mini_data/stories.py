"""Short stories of facts, and questions that a fact answers."""

from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from tests.helpers.mini_data.grammar import Pair, other, plural
from tests.helpers.mini_data.lexicon import COUNTS, DOMAINS, NAMES, TIMES, TOWNS, VERBS, Verb

PEOPLE = NAMES["female"] + NAMES["male"]
PLACES = tuple(place for domain in DOMAINS for place in domain.places)
FIELDS = {"who": "person", "when": "time", "where": "place", "how many": "count"}
KINDS = tuple(FIELDS)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Who did what to how many things, where and when; missing details are empty."""

    person: str
    verb: Verb
    count: str
    thing: str
    place: str
    time: str

    @property
    def things(self) -> str:
        """Return the thing in the plural."""
        return plural(self.thing)

    def told(self) -> str:
        """Return `Anna sold five cars at the market on monday` with a full stop."""
        words = (self.person, self.verb.past, self.count, self.things, self.place, self.time)
        return f"{' '.join(filter(None, words))}."

    def only(self, kind: str) -> "Fact":
        """Return the fact with only one of its time, place and count."""
        kept = dict.fromkeys(("time", "place", "count"), "") | {FIELDS[kind]: self.answer(kind)}
        return replace(self, time=kept["time"], place=kept["place"], count=kept["count"])

    def question(self, kind: str) -> str:
        """Return the question of that kind about this fact, without the answer in it."""
        match kind:
            case "who":
                return f"Who {self.verb.past} the {self.things}?"
            case "how many":
                return f"How many {self.things} did {self.person} {self.verb.base}?"
        return f"{kind.capitalize()} did {self.person} {self.verb.base} the {self.things}?"

    def answer(self, kind: str) -> str:
        """Return the words that answer the question of that kind, or "" if they are missing."""
        words: str = getattr(self, FIELDS[kind])
        return words


def draw_story(rng: Random, facts: int) -> tuple[Fact, ...]:
    """Draw facts with different people, things, counts, places and times."""
    columns = (
        rng.sample(options, facts)
        for options in (PEOPLE, rng.choice(DOMAINS).things, COUNTS, PLACES, TIMES)
    )
    return tuple(
        Fact(person=who, verb=rng.choice(VERBS), count=count, thing=what, place=where, time=when)
        for who, what, count, where, when in zip(*columns, strict=True)
    )


def tell(story: tuple[Fact, ...]) -> str:
    """Return the sentences of the facts in order."""
    return " ".join(fact.told() for fact in story)


def answers_in_kind(kind: str) -> tuple[str, ...]:
    """Return all possible answers to a question of that kind."""
    return {"who": PEOPLE, "when": TIMES, "where": PLACES, "how many": COUNTS}[kind]


# Questions about stories: yes or no (BoolQ), true and false answers (MultiRC), names (ReCoRD).


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
    """Draw passage, question and "true" or "false"; false ones are negated or moved."""
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
    """Draw two facts and three questions with three to five answers, one or two of them true."""
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
    """Draw a query that repeats one fact without its person or its town."""
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
