"""Twins that say the same in other words or order, and twins with one fact changed."""

from dataclasses import replace
from random import Random

from tasks.mini.drawing import Pair
from tasks.mini.grammar import Scene, draw_scene, other, sentence
from tasks.mini.lexicon import DOMAINS, HELD_OUT, OPPOSITES, VERBS

__all__ = ["draw_paraphrase", "draw_questions", "draw_similarity"]

FORMS = (Scene.active, Scene.fronted, Scene.passive, Scene.formal)

INTENTS = {
    "how": ("How can I {} {}?", "What is the best way to {} {}?", "How do people {} {}?"),
    "why": ("Why should I {} {}?", "What is a good reason to {} {}?", "Why do people {} {}?"),
    "where": ("Where can I {} {}?", "What is a good place to {} {}?", "Where do people {} {}?"),
    "cost": ("How much does it cost to {} {}?", "What is the price to {} {}?"),
}


def draw_paraphrase(rng: Random) -> Pair:
    """Two sentences, "1" where they tell the same scene (three in five; MRPC)."""
    scene = draw_scene(rng)
    if rng.random() < 0.6:
        first, second = rng.choices(
            ((Scene.active, Scene.formal), (Scene.active, Scene.passive),
             (Scene.fronted, Scene.active), (Scene.passive, Scene.formal)),
            weights=(4, 3, 1, 2),
        )[0]  # fmt: skip
        return Pair(first(scene), second(scene), "1")
    first, second = (rng.choices(FORMS, weights=(6, 1, 2, 1))[0] for _ in range(2))
    if rng.random() < 0.35:
        return Pair(first(scene), scene.negated(), "0")
    return Pair(first(scene), second(_changed(rng, scene)), "0")


def _changed(rng: Random, scene: Scene) -> Scene:
    """The scene with another thing, person, place or the opposite verb."""
    domain = scene.domain
    return rng.choice(
        (
            replace(scene, thing=other(rng, domain.things, scene.thing)),
            replace(scene, person=other(rng, domain.people, scene.person)),
            replace(scene, place=other(rng, domain.places, scene.place)),
            scene.undone(),
        )
    )


def draw_questions(rng: Random) -> Pair:
    """Two questions, "1" where one answer serves both (two in five; QQP).

    The others ask something else of the same thing, or the same of a new one.
    """
    thing, verb = rng.choice(rng.choice(DOMAINS).things), rng.choice(VERBS).base
    intent = rng.choice(tuple(INTENTS))
    first, second = rng.sample(INTENTS[intent], 2)
    old, new = f"an old {thing}", f"a new {thing}"
    if rng.random() < 0.4:
        return Pair(first.format(verb, old), second.format(verb, old), "1")
    if rng.random() < 0.6:
        elsewhere = rng.choice(INTENTS[other(rng, tuple(INTENTS), intent)])
        return Pair(first.format(verb, old), elsewhere.format(verb, old), "0")
    same_words = rng.choice((first, second))
    return Pair(first.format(verb, old), same_words.format(verb, new), "0")


def draw_similarity(rng: Random) -> Pair:
    """Two sentences with a grade from 0 (unrelated) to 5 (the same), as `%.3f` (STS-B).

    Raters differ: the grade of the kind of pair moves by up to 0.4.
    """
    grade = rng.randrange(6)
    scene = replace(draw_scene(rng), adjective=rng.choice(rng.choice(OPPOSITES)))
    second = GRADES[grade](rng, scene)
    score = min(5.0, max(0.0, grade + rng.choice((-0.4, -0.2, 0.0, 0.0, 0.2, 0.4))))
    return Pair(scene.active(), second, f"{score:.3f}")


def _same(rng: Random, scene: Scene) -> str:
    return rng.choice((Scene.formal, Scene.passive))(scene)


def _shortened(rng: Random, scene: Scene) -> str:
    """Everything but the place, or but the adjective."""
    if rng.random() < 0.5:
        return replace(scene, adjective="").active()
    return sentence(f"the {scene.person} {scene.verb.past} {scene.noun_phrase}")


def _elsewhere(rng: Random, scene: Scene) -> str:
    return replace(scene, place=other(rng, scene.domain.places, scene.place)).fronted()


def _otherwise(rng: Random, scene: Scene) -> str:
    """The same people and things, and the opposite of what was done."""
    return scene.undone().active() if rng.random() < 0.4 else scene.negated()


def _same_person(rng: Random, scene: Scene) -> str:
    stranger = draw_scene(rng, HELD_OUT)
    return replace(stranger, person=scene.person).active()


def _unrelated(rng: Random, _: Scene) -> str:
    return draw_scene(rng, HELD_OUT).active()


GRADES = (_unrelated, _same_person, _otherwise, _elsewhere, _shortened, _same)
