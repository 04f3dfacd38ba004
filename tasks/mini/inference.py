"""Premises with hypotheses that follow, contradict or say more (MNLI, RTE, AX and their kin)."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

from tasks.mini.grammar import Pair, Scene, article, draw_scene, hypernym, other, sentence
from tasks.mini.lexicon import DOMAINS, HYPERNYMS, OPPOSITES, TIMES, Domain

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


# A pronoun that an adjective resolves: WNLI's pairs, WSC's marked nouns.

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


# Minimal pairs that differ in the gender of a pronoun only (AX-g).

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


# Causes with their effects: two alternatives, one of which belongs to the premise (COPA).

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
    """A premise, two choices, which of cause or effect is asked for, and the right index."""

    premise: str
    choices: tuple[str, str]
    question: str
    label: int


def draw_alternatives(rng: Random) -> Alternatives:
    """The wrong choice is what belongs to another premise, or the other end of another event."""
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
