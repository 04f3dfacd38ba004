"""Scenes (who did what to what, where) and the sentences that tell them."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from tests.helpers.mini_data.lexicon import DOMAINS, HYPERNYMS, VERBS, Domain, Verb, opposite


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


DrawnT = TypeVar("DrawnT")


class Pair(NamedTuple):
    """Two sentences with a label, and what the label turns on."""

    a: str
    b: str
    label: str
    category: str = ""


def seeded(name: str) -> Random:
    """The generator of that name: one task's rows never depend on another's."""
    return Random(name)


def draw_distinct(name: str, count: int, draw: Callable[[Random], DrawnT]) -> list[DrawnT]:
    """`count` different rows, so that no row of a train split returns in a dev split.

    Raises ValueError where the grammar does not hold so many.
    """
    rng = seeded(name)
    rows: dict[DrawnT, None] = {}
    for _ in range(50 * count):
        if len(rows) == count:
            return list(rows)
        rows[draw(rng)] = None
    raise ValueError(f"the grammar of {name} gives only {len(rows)} different rows of {count}")


def draw_splits(
    name: str, draw: Callable[[Random], DrawnT], sizes: tuple[int, int, int]
) -> tuple[list[DrawnT], list[DrawnT], list[DrawnT]]:
    """Train, dev and test rows of those sizes, all different."""
    rows = draw_distinct(name, sum(sizes), draw)
    train, dev = sizes[0], sizes[0] + sizes[1]
    return rows[:train], rows[train:dev], rows[dev:]


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 with line feeds, making the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def to_json(content: object) -> str:
    """One line of JSON, keys in the order given."""
    return json.dumps(content, ensure_ascii=False)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one JSON object a line."""
    write_text(path, "".join(f"{to_json(row)}\n" for row in rows))


def flat_parses(text: str) -> tuple[str, str]:
    """A flat binary parse and a flat parse: nobody reads these columns, but they have a place."""
    words = text.rstrip(".").split()
    return f"( ( {' '.join(words)} ) . )", f"(ROOT (S {' '.join(words)} (. .)))"
