"""A pronoun that an adjective resolves, with a hypothesis that puts a noun in its place (WNLI)."""

from random import Random

from tasks.mini.drawing import Pair
from tasks.mini.grammar import sentence
from tasks.mini.lexicon import DOMAINS

__all__ = ["draw_winograd"]

CONTAINERS = ("box", "bag", "case", "drawer")
# what did not fit is too big, what it did not fit into is too small
FITTING = (("big", True), ("large", True), ("wide", True), ("small", False), ("narrow", False))


def draw_winograd(rng: Random) -> Pair:
    """Premise, hypothesis and "1" where the hypothesis names what "it" stands for; half do."""
    thing = rng.choice(rng.choice(DOMAINS).things)
    container = rng.choice(CONTAINERS)
    quality, of_thing = rng.choice(FITTING)
    names_thing = rng.random() < 0.5
    cause = rng.choice(("because", "since"))
    event = rng.choice(("did not fit into", "did not go into"))
    premise = sentence(f"the {thing} {event} the {container} {cause} it was too {quality}")
    hypothesis = sentence(f"the {thing if names_thing else container} was too {quality}")
    return Pair(premise, hypothesis, str(int(names_thing is of_thing)))
