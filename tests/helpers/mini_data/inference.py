"""Premises with hypotheses that follow, contradict or add something (MNLI, RTE, AX, ...)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

from tests.helpers.mini_data.grammar import (
    Pair,
    Scene,
    article,
    draw_scene,
    hypernym,
    other,
    sentence,
)
from tests.helpers.mini_data.lexicon import DOMAINS, HYPERNYMS, OPPOSITES, TIMES, Domain

ENTAILMENT, NEUTRAL, CONTRADICTION = "entailment", "neutral", "contradiction"

LEXICAL = "Lexical Semantics"
STRUCTURE = "Predicate-Argument Structure"
LOGIC = "Logic"
KNOWLEDGE = "Knowledge"
AX_CATEGORIES = (LEXICAL, STRUCTURE, LOGIC, KNOWLEDGE)


class Rule(NamedTuple):
    """Hypothesis on a scene `s`, its category, and the function that draws {0} and {1}."""

    category: str
    hypothesis: str
    draw: Callable[[Random, Scene], Sequence[str]] = lambda _rng, _scene: ()
    premise: Callable[..., str] = lambda scene, *_drawn: scene.active()


def _friend(rng: Random, scene: Scene) -> Sequence[str]:
    return (other(rng, scene.domain.people, scene.person),)


def _quality(rng: Random, _: Scene) -> Sequence[str]:
    return (rng.choice(rng.choice(OPPOSITES)),)


def _described(scene: Scene, quality: str, *_: str) -> str:
    return replace(scene, adjective=quality).active()


RULES = {
    ENTAILMENT: (
        Rule(LEXICAL, "someone {s.verb.past} {kind}"),
        Rule(LEXICAL, "the {s.thing} is {kind}"),
        Rule(LEXICAL, "the {s.person} {s.verb.formal} the {s.thing} {s.place}"),
        Rule(STRUCTURE, "the {s.thing} was {0}", _quality, _described),
        Rule(STRUCTURE, "the {s.thing} was {s.verb.participle}"),
        Rule(STRUCTURE, "the {s.thing} was {s.verb.participle} by the {s.person}"),
        Rule(LOGIC, "the {s.person} did not {s.verb.base} the {s.thing}", premise=Scene.negated),
        Rule(
            LOGIC,
            "the {s.person} {s.verb.past} the {s.thing}",
            _friend,
            lambda scene, friend: replace(
                scene, person=f"{scene.person} and the {friend}"
            ).active(),
        ),
        Rule(KNOWLEDGE, "the {s.person} was {s.place}"),
    ),
    NEUTRAL: (
        Rule(STRUCTURE, "the {s.person} {s.verb.past} the {s.thing} for the {0}", _friend),
        Rule(
            LOGIC,
            "the {s.person} {s.verb.past} the {s.thing}",
            _friend,
            lambda scene, friend: replace(scene, person=f"{scene.person} or the {friend}").active(),
        ),
        Rule(
            KNOWLEDGE,
            "the {s.person} {s.verb.past} the {s.thing} {0}",
            lambda rng, _: (rng.choice(TIMES),),
        ),
        Rule(KNOWLEDGE, "the {s.person} {s.verb.past} the {s.thing} because it was {0}", _quality),
    ),
    CONTRADICTION: (
        Rule(
            LEXICAL,
            "the {s.thing} is {0}",
            lambda rng, scene: (article(other(rng, tuple(HYPERNYMS), hypernym(scene.thing))),),
        ),
        Rule(
            LEXICAL,
            "the {s.thing} was {1}",
            lambda rng, _: rng.sample(rng.choice(OPPOSITES), 2),
            _described,
        ),
        Rule(STRUCTURE, "the {s.thing} was {s.verb.participle} by the {0}", _friend),
        Rule(LOGIC, "the {s.person} did not {s.verb.base} the {s.thing} {s.place}"),
        Rule(LOGIC, "nobody {s.verb.past} the {s.thing}"),
        Rule(
            KNOWLEDGE,
            "the {s.person} was {0}",
            lambda rng, scene: (other(rng, scene.domain.places, scene.place),),
        ),
    ),
}


def _apply(rule: Rule, rng: Random, scene: Scene, label: str) -> Pair:
    drawn = rule.draw(rng, scene)
    words = rule.hypothesis.format(*drawn, s=scene, kind=article(hypernym(scene.thing)))
    return Pair(rule.premise(scene, *drawn), sentence(words), label, rule.category)


def draw_inference(rng: Random, domains: tuple[Domain, ...] = DOMAINS) -> Pair:
    """Draw a premise, a hypothesis and one of three labels; `category` is AX's name."""
    label = rng.choice(tuple(RULES))
    return _apply(rng.choice(RULES[label]), rng, draw_scene(rng, domains), label)


