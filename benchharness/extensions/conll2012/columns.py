"""Read CoNLL-2012's columns (https://conll.cemantix.org/2012/data.html).

There is one word per line, with twelve columns and one more per proposition (predicate with its
arguments) in its sentence. A document has one or more parts. A record is a document, with the same
fields as on the hub. This is the line of the predicate in a sentence with one proposition:

    bc/mini/00/dev_0000 0 1 closed XX * close 01 - - * (V*) -
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from benchharness.errors import DataError
from benchharness.tasks.sources.formats import (
    OfficialFiles,
    Record,
    read_lines,
    sentences_of,
)
from benchharness.tasks.sources.source import Place

BEGIN, END = "#begin document", "#end document"
"""Beginnings of the lines that begin and end a document."""
NO_WORD = "[WORD]"
"""Placeholder for words in the shared task's skeleton files, which lack the words because of the
licence of their publisher, the LDC.
"""

FIRST_PROPOSITION = 11
"""Index of the column with the first proposition. The columns before it are document, part, index
of the word in its sentence, word, part of speech, parse, lemma, frameset, sense, speaker and named
entity. The column after the last proposition has the coreference chains.
"""


def document_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the documents of a split; all parts of a document form one record.

    Every sentence has its `words`, its `part_id`, the `speaker` of its first word, `srl_frames`
    with the IOB2 tags of each predicate, and `coref_spans`, a list of [chain, first word, last
    word]. The indices of words count from 0 in the sentence.

    Args:
        files: The official files of the split.

    Raises:
        DataError: A file is malformed.
    """
    for path in files.paths:
        documents: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        for place, lines in _sentences(path):
            _, sentences = documents.setdefault(lines[0][0], (place, []))
            sentences.append(_sentence(lines, place))
        for name, (place, sentences) in documents.items():
            yield Record(place, {"document_id": name, "sentences": sentences})


def _sentences(path: Place) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the location of each sentence, for error messages, and the columns of its lines."""
    # Lines that begin or end a document are replaced by empty lines, which end sentences, so that
    # line numbers stay the same.
    lines = ("" if line.startswith((BEGIN, END)) else line for line in read_lines(path))
    for sentence in sentences_of(lines):
        before: list[list[str]] = []
        for number, columns in sentence:
            _check_columns(columns, before, f"{path} line {number}")
            before.append(columns)
        yield f"{path} line {sentence[0].line}", before


def _check_columns(columns: list[str], before: list[list[str]], place: str) -> None:
    if len(columns) <= FIRST_PROPOSITION or not columns[1].isdecimal():
        raise DataError(
            f"{place} has {len(columns)} columns; expected CoNLL-2012's {FIRST_PROPOSITION + 1} or "
            "more columns. Get the official *_conll file."
        )
    if columns[3] == NO_WORD:
        raise DataError(
            f"{place} belongs to a skeleton file, which has no words: create the *_conll files "
            "with the shared task's skeleton2conll.sh and OntoNotes (LDC2013T19)."
        )
    if before and len(columns) != len(before[0]):
        raise DataError(
            f"{place} has {len(columns)} columns, but the first line of its sentence has "
            f"{len(before[0])}."
        )


def _sentence(lines: list[list[str]], place: str) -> dict[str, Any]:
    columns = list(zip(*lines, strict=True))
    return {
        "part_id": int(columns[1][0]),
        "words": list(columns[3]),
        "speaker": columns[9][0],
        "srl_frames": [
            {"frames": role_tags(column, place)} for column in columns[FIRST_PROPOSITION:-1]
        ],
        "coref_spans": list(chain_mentions(columns[-1], place)),
    }


def role_tags(column: Sequence[str], place: str) -> list[str]:
    """Convert the column of a proposition to IOB2 tags.

    For example, "(ARG0*", "*", "*)" is converted to B-ARG0, I-ARG0, I-ARG0.

    Args:
        column: The cell of each word.
        place: Location of the sentence, for error messages.

    Raises:
        DataError: An argument is malformed.
    """
    tags, role = [], ""
    for cell in column:
        # "(ARG0*)" begins and ends an argument, "(ARG0*" begins one, "*)" ends it, and "*" is
        # inside or outside of an argument. Arguments in a column are never nested.
        before, star, after = cell.partition("*")
        name = before.removeprefix("(")
        if not star or after not in ("", ")") or "(" in name or (name and role):
            raise DataError(f"{place} has the argument {cell!r}, expected one such as '(ARG0*'.")
        prefix = "B" if name else "I"
        role = name or role
        if after and not role:
            raise DataError(f"{place} has the argument {cell!r}, but no argument has begun.")
        tags.append(f"{prefix}-{role}" if role else "O")
        role = "" if after else role
    if role:
        raise DataError(f"{place} has an argument {role} that does not end.")
    return tags


MARK = re.compile(r"\(\d{1,9}\)?|\d{1,9}\)", re.ASCII)
"""Pattern of a mark in the coreference column: "(7" begins a mention of chain 7, "7)" ends one, and
"(7)" is a mention of one word.
"""


def chain_mentions(column: Sequence[str], place: str) -> Iterator[list[int]]:
    """Yield the mentions in a coreference column as [chain, first word, last word].

    For example, the cells "(7", "-" and "7)" contain the mention [7, 0, 2]. If several mentions
    begin or end at a word, bars separate their marks. As in scorer.pl, all marks that begin a
    mention are read before those that end one, so "7)|(7" is a mention of one word.

    Mentions are yielded in the order in which scorer.pl reads their beginnings; at each word,
    mentions of one word come first. The order matters because scorer.pl assigns a mention in two
    chains to the later chain.

    Args:
        column: The cell of each word.
        place: Location of the sentence or document, for error messages.

    Raises:
        DataError: A mark is malformed, or a mention does not begin or end.
    """
    begun: defaultdict[str, list[list[int]]] = defaultdict(list)
    found: list[list[int]] = []
    for word, cell in enumerate(column):
        marks = [] if cell in ("-", "_", "*") else cell.split("|")
        if not all(map(MARK.fullmatch, marks)):
            raise DataError(f"{place} has the coreference {cell!r}, expected one such as '(7'.")
        for mark in sorted(marks, key=lambda m: (not m.startswith("("), not m.endswith(")"))):
            chain = mark.strip("()")
            if mark.startswith("("):
                found.append([int(chain), word, word])
                begun[chain] += [found[-1]] if not mark.endswith(")") else []
            elif begun[chain]:
                # If mentions of a chain are nested, the innermost one ends first.
                begun[chain].pop()[2] = word
            else:
                raise DataError(
                    f"{place} has the coreference {cell!r}, but no mention of its chain has begun."
                )
    if left := [chain for chain, words in begun.items() if words]:
        raise DataError(f"{place} has a mention of chain {left[0]} that does not end.")
    yield from found
