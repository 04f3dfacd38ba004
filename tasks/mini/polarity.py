"""Opinions whose polarity follows from an adjective, negation and "but" (SST-2)."""

from random import Random

__all__ = ["draw_polarity"]

POSITIVE = (
    "charming", "funny", "moving", "brilliant", "clever", "warm", "gripping", "fresh", "graceful",
    "honest", "lovely", "vivid", "witty", "splendid", "tender", "lively",
)  # fmt: skip
NEGATIVE = (
    "boring", "dull", "clumsy", "tedious", "shallow", "noisy", "bland", "stale", "awkward", "messy",
    "tiresome", "hollow", "lazy", "silly", "dreary", "lifeless",
)  # fmt: skip
ASPECTS = (
    "plot", "story", "ending", "cast", "script", "music", "film", "dialogue", "camera work",
    "opening", "humour", "pace",
)  # fmt: skip
DEGREES = ("", "very", "rather", "truly", "often", "quite")


def draw_polarity(rng: Random) -> tuple[str, str]:
    """A review line in the set's own spelling (lower case, spaced marks) and "1" for praise."""
    praise = rng.random() < 0.52
    line = rng.choice((_plain, _plain, _contrast, _phrase))(rng, praise)
    return line, str(int(praise))


def _verdict(rng: Random, praise: bool) -> str:
    """`is very warm`, or with the opposite word `is never dull`: a third are turned round."""
    turned = rng.random() < 0.33
    word = rng.choice(POSITIVE if praise is not turned else NEGATIVE)
    lead = rng.choice(("not", "never", "hardly")) if turned else rng.choice(DEGREES)
    return " ".join(filter(None, (lead, word)))


def _plain(rng: Random, praise: bool) -> str:
    return f"the {rng.choice(ASPECTS)} is {_verdict(rng, praise)} . "


def _contrast(rng: Random, praise: bool) -> str:
    """What comes after "but" counts."""
    first, second = rng.sample(ASPECTS, 2)
    before, after = _verdict(rng, not praise), _verdict(rng, praise)
    return f"the {first} is {before} , but the {second} is {after} . "


def _phrase(rng: Random, praise: bool) -> str:
    return f"a {rng.choice(ASPECTS)} that is {_verdict(rng, praise)} and {_verdict(rng, praise)} "
