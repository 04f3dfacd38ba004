"""Sentences that are grammatical, or that hold one slip of agreement, form or order (CoLA)."""

from random import Random

from tasks.mini.grammar import sentence
from tasks.mini.lexicon import DOMAINS, VERBS, Domain, Verb

__all__ = ["draw_acceptability"]


def draw_acceptability(rng: Random) -> tuple[str, str]:
    """A sentence and "1" where it is acceptable, else "0"; three in five are."""
    acceptable = rng.random() < 0.6
    words = rng.choice((_present, _perfect, _auxiliary, _passive))(rng, acceptable)
    return sentence(words), str(int(acceptable))


def _subject(rng: Random, domain: Domain, *, plural: bool) -> str:
    person = rng.choice(domain.people)
    if plural:
        return f"{rng.choice(('these', 'many', 'two'))} {person}s"
    return f"{rng.choice(('this', 'every', 'one'))} {person}"


def _draw(rng: Random) -> tuple[Domain, Verb, str, str]:
    domain = rng.choice(DOMAINS)
    return domain, rng.choice(VERBS), rng.choice(domain.things), rng.choice(domain.places)


def _present(rng: Random, acceptable: bool) -> str:
    """Agreement: `this baker sells the car`, `*these bakers sells the car`."""
    domain, verb, thing, place = _draw(rng)
    plural = rng.random() < 0.5
    form = verb.base if plural is acceptable else verb.third
    return f"{_subject(rng, domain, plural=plural)} {form} the {thing} {place}"


def _perfect(rng: Random, acceptable: bool) -> str:
    """The participle after "has": `*has sell the car`."""
    domain, verb, thing, place = _draw(rng)
    form = verb.participle if acceptable else verb.base
    return f"{_subject(rng, domain, plural=False)} has {form} the {thing} {place}"


def _auxiliary(rng: Random, acceptable: bool) -> str:
    """The base form after "did not", and the article before the noun."""
    domain, verb, thing, place = _draw(rng)
    subject = _subject(rng, domain, plural=rng.random() < 0.5)
    if acceptable:
        return f"{subject} did not {verb.base} the {thing} {place}"
    event = rng.choice((f"did not {verb.third} the {thing}", f"did not {verb.base} {thing} the"))
    return f"{subject} {event} {place}"


def _passive(rng: Random, acceptable: bool) -> str:
    """The agent of a passive: `*was sold the baker`, `*by the baker was sold`."""
    domain, verb, thing, place = _draw(rng)
    person = rng.choice(domain.people)
    if acceptable:
        return f"the {thing} was {verb.participle} by the {person} {place}"
    event = rng.choice((f"was {verb.participle} the {person}", f"was {verb.base} by the {person}"))
    return f"the {thing} {event} {place}"
