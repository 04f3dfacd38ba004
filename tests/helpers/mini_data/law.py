"""LexGLUE's JSON lines: cases whose facts determine the articles, and court opinions."""

from pathlib import Path
from random import Random

from tests.helpers.mini_data.grammar import draw_splits, write_json_lines
from tests.helpers.mini_data.lexicon import NAMES, TOWNS

CASES, OPINIONS = (240, 48, 48), (130, 44, 56)

FACTS = {
    "2": "died in custody",
    "3": "was beaten by guards",
    "5": "was detained for months",
    "6": "waited years for a court",
    "8": "had the letters opened",
    "9": "could not pray",
    "10": "was fined for an article",
    "11": "was kept from a meeting",
    "14": "was treated unlike others",
    "P1-1": "lost the house",
}
"""Fact that determines each article."""

COMMON = ("3", "5", "6", "8")

NEUTRAL = ("was born in {town}", "works in {town}", "wrote to the mayor of {town}")

SUBJECTS = (
    "a search without warrant", "schools for all", "a newspaper", "a hearing", "a clinic",
    "a lawyer", "a strike", "a merger", "an appeal", "a state law", "a border river", "a tax",
    "a pension",
)  # fmt: skip
"""Subjects of the areas 1 to 13."""


def write_law(folder: Path) -> None:
    """Write ecthr.jsonl and scotus.jsonl, all splits in each."""
    for name, draw, sizes in (("ecthr", _draw_case, CASES), ("scotus", _draw_opinion, OPINIONS)):
        parts = zip(("train", "dev", "test"), draw_splits(name, draw, sizes), strict=True)
        rows = [{**dict(row), "data_type": part} for part, drawn in parts for row in drawn]
        write_json_lines(folder / f"{name}.jsonl", rows)


Drawn = tuple[tuple[str, object], ...]


def _draw_case(rng: Random) -> Drawn:
    """Draw a case with one fact per article; four articles are common.

    A fifth of the cases have no violation. Some have no article, and some an article that is not a
    label.
    """
    person = rng.choice(NAMES["female"] + NAMES["male"])
    alleged = [a for a in FACTS if rng.random() < (0.4 if a in COMMON else 0.1)]
    told = [FACTS[article] for article in alleged]
    told.append(rng.choice(NEUTRAL).format(town=rng.choice(TOWNS)))
    rng.shuffle(told)
    facts = [f"{person} {fact}." for fact in told]
    is_settled = rng.random() < 0.2
    facts += ["the state has paid."] * is_settled
    extra = ("13",) if rng.random() < 0.05 else ()
    return (
        ("facts", tuple(facts)),
        ("violated_articles", (*(() if is_settled else alleged), *extra)),
        ("allegedly_violated_articles", (*alleged, *extra)),
    )


def _draw_opinion(rng: Random) -> Drawn:
    """Draw an opinion on one subject, with legal phrases around it."""
    name, town = rng.choice(NAMES["male"]), rng.choice(TOWNS)
    area = rng.randint(1, len(SUBJECTS))
    parts = [
        f"Justice {name} gave the opinion.",
        f"It began in {town}.",
        f"It is about {SUBJECTS[area - 1]}.",
        rng.choice(("We affirm.", "We reverse.", "We vacate.")),
    ]
    return (("text", "\n\n".join(parts)), ("issueArea", str(area)))
