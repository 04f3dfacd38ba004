"""Words of the embedded data, with the relations that determine its labels.

The vocabulary is small, so that an encoder with random weights sees every word often enough to
learn something about it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Verb:
    """Transitive verb; `formal` is the past of a regular synonym, `opposite` a base form."""

    base: str
    third: str
    past: str
    participle: str
    formal: str
    opposite: str


@dataclass(frozen=True, kw_only=True)
class Domain:
    """Nouns of one topic; every place starts with its preposition."""

    name: str
    people: tuple[str, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]


def _verb(line: str) -> Verb:
    base, third, past, participle, formal, opposite = line.split()
    return Verb(
        base=base, third=third, past=past, participle=participle, formal=formal, opposite=opposite
    )


VERBS = tuple(
    _verb(line)
    for line in (
        "buy buys bought bought purchased sell",
        "sell sells sold sold auctioned buy",
        "fix fixes fixed fixed repaired break",
        "break breaks broke broken smashed fix",
        "hide hides hid hidden concealed show",
        "show shows showed shown displayed hide",
        "find finds found found discovered lose",
        "lose loses lost lost misplaced find",
        "clean cleans cleaned cleaned washed stain",
        "stain stains stained stained soiled clean",
        "open opens opened opened unlocked close",
        "close closes closed closed shut open",
    )
)


def opposite(verb: Verb) -> Verb:
    """Return the verb that undoes this one."""
    return next(v for v in VERBS if v.base == verb.opposite)


DOMAINS = (
    Domain(
        name="farm",
        people=("farmer", "shepherd", "gardener", "miller"),
        things=("cart", "tractor", "spade", "rake", "apple", "pear", "drum", "coat"),
        places=("near the barn", "in the field", "by the river", "behind the fence"),
    ),
    Domain(
        name="school",
        people=("teacher", "student", "painter", "singer"),
        things=("bus", "bicycle", "hammer", "drill", "plum", "violin", "guitar", "scarf"),
        places=("in the classroom", "at the library", "in the yard", "near the gate"),
    ),
    Domain(
        name="town",
        people=("baker", "driver", "nurse", "doctor"),
        things=("car", "taxi", "saw", "wrench", "peach", "piano", "hat", "glove"),
        places=("at the market", "in the kitchen", "at the station", "in the street"),
    ),
)

HELD_OUT = (
    Domain(
        name="harbour",
        people=("sailor", "captain", "diver", "pilot"),
        things=("ferry", "boat", "chisel", "anchor", "lemon", "flute", "boot", "jacket"),
        places=("on the pier", "in the harbour", "on the beach", "near the lighthouse"),
    ),
    Domain(
        name="theatre",
        people=("actor", "dancer", "poet", "tailor"),
        things=("carriage", "tram", "axe", "grape", "harp", "trumpet", "shirt", "dress"),
        places=("on the stage", "in the hall", "in the garden", "at the palace"),
    ),
)
"""Nouns of MNLI's mismatched genres, which do not occur in its train split."""

HYPERNYMS = {
    "vehicle": "cart tractor bus bicycle car taxi ferry boat carriage tram",
    "tool": "spade rake hammer drill saw wrench chisel anchor axe",
    "fruit": "apple pear plum peach lemon grape",
    "instrument": "drum violin guitar piano flute harp trumpet",
    "garment": "coat scarf hat glove boot jacket shirt dress",
}

OPPOSITES = (
    ("big", "small"),
    ("old", "new"),
    ("clean", "dirty"),
    ("heavy", "light"),
    ("cheap", "expensive"),
)

NAMES = {
    "female": ("Anna", "Clara", "Emma", "Julia", "Laura", "Maria", "Nora", "Sara"),
    "male": ("Adam", "David", "Felix", "Henry", "Jacob", "Martin", "Oscar", "Peter"),
}

TOWNS = ("Norburg", "Estwick", "Velden", "Santora", "Kalmond", "Riverton")

TIMES = ("on monday", "on friday", "last week", "in the morning", "after lunch", "at night")

COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve")
