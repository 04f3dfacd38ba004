"""Read line-based text formats: CoNLL columns, tagged words, PubTator and labelled texts."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.custom_data.annotations import pubtator_rows
from benchharness.extensions.custom_data.columns import Table
from benchharness.extensions.custom_data.documents import objects_table
from benchharness.extensions.custom_data.inception import webanno_rows
from benchharness.extensions.custom_data.tags import is_entity_tag
from benchharness.tasks.sources.formats import DOCUMENT, Word, fields_of, sentences_of
from benchharness.tasks.sources.source import Place

# CoNLL files: columns that are numbered from 1, one word per line, empty lines between sentences.

CONLLU, NO_WORD = 10, re.compile(r"\d+[-.]\d+")
"""CONLLU is the number of columns in CoNLL-U, whose second column has the word and whose fourth
column has its part of speech. NO_WORD is the pattern of the first column in lines that are not
plain words: contractions ("3-4") and words that the text lacks ("3.1").
"""


def read_conll(path: Place, text: str) -> Table:
    """Read a CoNLL file, which has one word per line and an empty line after each sentence.

    A row of the table is a sentence. The columns "1", "2", ... contain lists with one value per
    word, in the order of the columns in the file. Comment lines are skipped, and a note reports
    this unless the file is CoNLL-U. Lines that begin a document (-DOCSTART-) are skipped too.

    Raises DataError if the lines have different numbers of fields, or only one field.
    """
    rows: list[tuple[str, Any]] = []
    lines = text.split("\n")
    comments = _comments(lines)
    # Comments become empty lines, which keep the numbers of the lines below.
    kept = ("" if number in comments else line for number, line in enumerate(lines))
    width = 0
    for found in sentences_of(kept):
        # In CoNLL-U, some lines are not words of the text: contractions, whose words are in the
        # following lines, and words that the text omits.
        words = [
            w for w in found if len(w.columns) != CONLLU or not NO_WORD.fullmatch(w.columns[0])
        ]
        if not words or words[0].columns[0] == DOCUMENT:
            continue
        width = width or len(words[0].columns)
        for word in words:
            _check_word(path, word, width)
        columns = {str(at + 1): [fields[at] for _, fields in words] for at in range(width)}
        rows.append((str(words[0].line), columns))
    said = f"lines of {path.name} that begin with # are read as comments: {len(comments)}"
    table = objects_table(path, rows, "line")
    return replace(table, is_conll=True, notes=(said,) if comments and width != CONLLU else ())


def _check_word(path: Place, word: Word, width: int) -> None:
    number, fields = word
    if len(fields) != width or width == 1:
        expected = f"{width}, as in the lines before" if width > 1 else "a word and its tag"
        raise DataError(
            f"{path.name} line {number} has {len(fields)} field"
            f"{'' if len(fields) == 1 else 's'}: expected {expected}."
        )


def _comments(lines: Sequence[str]) -> set[int]:
    """Return the indices of comment lines, which begin with "#" and precede a sentence.

    A hash may also be a word. Its line then has as many columns as other lines, and ends in a tag
    that they have.
    """
    fields = [fields_of(line) for line in lines]
    words = [found for found in fields if found and not found[0].startswith("#")]
    width = Counter(map(len, words)).most_common(1)[0][0] if words else 0
    tags = {found[-1] for found in words if len(found) == width}
    hashes = [found[-1] for found in fields if found and found[0] == "#" and len(found) == 2]
    # A tag that occurs only after hashes is accepted too, if there are more than three hashes and
    # more than a third of them have it.
    tags |= {tag for tag, count in Counter(hashes).items() if count > len(hashes) / 3 > 1}
    comments: set[int] = set()
    is_first = True
    for number, found in enumerate(fields):
        if is_first and found and found[0].startswith("#"):
            is_tag = found[-1] in tags or found[-1] == "#" or is_entity_tag(found[-1])
            if len(found) != width or not (is_tag or "\t" in lines[number]):
                comments.add(number)
        is_first = not found or (is_first and number in comments)
    return comments


def read_webanno(path: Place, text: str) -> Table:
    """Read the sentences of a WebAnno TSV file, as described in `webanno_table`."""
    return webanno_table(path, {path.name: text})


def webanno_table(path: Place, documents: Mapping[str, str]) -> Table:
    """Read the sentences of WebAnno TSV files, which WebAnno and INCEpTION export.

    A row of the table is a sentence with the columns "words" and "tags". The tags encode the
    annotated spans. If several layers have spans, there is a column of tags for each layer.

    Args:
        path: The file or folder, for messages.
        documents: The texts of the files, keyed by name.

    Raises:
        DataError: The files have no annotated spans, or spans overlap.
    """
    rows, notes = webanno_rows(path.name, documents)
    table = replace(objects_table(path, rows, "line"), notes=notes)
    return replace(table, made=("words", "tags", "")) if "tags" in table.columns else table


# fastText: the labels of a line before its text.

FASTTEXT = "__label__"
"""Prefix of a label in fastText's format."""


_AT = re.compile(r"(.*\S)\s*@(\w{1,30})\s*")
_MOST_AT = 20


