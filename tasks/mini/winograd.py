"""A pronoun that an adjective resolves: WNLI's pairs, WSC's marked nouns."""

from random import Random

from tasks.mini.drawing import Pair
from tasks.mini.grammar import sentence
from tasks.mini.lexicon import DOMAINS

__all__ = ["draw_coreference", "draw_winograd"]

CONTAINERS = ("box", "bag", "case", "drawer")
# what did not fit is too big, what it did not fit into is too small
FITTING = (("big", True), ("large", True), ("wide", True), ("small", False), ("narrow", False))


def draw_winograd(rng: Random) -> Pair:
    """Premise, hypothesis and "1" where the hypothesis names what "it" stands for; half do."""
    premise, quality, noun, label = _draw(rng)
    return Pair(premise, sentence(f"the {noun} was too {quality}"), label)


def draw_coreference(rng: Random) -> Pair:
    """A text, a noun in it and "1" where its "it" stands for that noun; half do."""
    text, _, noun, label = _draw(rng)
    return Pair(text, noun, label)


def _draw(rng: Random) -> tuple[str, str, str, str]:
    thing = rng.choice(rng.choice(DOMAINS).things)
    container = rng.choice(CONTAINERS)
    quality, of_thing = rng.choice(FITTING)
    names_thing = rng.random() < 0.5
    cause = rng.choice(("because", "since"))
    event = rng.choice(("did not fit into", "did not go into"))
    text = sentence(f"the {thing} {event} the {container} {cause} it was too {quality}")
    return text, quality, thing if names_thing else container, str(int(names_thing is of_thing))
