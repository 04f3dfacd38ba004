"""Slices of a task's examples: the benchmark's own categories, and what a text looks like."""

import re
from collections.abc import Callable, Iterator, Sequence
from statistics import quantiles

from benchharness.tasks.examples import Example

QUESTION_WORDS = ("what", "who", "when", "where", "why", "which", "how")
OTHERS = {"whom": "who", "whose": "who"}
NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|neither|nor|nowhere|without|cannot)\b|n[’']t\b",
    re.IGNORECASE,
)
WORD = re.compile(r"\w+")


def slices_of(examples: Sequence[Example]) -> dict[str, list[int]]:
    """The places of the examples of each slice, by the slice's name; empty ones are left out.

    Its own: AX's categories, RACE's levels, whether SQuAD 2.0 has an answer. By the text: the
    question's word, negation, and thirds by length (words of all texts) and by overlap (the share
    of the words of the question or second text that stand in the other). The names of thirds say
    where they end.
    """
    found: dict[str, list[int]] = {}
    for place, example in enumerate(examples):
        for name in (*example.traits.slices, *_by_text(example)):
            found.setdefault(name, []).append(place)
    for name, measure in (("words", _length), ("overlap", _overlap)):
        found |= _thirds(name, measure, examples)
    return {name: places for name, places in sorted(found.items()) if len(places) < len(examples)}


def _by_text(example: Example) -> Iterator[str]:
    traits = example.traits
    if traits.asked:
        words = [word.lower() for word in WORD.findall(traits.asked)]
        known = (OTHERS.get(word, word) for word in words)
        yield f"question {next((w for w in known if w in QUESTION_WORDS), 'other')}"
    if traits.claims:
        has_negation = any(NEGATION.search(text) for text in traits.claims)
        yield "with negation" if has_negation else "without negation"


def _length(example: Example) -> float:
    return float(sum(len(text.split()) for text in example.traits.texts))


def _overlap(example: Example) -> float | None:
    context, *others = example.traits.texts
    asked, of = ({w.lower() for w in WORD.findall(t)} for t in (" ".join(others), context))
    return round(len(asked & of) / len(asked), 2) if asked else None


def _thirds(
    name: str, measure: Callable[[Example], float | None], examples: Sequence[Example]
) -> dict[str, list[int]]:
    measured = [(value, i) for i, e in enumerate(examples) if (value := measure(e)) is not None]
    if len(measured) < 3:
        return {}
    low, high = (round(cut, 2) for cut in quantiles((value for value, _ in measured), n=3))
    thirds = (
        (f"{name} 1/3: to {low:g}", [i for value, i in measured if value <= low]),
        (f"{name} 2/3: to {high:g}", [i for value, i in measured if low < value <= high]),
        (f"{name} 3/3: over {high:g}", [i for value, i in measured if value > high]),
    )
    return {name: places for name, places in thirds if places}