def ends_in_labels(text: str) -> bool:
    """Return whether each line ends in "@" and a label, as in the Financial PhraseBank.

    There must be 2 to 20 different labels, and at least three lines per label on average.
    """
    labels: Counter[str] = Counter()
    for line in filter(str.strip, text.split("\n")):
        found = _AT.fullmatch(line)
        if found is None or len(labels) > _MOST_AT:  # usually decided by the first line
            return False
        labels[found[2]] += 1
    return 1 < len(labels) <= min(_MOST_AT, labels.total() // 3)


def read_at(path: Place, text: str) -> Table:
    """Read a row from each line: the text before the last "@", and the label after the "@"."""
    found = [(str(n), _AT.fullmatch(line)) for n, line in enumerate(text.split("\n"), start=1)]
    rows = [(n, {"text": match[1], "label": match[2]}) for n, match in found if match]
    return objects_table(path, rows, "line")


def read_fasttext(path: Place, text: str) -> Table:
    """Read a row from each line: its labels, which begin with "__label__", and its other words."""
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if words := line.split():
            labels = [word.removeprefix(FASTTEXT) for word in words if word.startswith(FASTTEXT)]
            plain = " ".join(word for word in words if not word.startswith(FASTTEXT))
            rows.append((str(number), {"text": plain, "label": labels}))
    return objects_table(path, rows, "line")


# Sentences in which each word is followed by its tag: "the_DT dog_NN", "the/DT dog/NN".

MOST_TAGS, NEARLY_ALL = 100, 0.95
"""A file contains tagged words only if its beginning has at most MOST_TAGS different tags, and if
at least the share NEARLY_ALL of the words there have a tag.
"""

# Tags of Penn and Universal Dependencies, punctuation, and tags of spans. Tags in lower case, as in
# the Brown corpus, are allowed only after a slash: after an underscore they would match words in
# snake_case.
_TAG = r"[A-Z][A-Z0-9$+*|-]*|[BIESLUO]-\S+|[^\w\s]+|-[A-Z]+-"
_TAGS = {"_": re.compile(_TAG), "/": re.compile(rf"{_TAG}|[a-z][a-z0-9$+*-]*")}


def sign_of_tags(text: str) -> str:
    """Return the separator between words and tags ("_" in "dog_NN", "/" in "dog/NN").

    Only the first 20,000 characters are examined. Returns "" unless nearly all words in them have a
    tag, the number of different tags is small, and a line has two or more words on average.
    """
    words = text[:20_000].rpartition("\n")[0].split()
    lines = sum(bool(line.strip()) for line in text[:20_000].split("\n")[:-1])
    fitting = {sign: tags for sign in _TAGS if (tags := _tags_behind(words, sign))}
    if not fitting or len(words) < 2 * lines:
        return ""
    return min(fitting, key=lambda sign: len(fitting[sign]))


def _tags_behind(words: Sequence[str], sign: str) -> set[str]:
    """Return the tags after a separator; empty if too few words have one, or tags vary too much."""
    parts = [word.rpartition(sign) for word in words]
    tags = [tag for word, _, tag in parts if word and _TAGS[sign].fullmatch(tag)]
    is_whole = len(tags) >= NEARLY_ALL * len(words)
    # A tagged text has at least as many different words as tags, and five words or more per tag.
    is_few = len({*tags}) <= min(MOST_TAGS, len(words) / 5, len({word for word, _, _ in parts}))
    return {*tags} if is_whole and is_few else set()


def read_tagged(path: Place, text: str) -> Table:
    """Read a sentence from each line, in which each word is followed by its tag ("dog_NN").

    A row of the table has a list of words and a list of tags. Raises DataError for a word without a
    tag.
    """
    sign, rows = sign_of_tags(text), []
    for number, line in enumerate(text.split("\n"), start=1):
        parts = [word.rpartition(sign) for word in line.split()]
        if bare := [
            f"{w}{s}{tag}" for w, s, tag in parts if not (w and _TAGS[sign].fullmatch(tag))
        ]:
            raise DataError(
                f"{path.name} line {number} has no tag after {bare[0][:60]!r}: expected a tag "
                f"after the last {sign!r} of each word."
            )
        if parts:
            words, _, tags = zip(*parts, strict=True)
            rows.append((str(number), {"words": [*words], "tags": [*tags]}))
    return objects_table(path, rows, "line")


# PubTator's documents: a title, an abstract, and their marked spans.

PUBTATOR = re.compile(r"\s*[^|\s]+\|t\|")
"""Pattern of the beginning of a PubTator file, such as "123|t|"."""


def read_pubtator(path: Place, text: str) -> Table:
    """Read a PubTator file into a table with a row per document.

    The text of a row is the title and the abstract of the document. The column "entities" has the
    marked spans. Relations are left out, with a note.

    Raises DataError if a line is malformed.
    """
    rows, left = pubtator_rows(path.name, text)
    said = (f"left out of {path.name}: {left} relations",) if left else ()
    return replace(objects_table(path, rows, "document"), notes=said)


LINES: Mapping[str, Callable[[str], Any]] = {
    "fasttext": lambda text: text.lstrip().startswith(FASTTEXT),
    "pubtator": PUBTATOR.match,
    "at": ends_in_labels,
    "tagged": sign_of_tags,
}
"""Functions that recognize layouts of plain text, keyed by the name of the layout. A function takes
the text of a file and returns a true value if the text has its layout.
"""
