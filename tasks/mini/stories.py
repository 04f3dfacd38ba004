"""Short stories of facts, and the questions that a fact answers."""

from dataclasses import dataclass, replace
from random import Random

from tasks.mini.grammar import plural
from tasks.mini.lexicon import COUNTS, DOMAINS, NAMES, TIMES, VERBS, Verb

__all__ = ["KINDS", "PEOPLE", "PLACES", "Fact", "answers_in_kind", "draw_story", "tell"]

PEOPLE = NAMES["female"] + NAMES["male"]
PLACES = tuple(place for domain in DOMAINS for place in domain.places)
FIELDS = {"who": "person", "when": "time", "where": "place", "how many": "count"}
KINDS = tuple(FIELDS)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Who did what to how many things, where and when; what is not told of it is empty."""

    person: str
    verb: Verb
    count: str
    thing: str
    place: str
    time: str

    @property
    def things(self) -> str:
        """The thing in the plural."""
        return plural(self.thing)

    def told(self) -> str:
        """`Anna sold five cars at the market on monday`, with a full stop."""
        words = (self.person, self.verb.past, self.count, self.things, self.place, self.time)
        return f"{' '.join(filter(None, words))}."

    def only(self, kind: str) -> "Fact":
        """The same fact with one of its time, its place and its count."""
        kept = dict.fromkeys(("time", "place", "count"), "") | {FIELDS[kind]: self.answer(kind)}
        return replace(self, time=kept["time"], place=kept["place"], count=kept["count"])

    def question(self, kind: str) -> str:
        """The question of that kind about this fact, without the answer in it."""
        match kind:
            case "who":
                return f"Who {self.verb.past} the {self.things}?"
            case "how many":
                return f"How many {self.things} did {self.person} {self.verb.base}?"
        return f"{kind.capitalize()} did {self.person} {self.verb.base} the {self.things}?"

    def answer(self, kind: str) -> str:
        """The words of the fact that answer the question of that kind; empty where it is untold."""
        words: str = getattr(self, FIELDS[kind])
        return words


def draw_story(rng: Random, facts: int) -> tuple[Fact, ...]:
    """Facts with a person, a thing, a count, a place and a time each has for itself."""
    columns = (
        rng.sample(options, facts)
        for options in (PEOPLE, rng.choice(DOMAINS).things, COUNTS, PLACES, TIMES)
    )
    return tuple(
        Fact(person=who, verb=rng.choice(VERBS), count=count, thing=what, place=where, time=when)
        for who, what, count, where, when in zip(*columns, strict=True)
    )


def tell(story: tuple[Fact, ...]) -> str:
    """The facts one after the other."""
    return " ".join(fact.told() for fact in story)


def answers_in_kind(kind: str) -> tuple[str, ...]:
    """Everything that could answer a question of that kind."""
    return {"who": PEOPLE, "when": TIMES, "where": PLACES, "how many": COUNTS}[kind]