def draw_entailment(rng: Random) -> Pair:
    """Draw a pair with a sentence before the premise and two labels, half each (RTE)."""
    label = ENTAILMENT if rng.random() < 0.5 else rng.choice((NEUTRAL, CONTRADICTION))
    pair = _apply(rng.choice(RULES[label]), rng, draw_scene(rng), label)
    setting = sentence(f"it rained {rng.choice(TIMES)}")
    name = ENTAILMENT if label == ENTAILMENT else "not_entailment"
    return Pair(f"{setting} {pair.a}", pair.b, name, pair.category)


def draw_diagnostic(rng: Random) -> Pair:
    """Draw a category first, then a pair, so that every category has enough rows for MCC."""
    category = rng.choice(AX_CATEGORIES)
    while (pair := draw_inference(rng)).category != category:
        pass
    return pair


# Sentences whose pronoun is resolved by an adjective: WNLI's pairs, and WSC's marked nouns.

CONTAINERS = ("box", "bag", "case", "drawer")
# pairs of an adjective, and whether it describes the thing that did not fit (else the container)
FITTING = (("big", True), ("large", True), ("wide", True), ("small", False), ("narrow", False))


def draw_winograd(rng: Random) -> Pair:
    """Draw premise, hypothesis and "1" (half) if the hypothesis names the referent of "it"."""
    premise, quality, noun, label = _draw(rng)
    return Pair(premise, sentence(f"the {noun} was too {quality}"), label)


def draw_coreference(rng: Random) -> Pair:
    """Draw a text, a noun in it and "1" (half) if its "it" refers to that noun."""
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


# Minimal pairs that differ only in the gender of a pronoun (AX-g).

PRONOUNS = ("he", "she")


def draw_gender(rng: Random) -> Pair:
    """Draw a premise with "{}" for the pronoun, a hypothesis on one of two people, and a label."""
    scene = draw_scene(rng)
    helper = other(rng, scene.domain.people, scene.person)
    premise = f"the {scene.person} asked the {helper} for help because {{}} had to "
    premise += f"{scene.verb.base} the {scene.thing}"
    follows = rng.random() < 0.5
    actor = scene.person if follows else helper
    hypothesis = sentence(f"the {actor} had to {scene.verb.base} the {scene.thing}")
    return Pair(sentence(premise), hypothesis, "entailment" if follows else "not_entailment")


# Causes with their effects: one of two alternatives belongs to the premise (COPA).

CAUSES = (
    ("{} was very hungry.", "{} ate an apple."),
    ("{} was tired.", "{} went to bed early."),
    ("{} forgot the umbrella.", "{} got wet in the rain."),
    ("{} dropped the glass.", "{} had to sweep the floor."),
    ("{} lost the key.", "{} could not open the door."),
    ("{} trained every day.", "{} won the race."),
    ("{} missed the bus.", "{} came late to work."),
    ("{} told a joke.", "{} made the guests laugh."),
    ("{} caught a cold.", "{} stayed in bed with a fever."),
    ("{} found a wallet.", "{} called the owner."),
    ("{} broke the window.", "{} paid for new glass."),
    ("{} heard a loud noise.", "{} woke up at night."),
)
PEOPLE = tuple(person for domain in DOMAINS for person in domain.people)


class Alternatives(NamedTuple):
    """A premise, two choices, whether cause or effect is asked, and the right index."""

    premise: str
    choices: tuple[str, str]
    question: str
    label: int


def draw_alternatives(rng: Random) -> Alternatives:
    """Draw COPA's row; the wrong choice belongs to another premise or the other direction."""
    person = f"The {rng.choice(PEOPLE)}"
    events = [tuple(part.format(person) for part in event) for event in rng.sample(CAUSES, 2)]
    asks_effect = rng.random() < 0.5
    premise, right = events[0] if asks_effect else events[0][::-1]
    choices = [right, events[1][1 if asks_effect else 0]]
    rng.shuffle(choices)
    first, second = choices
    return Alternatives(
        premise, (first, second), "effect" if asks_effect else "cause", choices.index(right)
    )
