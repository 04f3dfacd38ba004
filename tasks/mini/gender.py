"""Minimal pairs that differ in the gender of a pronoun only (AX-g)."""

from random import Random

from tasks.mini.drawing import Pair
from tasks.mini.grammar import draw_scene, other, sentence

__all__ = ["PRONOUNS", "draw_gender"]

PRONOUNS = ("he", "she")


def draw_gender(rng: Random) -> Pair:
    """A premise with "{}" for the pronoun, a hypothesis on one of two people, and the label."""
    scene = draw_scene(rng)
    helper = other(rng, scene.domain.people, scene.person)
    premise = f"the {scene.person} asked the {helper} for help because {{}} had to "
    premise += f"{scene.verb.base} the {scene.thing}"
    follows = rng.random() < 0.5
    actor = scene.person if follows else helper
    hypothesis = sentence(f"the {actor} had to {scene.verb.base} the {scene.thing}")
    return Pair(sentence(premise), hypothesis, "entailment" if follows else "not_entailment")
