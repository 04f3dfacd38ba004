"""Scenes (who did what to what, where) and the sentences that tell them."""

from dataclasses import dataclass, replace
from random import Random

from tasks.mini.lexicon import DOMAINS, HYPERNYMS, VERBS, Domain, Verb, opposite

__all__ = ["Scene", "article", "draw_scene", "hypernym", "other", "plural", "sentence"]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One event; `adjective` belongs to the thing, `place` starts with its preposition."""

    domain: Domain
    person: str
    verb: Verb
    thing: str
    place: str
    adjective: str = ""

    @property
    def noun_phrase(self) -> str:
        """The thing with its article and adjective."""
        return " ".join(filter(None, ("the", self.adjective, self.thing)))

    def active(self) -> str:
        """Who did what to what, where: `The baker sold the car at the market`."""
        return sentence(f"the {self.person} {self.verb.past} {self.noun_phrase} {self.place}")

    def formal(self) -> str:
        """The same with the verb's regular synonym."""
        return sentence(f"the {self.person} {self.verb.formal} {self.noun_phrase} {self.place}")

    def fronted(self) -> str:
        """The same with the place first."""
        return sentence(f"{self.place} the {self.person} {self.verb.past} {self.noun_phrase}")

    def passive(self) -> str:
        """The thing first: `The car was sold by the baker at the market`."""
        event = f"was {self.verb.participle} by the {self.person}"
        return sentence(f"{self.noun_phrase} {event} {self.place}")

    def negated(self) -> str:
        """The event denied: `The baker did not sell the car at the market`."""
        event = f"the {self.person} did not {self.verb.base}"
        return sentence(f"{event} {self.noun_phrase} {self.place}")

    def undone(self) -> "Scene":
        """The scene with the opposite verb."""
        return replace(self, verb=opposite(self.verb))


def sentence(words: str) -> str:
    """The words with a capital and a full stop, unless they end in a mark of their own."""
    ending = "" if words[-1] in ".?!" else "."
    return words[0].upper() + words[1:] + ending


def article(noun: str) -> str:
    """The noun with "a" or "an"."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def plural(noun: str) -> str:
    """More than one of it: "cars", "buses", "peaches"."""
    return noun + ("es" if noun.endswith(("s", "ch")) else "s")


def hypernym(thing: str) -> str:
    """What kind of thing it is: "vehicle" for "car"."""
    return next(kind for kind, members in HYPERNYMS.items() if thing in members.split())


def other(rng: Random, options: tuple[str, ...], than: str) -> str:
    """One of the options, but not `than`."""
    return rng.choice([option for option in options if option != than])


def draw_scene(rng: Random, domains: tuple[Domain, ...] = DOMAINS) -> Scene:
    """A scene whose nouns all come from one domain."""
    domain = rng.choice(domains)
    return Scene(
        domain=domain,
        person=rng.choice(domain.people),
        verb=rng.choice(VERBS),
        thing=rng.choice(domain.things),
        place=rng.choice(domain.places),
    )
