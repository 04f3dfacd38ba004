"""Questions and sentences that answer them or only share their words (QNLI)."""

from random import Random

from tasks.mini.drawing import Pair
from tasks.mini.grammar import Scene, draw_scene, plural, sentence
from tasks.mini.lexicon import NAMES

__all__ = ["ANSWERED", "draw_answering"]

ANSWERED, UNANSWERED = "entailment", "not_entailment"

KINDS = ("who", "when", "where", "how many")


def draw_answering(rng: Random) -> Pair:
    """A question and a sentence, half of them with what the question asks for."""
    scene = draw_scene(rng)
    asked = rng.choice(KINDS)
    answered = rng.random() < 0.5
    told = asked if answered else rng.choice([kind for kind in KINDS if kind != asked])
    label = ANSWERED if answered else UNANSWERED
    return Pair(_question(asked, scene), _statement(rng, told, scene), label)


def _question(kind: str, scene: Scene) -> str:
    verb, thing, person = scene.verb, scene.thing, scene.person
    match kind:
        case "who":
            return f"Who {verb.past} the {thing}?"
        case "how many":
            return f"How many {plural(thing)} did the {person} {verb.base}?"
    return f"{kind.capitalize()} did the {person} {verb.base} the {thing}?"


def _statement(rng: Random, kind: str, scene: Scene) -> str:
    verb, thing, person = scene.verb, scene.thing, scene.person
    match kind:
        case "who":
            name = rng.choice(NAMES["female"] + NAMES["male"])
            return sentence(f"the {thing} was {verb.participle} by {name}")
        case "when":
            return sentence(f"the {person} {verb.past} the {thing} in {rng.randrange(1900, 1990)}")
        case "where":
            return scene.active()
    return sentence(f"the {person} {verb.past} {rng.randrange(12, 99)} {plural(thing)}")
