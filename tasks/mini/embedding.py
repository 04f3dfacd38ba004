"""Clauses under verbs that commit the speaker to them, to their denial or to nothing (CB)."""

from random import Random

from tasks.mini.drawing import Pair
from tasks.mini.grammar import draw_scene, other, sentence
from tasks.mini.lexicon import DOMAINS

__all__ = ["draw_commitment"]

# a verb phrase, and the same one denied, by what they say of the clause
VERBS = {
    "entailment": ("knows that", "does not know that", "is glad that", "regrets that",
                   "was not surprised that"),
    "contradiction": ("is wrong to think that", "pretends that", "only dreamed that",
                      "falsely claims that"),
    "neutral": ("thinks that", "does not think that", "hopes that", "asks whether",
                "is not sure that", "was told that"),
}  # fmt: skip
LABELS = tuple(VERBS)
PEOPLE = tuple(person for domain in DOMAINS for person in domain.people)


def draw_commitment(rng: Random) -> Pair:
    """A premise of two sentences, the bare clause, and what follows; neutral is the rarest."""
    label = rng.choices(LABELS, weights=(42, 42, 16))[0]
    scene, before = draw_scene(rng), draw_scene(rng)
    clause = f"the {scene.person} {scene.verb.past} the {scene.thing}"
    believer = other(rng, PEOPLE, scene.person)
    told = sentence(f"the {believer} {rng.choice(VERBS[label])} {clause}")
    return Pair(f"{before.active()} {told}", clause, label)
