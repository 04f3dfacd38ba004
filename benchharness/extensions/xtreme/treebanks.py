"""Read CoNLL-U files of Universal Dependencies, with one word per line.

The ten columns include the number of the word (1st), its form (2nd), its part of speech (4th), the
number of its head (7th) and its heads in the enhanced dependencies (9th). As in XTREME, a fused
word ("3-4 zum") replaces its parts and gets the tag of the part nearest to the root
(google-research/xtreme third_party/ud-conversion-tools).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from benchharness.errors import DataError
from benchharness.tasks.sources.formats import OfficialFiles, Record, read_lines, sentences_of

_UD_ORDER = "VERB NOUN PROPN PRON ADJ NUM ADV INTJ AUX ADP DET PART CCONJ SCONJ X PUNCT"
_UD_ORDERS = {
    "es": "VERB AUX PRON ADP DET",
    "fr": "VERB AUX PRON NOUN ADJ ADV ADP DET PART SCONJ CONJ",
    "it": "VERB AUX ADV PRON ADP DET INTJ",
}
"""Preferred order of the parts' tags if several parts of a fused word are equally near to the root,
keyed by language."""

_UD_NUMBER = re.compile(r"\d{1,9}([-.]\d{1,9})?", re.ASCII)


def conllu_records(files: OfficialFiles) -> Iterator[Record]:
    """Read sentences from CoNLL-U files: their words and universal parts of speech.

    Args:
        files: The files of all treebanks of a language.

    Raises:
        DataError: A file is malformed, or has an unknown part of speech.
    """
    source = files.source
    for path in files.paths:
        order = _UD_ORDERS.get(path.name.partition("_")[0], _UD_ORDER).split()
        lines = ("" if line.startswith("#") else line for line in read_lines(path))
        for words in sentences_of(lines, "\t"):
            place = f"{path} line {words[0].line}"
            for number, columns in words:
                if len(columns) != 10:
                    raise DataError(
                        f"{path} line {number} has {len(columns)} columns; expected CoNLL-U's 10 "
                        "columns. Get the treebanks of Universal Dependencies."
                    )
                if not _UD_NUMBER.fullmatch(columns[0]):
                    raise DataError(
                        f"{path} line {number} has the word number {columns[0]!r:.40}; expected a "
                        "number such as 3, 3-4 (a fused word) or 3.1 (a word that is not written)."
                    )
            forms, tags = zip(*_fused([word.columns for word in words], order, place), strict=True)
            if unknown := sorted({*tags} - {*source.label_names}):
                expected = ", ".join(source.label_names)
                raise DataError(f"{place} has the tag {unknown[0]!r}; expected one of {expected}.")
            yield Record(place, {"tokens": list(forms), source.label: list(tags)})


def _fused(
    words: Sequence[Sequence[str]], order: Sequence[str], place: str
) -> Iterator[tuple[str, str]]:
    """Yield (form, tag) of each word in a sentence, with fused words instead of their parts."""
    parts = {int(columns[0]): columns for columns in words if columns[0].isdecimal()}
    if not parts:
        raise DataError(
            f"{place} is a sentence without words: get the treebanks of Universal Dependencies."
        )
    spans = [(*columns[0].split("-"), columns[1]) for columns in words if "-" in columns[0]]
    fused = {int(first): (int(last), form) for first, last, form in spans}
    end = 0
    for number, columns in parts.items():
        if number <= end:
            continue
        end, form = fused.get(number, (number, columns[1]))
        tag = columns[3] if end == number else _tag_of(range(number, end + 1), parts, order)
        # Spaces and zero-width non-joiners within a word are dropped, as in utils_preprocess.py.
        yield form.strip().replace("\u200c", "").replace(" ", ""), tag


def _tag_of(span: range, parts: Mapping[int, Sequence[str]], order: Sequence[str]) -> str:
    """Return the tag of a fused word, which is the tag of the part nearest to the root.

    That part depends on the fewest words. On ties, the tag that is first in `order` is returned.
    """
    above = {number: _heads(columns) for number, columns in parts.items()}
    depths = {part: len(_reached(part, above)) for part in span if part in parts}
    tags = [parts[part][3] for part, depth in depths.items() if depth == min(depths.values())]
    return min(tags, key=lambda tag: order.index(tag) if tag in order else len(order))


def _heads(columns: Sequence[str]) -> list[int]:
    """Return the numbers of a word's head and of its heads in the enhanced dependencies."""
    enhanced = (each.partition(":")[0] for each in columns[8].split("|"))
    numbers = (head for head in (columns[6], *enhanced) if _UD_NUMBER.fullmatch(head))
    return [int(head) for head in numbers if head.isdecimal()]


def _reached(number: int, above: Mapping[int, Sequence[int]]) -> set[int]:
    """Return the numbers of all words on which a word depends, directly or indirectly.

    Args:
        number: Number of the word.
        above: For each word's number, the numbers of the words that are its heads.
    """
    found, waiting = set[int](), [*above[number]]
    while waiting:
        head = waiting.pop()
        if head not in found:
            found.add(head)
            waiting += above.get(head, ())
    return found - {number}
