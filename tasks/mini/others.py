"""CoNLL-2003 in the official four columns: word, part of speech, chunk, entity in IOB1."""

from pathlib import Path
from random import Random

from tasks.mini.drawing import draw_splits
from tasks.mini.lexicon import NAMES, TOWNS
from tasks.mini.writing import write_text

__all__ = ["write_conll2003"]

SIZES = (500, 150, 100)
SENTENCES_PER_DOCUMENT = 10
SEPARATOR = "-DOCSTART- -X- O O\n\n"

FIRST_NAMES = NAMES["female"] + NAMES["male"]
# a surname may also name a town or a firm: only the words around it tell, and not always
SHARED = ("Berg", "Holm", "Lund", "Stone", "Marsh", "Wells", "Banks", "Field")
SURNAMES = ("Carter", "Novak", "Larsen", "Moreau", "Rossi", "Weber", *SHARED)
PLACES = (*TOWNS, *SHARED)
FIRMS = ("Alcor", "Bitwell", "Corvex", "Dynacom", "Elmira", *SHARED)
PEOPLES = ("Norlandic", "Estish", "Veldian", "Santoran", "Kalmondish")
CUPS = ("World Cup", "Harvest Trophy", "Winter Games")

TEMPLATES = (
    "PER said/VBD so/RB on/IN Monday/NNP ./.",
    "ORG said/VBD so/RB on/IN Monday/NNP ./.",
    "LOC said/VBD so/RB on/IN Monday/NNP ./.",
    "LOC beat/VBD LOC in/IN the/DT MISC final/NN ./.",
    "ORG beat/VBD ORG in/IN the/DT MISC final/NN ./.",
    "PER beat/VBD PER in/IN the/DT MISC final/NN ./.",
    "PER visited/VBD LOC with/IN PER ./.",
    "the/DT MISC player/NN PER lives/VBZ in/IN LOC ./.",
    "ORG opened/VBD an/DT office/NN in/IN LOC ./.",
    "shares/NNS of/IN ORG fell/VBD after/IN PER left/VBD ./.",
    "ORG hired/VBD PER from/IN ORG ./.",
    "LOC LOC 3/CD 1/CD",
    "PER won/VBD a/DT MISC race/NN in/IN LOC ./.",
    "officials/NNS in/IN LOC met/VBD PER and/CC PER ./.",
    "the/DT chairman/NN of/IN ORG ,/, PER ,/, resigned/VBD ./.",
    "prices/NNS rose/VBD again/RB in/IN May/NNP ./.",
)

Row = tuple[str, str, str, str]


def write_conll2003(folder: Path) -> None:
    """Write eng.train, eng.testa (dev) and eng.testb (test)."""
    splits = draw_splits("conll2003", _draw_sentence, SIZES)
    for name, sentences in zip(("train", "testa", "testb"), splits, strict=True):
        blocks = [
            (SEPARATOR if number % SENTENCES_PER_DOCUMENT == 0 else "") + _block(rows)
            for number, rows in enumerate(sentences)
        ]
        write_text(folder / f"eng.{name}", "".join(blocks))


def _draw_sentence(rng: Random) -> tuple[Row, ...]:
    rows: list[Row] = []
    for item in rng.choice(TEMPLATES).split():
        word, _, part = item.partition("/")
        rows += [_plain(word, part)] if word not in ENTITIES else _entity(rng, word, rows)
    return tuple(rows)


def _plain(word: str, part: str) -> Row:
    chunk = {"V": "I-VP", "I": "I-PP", "N": "I-NP", "D": "I-NP", "C": "I-NP"}.get(part[0], "O")
    return word, part, chunk, "O"


def _entity(rng: Random, kind: str, before: list[Row]) -> list[Row]:
    """I- throughout, but B- where an entity of the same kind stands right before: that is IOB1."""
    words = ENTITIES[kind](rng).split()
    touches = bool(before) and before[-1][3].endswith(kind)
    tags = [f"{'B' if touches else 'I'}-{kind}", *[f"I-{kind}"] * (len(words) - 1)]
    return [(word, "NNP", "I-NP", tag) for word, tag in zip(words, tags, strict=True)]


def _person(rng: Random) -> str:
    surname = rng.choice(SURNAMES)
    return surname if rng.random() < 0.3 else f"{rng.choice(FIRST_NAMES)} {surname}"


def _town(rng: Random) -> str:
    return rng.choice(("", "", "", "", "New ", "Port ")) + rng.choice(PLACES)


def _firm(rng: Random) -> str:
    return rng.choice(FIRMS) + rng.choice(("", "", " Corp", " United", " Bank"))


def _miscellany(rng: Random) -> str:
    return rng.choice(PEOPLES + CUPS)


ENTITIES = {"PER": _person, "LOC": _town, "ORG": _firm, "MISC": _miscellany}


def _block(rows: tuple[Row, ...]) -> str:
    return "".join(f"{' '.join(row)}\n" for row in rows) + "\n"
