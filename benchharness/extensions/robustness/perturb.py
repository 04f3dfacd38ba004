"""Perturb examples in ways that do not change their labels.

A perturbation is a pure function of an example and a seed. The texts must be English. Random draws
come from SHA-256, so the same seed gives the same texts with every version of Python.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from benchharness.errors import BenchError, unknown_name
from benchharness.tasks.examples import (
    ChoiceExample,
    Example,
    Mark,
    PairExample,
    SpanExample,
    TagExample,
)
from benchharness.tasks.suites import distinct_title
from benchharness.tasks.task import Task

Span = tuple[int, int]


class Draw:
    """Random number generator whose numbers depend only on its name.

    Args:
        *name: Parts of the name, such as the seed and the id of an example.
    """

    def __init__(self, *name: object) -> None:
        self._name = "\0".join(map(str, name))
        self._count = 0

    def below(self, limit: int) -> int:
        """Return a random integer from 0 to `limit` - 1."""
        self._count += 1
        digest = hashlib.sha256(f"{self._name}\0{self._count}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % limit

    def some(self, count: int, share: float) -> list[int]:
        """Draw some of the indices from 0 to `count` - 1 without replacement, in descending order.

        Args:
            count: Number of indices.
            share: Share of the indices to draw. At least one is drawn, unless `count` is 0.
        """
        wanted, found = max(1, round(share * count)), set[int]()
        while count and len(found) < wanted:
            found.add(self.below(count))
        return sorted(found, reverse=True)


Edit = Callable[[str], str]
"""Function that takes a text and returns it with changes."""


# Typing errors on a QWERTY keyboard.

TYPO_SHARE = 0.1
"""Share of the words of four or more letters that get a typing error."""

# fmt: off
KEYS: Mapping[str, str] = {
    "q": "wa", "w": "qeas", "e": "wrsd", "r": "etdf", "t": "ryfg", "y": "tugh", "u": "yihj",
    "i": "uojk", "o": "ipkl", "p": "ol", "a": "qwsz", "s": "weadzx", "d": "ersfxc", "f": "rtdgcv",
    "g": "tyfhvb", "h": "yugjbn", "j": "uihknm", "k": "iojlm", "l": "opk", "z": "asx", "x": "sdzc",
    "c": "dfxv", "v": "fgcb", "b": "ghvn", "n": "hjbm", "m": "jkn",
}
# fmt: on
"""Neighbouring keys of each letter on a QWERTY keyboard."""

_WORD = re.compile(r"(?<!\w)[A-Za-z]{4,}(?!\w)")


def _typo(word: str, draw: Draw) -> str:
    """Return a word with one typing error after its first letter.

    Two letters are swapped, a letter is missing, or a neighbouring key is added or replaces one.
    """
    place, kind = 1 + draw.below(len(word) - 1), draw.below(4)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    near = KEYS[letter.lower()]
    key = near[draw.below(len(near))]
    key = key.upper() if letter.isupper() else key
    if kind == 0 and place > 1 and before[-1] != letter:
        return before[:-1] + letter + before[-1] + after
    return before + ("", letter + key, key)[kind % 3] + after


def _typos(draw: Draw) -> Edit:
    def edit(text: str) -> str:
        words = list(_WORD.finditer(text))
        for number in draw.some(len(words), TYPO_SHARE):
            start, end = words[number].span()
            text = text[:start] + _typo(text[start:end], draw) + text[end:]
        return text

    return edit


# Case, final punctuation, white space and contractions.


def _case(draw: Draw) -> Edit:
    """Return a function that converts texts to upper or to lower case (drawn once).

    A text that already has this case is converted to the other one.
    """
    one, other = (str.upper, str.lower) if draw.below(2) else (str.lower, str.upper)
    return lambda text: one(text) if one(text) != text else other(text)


_MARKS = re.compile(r"[.!?]+(?=\s*\Z)")


def _punctuation(draw: Draw) -> Edit:
    """Return a function that repeats or removes the final mark of a text (drawn once).

    A text without a final mark gets a full stop.
    """
    is_repeated = draw.below(2)

    def edit(text: str) -> str:
        if not _MARKS.search(text):
            return f"{text.rstrip()}." if text.strip() else text
        return _MARKS.sub(lambda found: found[0][0] * 3 if is_repeated else "", text)

    return edit


def _white_space(draw: Draw) -> Edit:
    """Return a function that replaces a quarter of the gaps between words by other white space."""

    def edit(text: str) -> str:
        gaps = list(re.finditer(r"(?<=\S)\s+(?=\S)", text))
        for number in draw.some(len(gaps), 0.25):
            start, end = gaps[number].span()
            text = text[:start] + ("  ", "   ", "\t", "\n")[draw.below(4)] + text[end:]
        return text

    return edit


_VERBS = ("is", "are", "was", "were", "do", "does", "did", "have", "has", "had", "would", "could")
CONTRACTIONS: Mapping[str, str] = {
    **{f"{verb} not": f"{verb}n't" for verb in _VERBS},
    "cannot": "can't",
    "will not": "won't",
    "I am": "I'm",
    **{f"{who} are": f"{who}'re" for who in ("you", "we", "they")},
    **{f"{who} have": f"{who}'ve" for who in ("I", "you", "we", "they")},
    **{f"{who} will": f"{who}'ll" for who in ("I", "you", "he", "she", "it", "we", "they")},
}
"""Contractions, keyed by their full forms. Contractions with two meanings ("it's") are left out."""


def _replacer(table: Mapping[str, str]) -> Edit:
    """Return a function that replaces whole words according to a table.

    Case is ignored, but an initial capital letter is kept.
    """
    known = {each.lower(): found for each, found in table.items()}
    words = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))

    def swap(found: re.Match[str]) -> str:
        new = known[found[0].lower()]
        return new[0].upper() + new[1:] if found[0][0].isupper() else new

    pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)
    return lambda text: pattern.sub(swap, text)


_contract = _replacer(CONTRACTIONS)
_expand = _replacer({short: full for full, short in CONTRACTIONS.items()})


def _contractions(_: Draw) -> Edit:
    """Return a function that expands the contractions of a text, or contracts its full forms.

    Full forms are contracted only if the text has no contraction. Contractions may be split, as in
    tokenized text ("do n't"), or have a curly apostrophe.
    """

    def edit(text: str) -> str:
        plain = re.sub(r" (?=n't\b|'(?:m|re|ve|ll)\b)", "", text.replace("’", "'"))
        return expanded if (expanded := _expand(plain)) != plain else _contract(text)

    return edit


SENTENCES = (
    "This text is written in English.",
    "The earth is round.",
    "There are seven days in a week.",
    "Two and two are four.",
)
"""True sentences that do not change the label of a text when they are appended to it."""


def _sentence(draw: Draw) -> Edit:
    """Return a function that appends a true sentence (drawn once) to a text that is not empty."""
    added = SENTENCES[draw.below(len(SENTENCES))]
    return lambda text: f"{text.rstrip()} {added}" if text.strip() else text


class Perturbation(NamedTuple):
    """Kind of perturbation.

    Attributes:
        description: Description for display.
        make: Function that takes a random number generator, and returns the function that changes
            the texts of an example.
        at_end: True if only the end of a text changes.
    """

    description: str
    make: Callable[[Draw], Edit]
    at_end: bool = False


PERTURBATIONS: Mapping[str, Perturbation] = {
    "typos": Perturbation("typing errors in a tenth of the words", _typos),
    "case": Perturbation("all letters in upper or in lower case", _case),
    "punctuation": Perturbation("final mark removed, repeated or added", _punctuation, at_end=True),
    "spaces": Perturbation("more white space between words", _white_space),
    "contractions": Perturbation("contractions expanded or made", _contractions),
    "sentence": Perturbation("a true sentence appended", _sentence, at_end=True),
}
"""All perturbations, keyed by name."""

NOT_FOR: Mapping[tuple[str, str], str] = {
    ("typos", "glue/cola"): "they are about the form of a sentence",
    ("punctuation", "glue/cola"): "they are about the form of a sentence",
    ("sentence", "glue/stsb"): "a sentence in both texts makes them more similar",
    ("sentence", "swag/regular"): "the options continue the last sentence",
}
"""Reasons why a perturbation could change labels, keyed by (perturbation, task)."""

_TEXTS, _WORDS = ("class", "labels", "number", "span", "choice"), ("tag", "role")


def named_perturbations(names: Sequence[str]) -> tuple[str, ...]:
    """Return the selected names of `PERTURBATIONS`, in its order.

    Args:
        names: Values of `--perturb`; "all" selects all perturbations.

    Raises:
        BenchError: A name is unknown.
    """
    for name in names:
        if name.lower() not in (*PERTURBATIONS, "all"):
            raise unknown_name("perturbation", name, [*PERTURBATIONS, "all"])
    wanted = {name.lower() for name in names}
    return tuple(name for name in PERTURBATIONS if {name, "all"} & wanted)


def refusal(task: Task, name: str) -> str:
    """Return the reason why a perturbation cannot be applied to a task; "" if it can."""
    title, kinds = distinct_title(task.name), (*_TEXTS, *_WORDS)
    if getattr(task, "weighs_tokens", False) or task.kind not in (
        kinds if name in ("typos", "case") else _TEXTS
    ):
        return f"{title} has no texts for the perturbation {name!r}"
    if reason := NOT_FOR.get((name, task.name)):
        return f"the perturbation {name!r} could change labels of {title}: {reason}"
    return ""


def perturbed(example: Example, name: str, seed: int) -> Example:
    """Return an example with changed texts; its id, its answer and its options stay the same.

    The changed texts are: both texts of pairs, questions of span tasks, contexts and questions of
    choice tasks, and words of tagged sentences. The perturbation "sentence" changes the context of
    a question instead of the question. Marked spans, placeholders and the questions of MultiRC are
    never changed.

    Args:
        example: Example to perturb.
        name: Name of the perturbation.
        seed: Seed of the random draws, which also depend on the perturbation and the example's id.

    Raises:
        BenchError: Examples of this class have no texts to change.
    """
    kind = PERTURBATIONS[name]
    edit, at_end = kind.make(Draw(seed, name, example.id)), kind.at_end
    match example:
        case PairExample():
            return _pair(example, edit, at_end=at_end)
        case SpanExample() if name == "sentence":
            return replace(example, context=edit(example.context))
        case SpanExample():
            return replace(example, question=_blanks_kept(example.question, edit, at_end=at_end))
        case ChoiceExample() if name == "sentence" and example.context:
            return replace(example, context=edit(example.context))
        case ChoiceExample():
            texts = (example.context, example.question)
            context, asked = (_blanks_kept(text, edit, at_end=at_end) for text in texts)
            return replace(example, context=context, question=asked)
        case TagExample():
            return _tagged(example, edit)
    raise BenchError(f"{type(example).__name__} {example.id} has no texts to change.")


def _blanks_kept(text: str, edit: Edit, *, at_end: bool) -> str:
    """Return a changed text with the same placeholders, which questions of ReCoRD and RACE have."""
    blanks = [found.span() for found in re.finditer(r"@\w+|_+", text)]
    return _around(text, blanks, edit, at_end=at_end)[0]


def _around(
    text: str, spans: Sequence[Span], edit: Edit, *, at_end: bool
) -> tuple[str, list[Span]]:
    """Change a text outside of the given spans.

    The text from the first to the last of overlapping spans is not changed.

    Args:
        text: Text to change.
        spans: Character offsets (start, end) that must keep their text.
        edit: Function that changes a text.
        at_end: True if `edit` changes only the end of a text. Then the text stays unchanged if the
            change would affect a span.

    Returns:
        The changed text, and the new offsets of the spans, in order.
    """
    if at_end:
        new, last = edit(text), max((stop for _, stop in spans), default=0)
        return (new if new[:last] == text[:last] else text), list(spans)
    done, end, places = "", 0, dict[Span, Span]()
    for start, stop in sorted(spans):
        if start >= end:
            done += edit(text[end:start])
            end = start
        shift = len(done) - end
        places[start, stop] = (start + shift, stop + shift)
        done += text[end:stop]
        end = max(end, stop)
    return done + edit(text[end:]), [places[span] for span in spans]


def _pair(example: PairExample, edit: Edit, *, at_end: bool) -> PairExample:
    texts, moved = {"a": example.text_a, "b": example.text_b or ""}, dict[Mark, Mark]()
    for which, text in texts.items():
        marks = [mark for mark in example.marks if mark.text == which]
        spans = [(mark.start, mark.end) for mark in marks]
        # In MultiRC, text b begins with the question, which `about` repeats.
        if which == "b" and example.about and text.startswith(example.about):
            spans.append((0, len(example.about)))
        texts[which], places = _around(text, spans, edit, at_end=at_end)
        for mark, (start, end) in zip(marks, places, strict=False):
            moved[mark] = replace(mark, start=start, end=end)
    return replace(
        example,
        text_a=texts["a"],
        text_b=None if example.text_b is None else texts["b"],
        marks=tuple(moved[mark] for mark in example.marks),
    )


def _tagged(example: TagExample, edit: Edit) -> TagExample:
    """Return a tagged example with changed words, also in its document; no word is split."""
    words = tuple(edit("\x1f".join(example.words)).split("\x1f"))
    document = example.document
    if document is not None:
        end = document.start + len(words)
        whole = (*document.words[: document.start], *words, *document.words[end:])
        document = replace(document, words=whole)
    return replace(example, words=words, document=document)
