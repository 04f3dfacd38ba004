"""Test of the table of families in docs/models.md, which `make gold` writes.

A family that transformers adds has no row, so the test fails until someone looks at the family.
"""

import os
from collections.abc import Iterator

import pytest

from benchharness.heads.classifiers import find_pooling
from benchharness.models.families import CHECKED, CLASSIFIED, is_causal
from tests.helpers import ROOT
from tests.helpers.every_family import (
    CLASSIFYING,
    NOT_MADE,
    READ,
    REFUSED,
    make_tiny_config,
)

PAGE = ROOT / "docs" / "models.md"
BEGIN, END = "<!-- families -->\n", "<!-- end of families -->\n"

LAYER = {
    "pooler": ", behind the pretrained layer",
    "fresh": ", behind a new layer",
    "none": "",
}

UNCHECKED = "no one checked how this family is read: a new layer on the first token, or the last \
token if a trial shows that tokens attend only to earlier ones"


def reading_of(family: str) -> str:
    """Describe which state the text classifier of a family reads."""
    if family in NOT_MADE:
        return f"not tried: {NOT_MADE[family]}"
    if family in REFUSED:
        return f"refused: {REFUSED[family]}"
    causal = is_causal({"model_type": family})
    if not causal and family not in CHECKED | CLASSIFIED:
        return UNCHECKED
    pooling, config = find_pooling(family, is_causal=causal), make_tiny_config(family, 100)
    if not causal and hasattr(config, "classifier_pooling"):
        return f"as `classifier_pooling` in config.json says{LAYER[pooling.dense]}"
    state = {"mean": "the mean of all tokens"}.get(
        pooling.reads(config), f"the {pooling.reads(config)} token"
    )
    return f"{state}{' (a decoder)' * causal}{LAYER[pooling.dense]}"


def table() -> Iterator[str]:
    """Yield the lines of the table, the most frequent readings first."""
    found: dict[str, list[str]] = {}
    for family in sorted(CLASSIFYING):
        found.setdefault(reading_of(family), []).append(family)
    yield from ("| the classifier reads | families |", "|---|---|")
    for reading, families in sorted(found.items(), key=lambda each: (-len(each[1]), each[0])):
        yield f"| {reading} | {', '.join(families)} |"


@pytest.mark.gold
def test_documentation_states_how_every_family_of_transformers_is_read():
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    written, _, after = rest.partition(END)
    expected = "\n".join(table()) + "\n"
    if os.environ.get("BENCH_UPDATE_GOLD") == "1":
        PAGE.write_text(before + BEGIN + expected + END + after, encoding="utf-8")
        written = expected
    assert written == expected, "look at the new families, then run `make gold`"
    assert {*READ, *REFUSED, *NOT_MADE} == set(CLASSIFYING)
