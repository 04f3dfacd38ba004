"""Scenes (who did what to what, and where) and sentences that describe them."""

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
        """Return the thing with its article and adjective."""
        return " ".join(filter(None, ("the", self.adjective, self.thing)))

    def active(self) -> str:
        """Return the active sentence: `The baker sold the car at the market`."""
        return sentence(f"the {self.person} {self.verb.past} {self.noun_phrase} {self.place}")

    def formal(self) -> str:
        """Return the active sentence with the verb's regular synonym."""
        return sentence(f"the {self.person} {self.verb.formal} {self.noun_phrase} {self.place}")

    def fronted(self) -> str:
        """Return the active sentence with the place first."""
        return sentence(f"{self.place} the {self.person} {self.verb.past} {self.noun_phrase}")

    def passive(self) -> str:
        """Return the passive sentence: `The car was sold by the baker at the market`."""
        event = f"was {self.verb.participle} by the {self.person}"
        return sentence(f"{self.noun_phrase} {event} {self.place}")

    def negated(self) -> str:
        """Return the negated sentence: `The baker did not sell the car at the market`."""
        event = f"the {self.person} did not {self.verb.base}"
        return sentence(f"{event} {self.noun_phrase} {self.place}")

    def undone(self) -> "Scene":
        """Return the scene with the opposite verb."""
        return replace(self, verb=opposite(self.verb))


def sentence(words: str) -> str:
    """Return the words with a capital and a full stop, unless they end in a punctuation mark."""
    ending = "" if words[-1] in ".?!" else "."
    return words[0].upper() + words[1:] + ending


def article(noun: str) -> str:
    """Return the noun with "a" or "an"."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def plural(noun: str) -> str:
    """Return the plural: "cars", "buses", "peaches"."""
    return noun + ("es" if noun.endswith(("s", "ch")) else "s")


def hypernym(thing: str) -> str:
    """Return the hypernym of a thing: "vehicle" for "car"."""
    return next(kind for kind, members in HYPERNYMS.items() if thing in members.split())


def other(rng: Random, options: tuple[str, ...], than: str) -> str:
    """Return a random option other than `than`."""
    return rng.choice([option for option in options if option != than])


def draw_scene(rng: Random, domains: tuple[Domain, ...] = DOMAINS) -> Scene:
    """Draw a scene whose nouns all come from one domain."""
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
    """Two sentences with a label and the category of their difference."""

    a: str
    b: str
    label: str
    category: str = ""


def seeded(name: str) -> Random:
    """Return the generator of that name, so that no task's rows depend on another's."""
    return Random(name)


def draw_distinct(name: str, count: int, draw: Callable[[Random], DrawnT]) -> list[DrawnT]:
    """Draw `count` different rows, so that no train row occurs in a dev split.

    Raises ValueError if the grammar has fewer.
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
    """Draw train, dev and test rows of these sizes, all different."""
    rows = draw_distinct(name, sum(sizes), draw)
    train, dev = sizes[0], sizes[0] + sizes[1]
    return rows[:train], rows[train:dev], rows[dev:]


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 with line feeds; create the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def to_json(content: object) -> str:
    """Return one line of JSON with the keys in the given order."""
    return json.dumps(content, ensure_ascii=False)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one JSON object per line."""
    write_text(path, "".join(f"{to_json(row)}\n" for row in rows))


def flat_parses(text: str) -> tuple[str, str]:
    """Return a flat binary parse and a flat parse, for columns that are never read."""
    words = text.rstrip(".").split()
    return f"( ( {' '.join(words)} ) . )", f"(ROOT (S {' '.join(words)} (. .)))"
