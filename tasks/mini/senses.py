"""Words of two senses in sentences that show which (WiC)."""

from random import Random
from typing import NamedTuple

from tasks.mini.lexicon import DOMAINS

__all__ = ["Usage", "draw_usage"]

SENSES = {
    "bank": (("asked the {} for money", "put the coins into the {}", "paid a bill at the {}"),
             ("swam to the {} of the river", "sat on the grassy {}", "fished from the muddy {}")),
    "bat": (("swung the {} at the ball", "hit the ball with the {}", "bought a wooden {}"),
            ("saw a {} fly out of the cave", "fed the young {}", "heard the wings of the {}")),
    "match": (("lit a candle with a {}", "struck a {} in the dark", "burned a {}"),
              ("won the {} by two goals", "played the last {}", "saw the {} at the stadium")),
    "ring": (("wore a golden {}", "put the {} on a finger", "sold the silver {}"),
             ("heard the {} of the bell", "waited for the {} of the telephone",
              "woke at the {} of the clock")),
    "spring": (("liked the flowers in {}", "planted seeds in {}", "waited all winter for {}"),
               ("fixed the {} of the clock", "bent the metal {}", "mended the {} of the chair")),
    "seal": (("saw a {} swim in the sea", "fed the {} with fish", "watched the {} dive"),
             ("broke the {} of the letter", "put a {} on the paper", "checked the {} of the jar")),
    "nail": (("hammered the {} into the wall", "pulled the {} out of the wood",
              "bent the iron {}"),
             ("painted the {} of one finger", "cut the long {} of a toe", "broke a {} at work")),
    "trunk": (("touched the {} of the elephant", "saw the elephant lift its {}",
               "drew the long {} of the elephant"),
              ("packed the {} for the journey", "put clothes into the {}", "locked the old {}")),
    "bark": (("heard the {} of the dog", "woke from the {} of the puppy",
              "knew the {} of every dog"),
             ("peeled the {} of the tree", "cut a name into the {} of the oak",
              "touched the rough {} of the tree")),
    "palm": (("read the lines of the {}", "held a coin in the {} of the hand",
              "opened the {} of the hand"),
             ("slept under the {} on the beach", "planted a {} near the sea",
              "climbed the tall {} for a coconut")),
}  # fmt: skip
PEOPLE = tuple(person for domain in DOMAINS for person in domain.people)


class Usage(NamedTuple):
    """A word in two sentences, and whether it means the same in both."""

    word: str
    first: str
    second: str
    same: bool


def draw_usage(rng: Random) -> Usage:
    """Half of the pairs keep the sense."""
    word = rng.choice(tuple(SENSES))
    same = rng.random() < 0.5
    one, two = rng.sample(SENSES[word], 2)
    first, second = rng.sample(one, 2) if same else (rng.choice(one), rng.choice(two))
    return Usage(word, _sentence(rng, first, word), _sentence(rng, second, word), same)


def _sentence(rng: Random, event: str, word: str) -> str:
    return f"The {rng.choice(PEOPLE)} {event.format(word)}."
