"""Premises with hypotheses that follow, contradict or say more (MNLI, RTE, AX and their kin)."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tasks.mini.drawing import Pair
from tasks.mini.grammar import Scene, article, draw_scene, hypernym, other, sentence
from tasks.mini.lexicon import DOMAINS, HYPERNYMS, OPPOSITES, TIMES, Domain

__all__ = ["AX_CATEGORIES", "draw_diagnostic", "draw_entailment", "draw_inference"]

ENTAILMENT, NEUTRAL, CONTRADICTION = "entailment", "neutral", "contradiction"

LEXICAL = "Lexical Semantics"
STRUCTURE = "Predicate-Argument Structure"
LOGIC = "Logic"
KNOWLEDGE = "Knowledge"
AX_CATEGORIES = (LEXICAL, STRUCTURE, LOGIC, KNOWLEDGE)

Rule = Callable[[Random, Scene], Pair]


def _general(_: Random, scene: Scene) -> Pair:
    words = f"someone {scene.verb.past} {article(hypernym(scene.thing))}"
    return Pair(scene.active(), sentence(words), ENTAILMENT, LEXICAL)


def _kind(_: Random, scene: Scene) -> Pair:
    words = f"the {scene.thing} is {article(hypernym(scene.thing))}"
    return Pair(scene.active(), sentence(words), ENTAILMENT, LEXICAL)


def _wrong_kind(rng: Random, scene: Scene) -> Pair:
    kind = other(rng, tuple(HYPERNYMS), hypernym(scene.thing))
    words = f"the {scene.thing} is {article(kind)}"
    return Pair(scene.active(), sentence(words), CONTRADICTION, LEXICAL)


def _synonym(_: Random, scene: Scene) -> Pair:
    return Pair(scene.active(), scene.formal(), ENTAILMENT, LEXICAL)


def _antonym(rng: Random, scene: Scene) -> Pair:
    truth, lie = rng.sample(rng.choice(OPPOSITES), 2)
    told = replace(scene, adjective=truth)
    return Pair(told.active(), sentence(f"the {scene.thing} was {lie}"), CONTRADICTION, LEXICAL)


def _adjective(rng: Random, scene: Scene) -> Pair:
    told = replace(scene, adjective=rng.choice(rng.choice(OPPOSITES)))
    words = f"the {scene.thing} was {told.adjective}"
    return Pair(told.active(), sentence(words), ENTAILMENT, STRUCTURE)


def _passive(_: Random, scene: Scene) -> Pair:
    words = f"the {scene.thing} was {scene.verb.participle}"
    return Pair(scene.active(), sentence(words), ENTAILMENT, STRUCTURE)


def _agent(_: Random, scene: Scene) -> Pair:
    words = f"the {scene.thing} was {scene.verb.participle} by the {scene.person}"
    return Pair(scene.active(), sentence(words), ENTAILMENT, STRUCTURE)


def _other_agent(rng: Random, scene: Scene) -> Pair:
    agent = other(rng, scene.domain.people, scene.person)
    words = f"the {scene.thing} was {scene.verb.participle} by the {agent}"
    return Pair(scene.active(), sentence(words), CONTRADICTION, STRUCTURE)


def _purpose(rng: Random, scene: Scene) -> Pair:
    friend = other(rng, scene.domain.people, scene.person)
    words = f"the {scene.person} {scene.verb.past} the {scene.thing} for the {friend}"
    return Pair(scene.active(), sentence(words), NEUTRAL, STRUCTURE)


def _negation(_: Random, scene: Scene) -> Pair:
    return Pair(scene.active(), scene.negated(), CONTRADICTION, LOGIC)


def _nobody(_: Random, scene: Scene) -> Pair:
    words = f"nobody {scene.verb.past} the {scene.thing}"
    return Pair(scene.active(), sentence(words), CONTRADICTION, LOGIC)


def _kept_negation(_: Random, scene: Scene) -> Pair:
    words = f"the {scene.person} did not {scene.verb.base} the {scene.thing}"
    return Pair(scene.negated(), sentence(words), ENTAILMENT, LOGIC)


def _conjunct(rng: Random, scene: Scene) -> Pair:
    friend = other(rng, scene.domain.people, scene.person)
    both = replace(scene, person=f"{scene.person} and the {friend}")
    words = f"the {scene.person} {scene.verb.past} the {scene.thing}"
    return Pair(both.active(), sentence(words), ENTAILMENT, LOGIC)


def _disjunct(rng: Random, scene: Scene) -> Pair:
    friend = other(rng, scene.domain.people, scene.person)
    either = replace(scene, person=f"{scene.person} or the {friend}")
    words = f"the {scene.person} {scene.verb.past} the {scene.thing}"
    return Pair(either.active(), sentence(words), NEUTRAL, LOGIC)


def _time(rng: Random, scene: Scene) -> Pair:
    words = f"the {scene.person} {scene.verb.past} the {scene.thing} {rng.choice(TIMES)}"
    return Pair(scene.active(), sentence(words), NEUTRAL, KNOWLEDGE)


def _motive(rng: Random, scene: Scene) -> Pair:
    quality = rng.choice(rng.choice(OPPOSITES))
    words = f"the {scene.person} {scene.verb.past} the {scene.thing} because it was {quality}"
    return Pair(scene.active(), sentence(words), NEUTRAL, KNOWLEDGE)


def _presence(_: Random, scene: Scene) -> Pair:
    words = f"the {scene.person} was {scene.place}"
    return Pair(scene.active(), sentence(words), ENTAILMENT, KNOWLEDGE)


def _absence(rng: Random, scene: Scene) -> Pair:
    elsewhere = other(rng, scene.domain.places, scene.place)
    words = f"the {scene.person} was {elsewhere}"
    return Pair(scene.active(), sentence(words), CONTRADICTION, KNOWLEDGE)


RULES: dict[str, tuple[Rule, ...]] = {
    ENTAILMENT: (
        _general, _kind, _synonym, _adjective, _passive, _agent, _kept_negation, _conjunct,
        _presence,
    ),
    NEUTRAL: (_purpose, _disjunct, _time, _motive),
    CONTRADICTION: (_wrong_kind, _antonym, _other_agent, _negation, _nobody, _absence),
}  # fmt: skip


def draw_inference(rng: Random, domains: tuple[Domain, ...] = DOMAINS) -> Pair:
    """A premise, a hypothesis and one of three labels; `category` is AX's name for the cause."""
    label = rng.choice(tuple(RULES))
    return rng.choice(RULES[label])(rng, draw_scene(rng, domains))


def draw_entailment(rng: Random) -> Pair:
    """The same with a setting sentence before the premise and two labels, half each (RTE)."""
    label = ENTAILMENT if rng.random() < 0.5 else rng.choice((NEUTRAL, CONTRADICTION))
    pair = rng.choice(RULES[label])(rng, draw_scene(rng))
    setting = sentence(f"it rained {rng.choice(TIMES)}")
    name = ENTAILMENT if label == ENTAILMENT else "not_entailment"
    return Pair(f"{setting} {pair.a}", pair.b, name, pair.category)


def draw_diagnostic(rng: Random) -> Pair:
    """A pair of a category drawn first, so that every category has rows enough for an MCC."""
    category = rng.choice(AX_CATEGORIES)
    while (pair := draw_inference(rng)).category != category:
        pass
    return pair
