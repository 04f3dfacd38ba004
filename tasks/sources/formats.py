"""Read official files as they were released, with a reader for each format.

Byte order marks, and carriage returns before line feeds, are not part of a text.
"""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from types import MappingProxyType
from typing import Any, NamedTuple

from benchharness.errors import DataError, first_line
from benchharness.tasks.sources.source import Column, Format, Place, Row, Source, Split


class OfficialFiles(NamedTuple):
    """Files of one split; in some formats, such as RACE's, a split has several."""

    source: Source
    split: Split
    paths: tuple[Place, ...]


class Record(NamedTuple):
    """A row's columns as the file has them; `place` is the file and line for errors."""

    place: str
    fields: Mapping[str, object]


# Official files as text: UTF-8, lines that end at a line feed, no byte order mark.


def content_of(path: Place) -> bytes:
    """Return a file's bytes; raise DataError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_text(path: Place) -> str:
    """Return a file's text without a byte order mark; raise DataError if it is not UTF-8."""
    content = content_of(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path} line {line} is not UTF-8 text: get the official file.") from error


def read_lines(path: Place) -> list[str]:
    """Return a file's lines without a carriage return at their end.

    Only a line feed ends a line: a sentence may contain any other line break of Unicode.
    """
    text = read_text(path)
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


# Tables: GLUE's tab-separated files, where quotes are text, and SWAG's quoted CSV.
#
# "NA" and "null" are text in both.

Line = tuple[int, list[str]]
"""Number of a line, from 1, and its fields."""


def tsv_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the rows of a tab-separated file, one per line."""
    lines = enumerate(read_lines(files.paths[0]), start=1)
    return _records(files, [(n, line.split("\t")) for n, line in lines])


def csv_records(files: OfficialFiles, delimiter: str = ",") -> Iterator[Record]:
    """Read the rows of a comma-separated file with quotes; quoted fields may hold line breaks."""
    path = files.paths[0]
    # newline="" keeps line breaks within quotes as they are. A row that has some gets the number
    # of its last line.
    reader = csv.reader(StringIO(read_text(path), newline=""), strict=True, delimiter=delimiter)
    try:
        table = [(reader.line_num, fields) for fields in reader]
    except csv.Error as error:
        raise DataError(
            f"{path} line {reader.line_num} is not CSV ({error}): get the official file."
        ) from error
    return _records(files, table)


def _records(files: OfficialFiles, table: Sequence[Line]) -> Iterator[Record]:
    """Yield the rows of a table; raise DataError for a line of another length than the first."""
    source, split, (path, *_) = files
    # Before any row is read: QQP's first release has broken lines, whose columns are shifted.
    for number, fields in table:
        if len(fields) != len(table[0][1]):
            raise DataError(
                f"{path} line {number} has {len(fields)} fields where the first line has "
                f"{len(table[0][1])}: the file is damaged or is an old release, get the official "
                "one."
            )
    columns = source.columns if split.columns is None else split.columns
    # CoLA's training file has no header, and its columns are indices: {"sentence": 3, "label": 1}.
    has_header = not all(isinstance(column, int) for column in columns.values())
    header = table[0][1] if has_header and table else None
    where = _positions(path, columns, header, source.may_lack(split))
    for number, fields in table[has_header:]:
        place = f"{path} line {number}"
        row: dict[str, object] = {}
        for name, position in where.items():
            if position is not None and position >= len(fields):
                raise DataError(f"{place} has {len(fields)} fields, too few for the {name}.")
            row[name] = None if position is None else fields[position]
        yield Record(place, row)


def _positions(
    path: Place, columns: Mapping[str, Column], header: list[str] | None, optional: tuple[str, ...]
) -> dict[str, int | None]:
    """Return each column's index in a line, None for an optional column that is missing.

    Raises DataError if another column is missing.
    """
    where: dict[str, int | None] = {}
    for name, column in columns.items():
        known = header or []
        names = column if isinstance(column, tuple) else (column,)
        # Releases name one column differently: the first of the known names that exists counts.
        places = [
            n if isinstance(n, int) else known.index(n)
            for n in names
            if isinstance(n, int) or n in known
        ]
        where[name] = next(iter(places), None)
        if not places and name not in optional:
            found = ", ".join(header) if header else "an empty file"
            raise DataError(f"{path} line 1 names no column {column!r}, the {name}: found {found}.")
    return where


def parse_object(text: str, place: str) -> dict[str, Any]:
    """Parse a text as a JSON object; raise DataError for anything else."""
    found: dict[str, Any] = _parsed(text, place, dict, "an object")
    return found


def _parsed(text: str, place: str, kind: type, noun: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON ({error}): get the official file.") from error
    if not isinstance(found, kind):
        raise DataError(f"{place} is JSON, but not {noun}: found {type(found).__name__}.")
    return found


def value(document: Any, key: str, place: str) -> Any:
    """Return an object's value of `key`; raise DataError if it lacks the key or is no object."""
    if not isinstance(document, dict) or key not in document:
        found = ", ".join(document) if isinstance(document, dict) else type(document).__name__
        raise DataError(f"{place} has no {key!r}: found {found or 'an empty object'}.")
    return document[key]


def items(document: Any, key: str, place: str) -> list[Any]:
    """Return an object's list at `key`; raise DataError if it has none."""
    found = value(document, key, place)
    if not isinstance(found, list):
        raise DataError(f"{place} has no list {key!r}: found {type(found).__name__}.")
    return found


def _lists(found: Sequence[Any], place: str, keys: Mapping[str, str]) -> dict[str, list[Any]]:
    """Return a list per column, with the values of the column's key in all objects."""
    return {column: [value(each, key, place) for each in found] for column, key in keys.items()}


# JSON lines, as SuperGLUE and SNLI are released: an object per line, some with several rows.


def jsonl_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the rows of files of JSON objects; columns are keys, dotted for nested objects."""
    source, split, paths = files
    optional = source.may_lack(split)
    lines = ((path, *line) for path in paths for line in enumerate(read_lines(path), start=1))
    for path, number, line in lines:
        place = f"{path} line {number}"
        for part in _unfolded(source, parse_object(line, place), place):
            fields = {
                name: _find(part, column, name, place, optional=name in optional)
                for name, column in source.columns.items()
            }
            yield Record(place, fields)


def _unfolded(
    source: Source, document: Mapping[str, Any], place: str
) -> Iterable[Mapping[str, Any]]:
    if source.unfold is None:
        return (document,)
    try:
        return list(source.unfold(document))
    except (KeyError, TypeError, AttributeError) as error:
        reason = first_line(error)
        raise DataError(f"{place} is not laid out like the official file: {reason}.") from error


def _find(
    document: Mapping[str, Any], column: Column, name: str, place: str, *, optional: bool
) -> object:
    for path in (column,) if isinstance(column, str | int) else column:
        found: object = document
        # "idx.paragraph" is the 7 in {"idx": {"paragraph": 7}}. A null counts as found: only if a
        # key is absent the next name is tried.
        for key in str(path).split("."):
            found = found.get(key, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        if found is not _ABSENT:
            return found
    if optional:
        return None
    raise DataError(f"{place} has no {column!r}, the {name}: found {', '.join(document)}.")


_ABSENT = object()


# Minimal pairs: a file for each group of them.

FILE = "file"
"""Column with the name of a row's file, without its ending."""


def pair_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the pairs of all files: JSON lines, tables with tabs, or alternating sentences (Zorro).

    All tables have the same name, so FILE is the name of their folder (MultiBLiMP: "nld/data.tsv").
    """
    for path in files.paths:
        name, _, ending = path.name.rpartition(".")
        one = files._replace(paths=(path,))
        if ending == "tsv":
            name, records = path.parent.name, csv_records(one, "\t")
        else:
            records = jsonl_records(one) if ending == "jsonl" else _turns(path)
        for place, fields in records:
            yield Record(place, {**fields, FILE: name})


def _turns(path: Place) -> Iterator[Record]:
    lines = read_lines(path)  # two per pair, the unacceptable sentence first
    if len(lines) % 2:
        raise DataError(f"{path} has {len(lines)} lines, expected a pair of them for each example.")
    for number in range(0, len(lines), 2):
        fields = {"bad": lines[number], "good": lines[number + 1]}
        yield Record(f"{path} line {number + 1}", fields)


# SQuAD's JSON: articles of paragraphs of questions, with a row per question.


def squad_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the questions in the file's order; `answers.text` and `answers.answer_start` are lists.

    Raises DataError if the file has the other version of SQuAD, whatever its name.
    """
    source, _, (path, *_) = files
    document = parse_object(read_text(path), str(path))
    marks = set[bool | None]()
    has_titles = "title" not in source.optional
    for record, mark in squad_questions(document, str(path), has_titles=has_titles):
        marks.add(mark)
        yield record
    # Version 2.0 marks every question, and 1.1 none, which gives {None}.
    if source.no_answer is True and marks == {None}:
        raise DataError(
            f"{path} holds SQuAD 1.1: every question has an answer, and none says is_impossible. "
            "Get the official file of SQuAD 2.0, or take --task squad/v1.1."
        )
    if source.no_answer is False and True in marks:
        raise DataError(
            f"{path} holds SQuAD 2.0: it has questions without an answer. Get the "
            "official file of SQuAD 1.1, or take --task squad/v2.0."
        )


def squad_questions(
    document: Mapping[str, Any], name: str, *, has_titles: bool = True
) -> Iterator[tuple[Record, bool | None]]:
    """Yield the questions of a file's articles, with their marks as impossible (`_questions`)."""
    for number, article in enumerate(items(document, "data", name)):
        place = f"{name} article {number}"
        title = value(article, "title", place) if has_titles else ""
        for position, paragraph in enumerate(items(article, "paragraphs", place)):
            yield from _questions(paragraph, title, f"{place} paragraph {position}")


def _questions(paragraph: Any, title: str, place: str) -> Iterator[tuple[Record, bool | None]]:
    """Yield the questions of a paragraph, and whether each is impossible to answer.

    This is None if a question with answers does not have the mark, as in version 1.1.
    """
    context = value(paragraph, "context", place)
    for question in items(paragraph, "qas", place):
        name = value(question, "id", place)
        where = f"{place} question {name}"
        answers = items(question, "answers", where)
        fields = {
            "id": name,
            "title": title,
            "context": context,
            "question": value(question, "question", where),
            **_lists(
                answers, where, {"answers.text": "text", "answers.answer_start": "answer_start"}
            ),
        }
        # A question without answers is impossible, even if the file does not mark it.
        mark = question.get("is_impossible", None if answers else True)
        yield Record(where, fields), mark if mark is None else bool(mark)


# QuAC's, CoQA's and HotpotQA's JSON, with the columns that the hub has: a dialog, a story or a
# question is a record. A list of objects in a file becomes parallel lists, one per key.


def quac_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the dialogs in the file's order; the lists of a dialog cover all of its questions."""
    keys = {"turn_ids": "id", "questions": "question", "followups": "followup", "yesnos": "yesno"}
    for path, where, article in _articles(files):
        for dialog in items(article, "paragraphs", where):
            name = value(dialog, "id", where)
            place = f"{path} dialog {name}"
            asked = items(dialog, "qas", place)
            answers = [items(question, "answers", place) for question in asked]
            fields = {
                "dialogue_id": name,
                "wikipedia_page_title": value(article, "title", where),
                "context": value(dialog, "context", place),
                **_lists(asked, place, keys),
            }
            # Every question has answers of several people: lists of lists, as on the hub.
            for key in ("text", "answer_start"):
                found = [[value(each, key, place) for each in several] for several in answers]
                fields[f"answers.{key}s"] = found
            yield Record(place, fields)


def _articles(files: OfficialFiles, noun: str = "article") -> Iterator[tuple[Place, str, Any]]:
    """Yield the items of a file's list "data", each after the file's path and the item's place."""
    path = files.paths[0]
    document = parse_object(read_text(path), str(path))
    for number, article in enumerate(items(document, "data", str(path))):
        yield path, f"{path} {noun} {number}", article


def coqa_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the conversations in the file's order."""
    answer = ("input_text", "span_start", "span_end", "turn_id")
    for path, where, story in _articles(files, "conversation"):
        place = f"{path} conversation {value(story, 'id', where)}"
        fields = {name: value(story, name, place) for name in ("id", "source", "story")}
        others = story.get("additional_answers") or {}
        lists = {
            "questions": (items(story, "questions", place), ("input_text", "turn_id")),
            "answers": (items(story, "answers", place), answer),
        }
        # Answers of further people, which the training file lacks.
        for name in ("0", "1", "2"):
            found = items(others, name, place) if name in others else []
            lists[f"additional_answers.{name}"] = found, ("input_text",)
        for name, (found, keys) in lists.items():
            fields |= _lists(found, place, {f"{name}.{key}": key for key in keys})
        yield Record(place, fields)


def hotpotqa_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the questions in the file's order, each with its paragraphs as lists of sentences."""
    path = files.paths[0]
    for number, question in enumerate(_parsed(read_text(path), str(path), list, "a list")):
        place = f"{path} question {value(question, '_id', f'{path} question {number}')}"
        fields = {name: value(question, name, place) for name in ("question", "answer", "type")}
        fields["id"] = question["_id"]
        # "supporting_facts" [["Oslo", 0], ["Rome", 2]] are the lists ["Oslo", "Rome"], [0, 2].
        columns = {"supporting_facts": ("title", "sent_id"), "context": ("title", "sentences")}
        for key, names in columns.items():
            pairs = items(question, key, place)
            if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
                raise DataError(
                    f"{place} has a {key} that is no list of pairs: get the official file."
                )
            fields |= {f"{key}.{name}": [p[at] for p in pairs] for at, name in enumerate(names)}
        yield Record(place, fields)


# RACE's folders: a JSON file per passage, with parallel lists of questions, options and answers.


def race_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the questions of every passage; `example_id` is that of the passage ("high12.txt")."""
    for path in files.paths:
        place = str(path)
        passage = parse_object(read_text(path), place)
        article = value(passage, "article", place)
        questions = items(passage, "questions", place)
        options, answers = items(passage, "options", place), items(passage, "answers", place)
        if not len(questions) == len(options) == len(answers):
            raise DataError(
                f"{place} has {len(questions)} questions, {len(options)} lists of options and "
                f"{len(answers)} answers; expected as many of each."
            )
        for number, question in enumerate(questions):
            fields = {
                # "high/12.txt" is "high12.txt", as the hub has it.
                "example_id": f"{path.parent.name}{path.name}".lower(),
                "article": article,
                "question": question,
                "options": options[number],
                "answer": answers[number],
            }
            yield Record(f"{place} question {number}", fields)


# CoNLL's columns: a word per line with its tags, an empty line after each sentence.

DOCUMENT = "-DOCSTART-"


class Word(NamedTuple):
    """Number of a line, from 1, and its columns."""

    line: int
    columns: list[str]


def fields_of(line: str) -> list[str]:
    """Return the columns of a line, at tabs if it has any, else at blanks.

    Only ASCII blanks separate columns: a word may contain any other and, in a line with tabs, also
    ASCII blanks.
    """
    line = line.strip(" \r\f\v")
    if "\t" in line:
        return [field.strip(" ") for field in line.split("\t")] if line.strip("\t ") else []
    return [field for field in line.split(" ") if field]


def sentences_of(lines: Iterable[str], separator: str | None = None) -> Iterator[list[Word]]:
    """Yield the words of each sentence, up to an empty line; a document line is alone in a list.

    Lines are split by `fields_of` unless a `separator` is given.
    """
    sentence: list[Word] = []
    # One more empty line, which ends the last sentence.
    for number, line in enumerate([*lines, ""], start=1):
        columns = fields_of(line) if separator is None else line.split(separator) if line else []
        if columns and columns[0] != DOCUMENT:
            sentence.append(Word(number, columns))
            continue
        if sentence:
            yield sentence
            sentence = []
        if columns:
            yield [Word(number, columns)]


def conll_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the sentences: the first column is the word, and the last one its entity tag.

    Lines that begin a document are not words; `document` is how many of them precede the sentence.
    """
    source, path, document = files.source, files.paths[0], 0
    for sentence in sentences_of(read_lines(path)):
        if sentence[0].columns[0] == DOCUMENT:
            document += 1
            continue
        # "EU NNP I-NP I-ORG": only the first and the last column are read.
        for number, columns in sentence:
            place, tag = f"{path} line {number}", columns[-1]
            if len(columns) == 1:
                raise DataError(f"{place} has the word {tag!r} and no tag.")
            if tag not in source.label_names:
                expected = ", ".join(source.label_names)
                raise DataError(f"{place} has the tag {tag!r}; expected one of {expected}.")
        words, tags = [w.columns[0] for w in sentence], [w.columns[-1] for w in sentence]
        fields = {"tokens": words, source.label: tags, "document": document}
        yield Record(f"{path} line {sentence[0].line}", fields)


# Universal Dependencies' ten columns: number, form, lemma, part of speech, ..., head, relation,
# enhanced heads. As in XTREME a fused word ("3-4 zum") replaces its parts, with the tag of the part
# nearest to the root (google-research/xtreme third_party/ud-conversion-tools).

_UD_ORDER = "VERB NOUN PROPN PRON ADJ NUM ADV INTJ AUX ADP DET PART CCONJ SCONJ X PUNCT"
_UD_ORDERS = {
    "es": "VERB AUX PRON ADP DET",
    "fr": "VERB AUX PRON NOUN ADJ ADV ADP DET PART SCONJ CONJ",
    "it": "VERB AUX ADV PRON ADP DET INTJ",
}
"""Preferred order of the tags of a fused word if several parts are equally near to the root, by the
language of the treebank."""

_UD_NUMBER = re.compile(r"\d{1,9}([-.]\d{1,9})?", re.ASCII)


def conllu_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the sentences of all treebanks: `tokens`, and the universal tag of each."""
    source = files.source
    for path in files.paths:
        order = _UD_ORDERS.get(path.name.partition("_")[0], _UD_ORDER).split()
        lines = ("" if line.startswith("#") else line for line in read_lines(path))
        for words in sentences_of(lines, "\t"):
            place = f"{path} line {words[0].line}"
            for number, columns in words:
                if len(columns) != 10:
                    raise DataError(
                        f"{path} line {number} has {len(columns)} columns, expected the 10 of "
                        "CoNLL-U: get the treebanks of Universal Dependencies."
                    )
                if not _UD_NUMBER.fullmatch(columns[0]):
                    raise DataError(
                        f"{path} line {number} has the number {columns[0]!r:.40}, expected one "
                        "such as 3, 3-4 of a fused word, or 3.1 of one that is not written."
                    )
            forms, tags = zip(*_fused([word.columns for word in words], order, place), strict=True)
            if unknown := sorted({*tags} - {*source.label_names}):
                expected = ", ".join(source.label_names)
                raise DataError(f"{place} has the tag {unknown[0]!r}; expected one of {expected}.")
            yield Record(place, {"tokens": list(forms), source.label: list(tags)})


def _fused(
    words: Sequence[Sequence[str]], order: Sequence[str], place: str
) -> Iterator[tuple[str, str]]:
    """Yield the forms and tags of a sentence, with fused words instead of their parts."""
    parts = {int(columns[0]): columns for columns in words if columns[0].isdecimal()}
    if not parts:
        raise DataError(f"{place} is a sentence without words: get the treebanks of UD.")
    spans = [(*columns[0].split("-"), columns[1]) for columns in words if "-" in columns[0]]
    fused = {int(first): (int(last), form) for first, last, form in spans}
    end = 0
    for number, columns in parts.items():
        if number <= end:
            continue
        end, form = fused.get(number, (number, columns[1]))
        tag = columns[3] if end == number else _tag_of(range(number, end + 1), parts, order)
        # Blanks and zero-width non-joiners within a word are dropped, as in utils_preprocess.py.
        yield form.strip().replace("\u200c", "").replace(" ", ""), tag


def _tag_of(span: range, parts: Mapping[int, Sequence[str]], order: Sequence[str]) -> str:
    """Return the tag of the part that depends on fewest words; of several the first in `order`."""
    above = {number: _heads(columns) for number, columns in parts.items()}
    depths = {part: len(_reached(part, above)) for part in span if part in parts}
    tags = [parts[part][3] for part, depth in depths.items() if depth == min(depths.values())]
    return min(tags, key=lambda tag: order.index(tag) if tag in order else len(order))


def _heads(columns: Sequence[str]) -> list[int]:
    """Return the numbers of a word's head and of the heads in its enhanced dependencies."""
    enhanced = (each.partition(":")[0] for each in columns[8].split("|"))
    numbers = (head for head in (columns[6], *enhanced) if _UD_NUMBER.fullmatch(head))
    return [int(head) for head in numbers if head.isdecimal()]


def _reached(number: int, above: Mapping[int, Sequence[int]]) -> set[int]:
    """Return the numbers of all words on which a word depends, directly or indirectly."""
    found, waiting = set[int](), [*above[number]]
    while waiting:
        head = waiting.pop()
        if head not in found:
            found.add(head)
            waiting += above.get(head, ())
    return found - {number}


# CoNLL-2012's columns: a word per line with twelve columns and one more for each proposition of its
# sentence, in documents of one or more parts. A row is a document, in the hub's layout.
#
# https://conll.cemantix.org/2012/data.html

# The line of a predicate in a sentence without others:
#     bc/mini/00/dev_0000 0 1 closed XX * close 01 - - * (V*) -
BEGIN, END = "#begin document", "#end document"
NO_WORD = "[WORD]"
"""Placeholder for words in the skeletons of the shared task, which lack the words because of their
license (LDC)."""

FIRST_PROPOSITION = 11
"""Index of the first proposition's column. The columns before it are document, part, number, word,
part of speech, parse, lemma, frameset, sense, speaker and named entity; the one after the last
proposition has the coreference chains."""


def conll2012_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the documents of all files; the parts of one, which follow each other, are one record.

    Every sentence has its `words`, its `part_id`, the `speaker` of its first word, `srl_frames` of
    IOB2 tags, and `coref_spans`, each [chain, first word, last word].
    """
    for path in files.paths:
        documents: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        for place, lines in _sentences(path):
            _, sentences = documents.setdefault(lines[0][0], (place, []))
            sentences.append(_sentence(lines, place))
        for name, (place, sentences) in documents.items():
            yield Record(place, {"document_id": name, "sentences": sentences})


def _sentences(path: Place) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the place of each sentence, and the columns of its lines."""
    # Document lines become empty lines, which end sentences and keep the numbers of the lines
    # below.
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
            f"{place} has {len(columns)} columns, expected the {FIRST_PROPOSITION + 1} or more of "
            "CoNLL-2012: get the official *_conll file."
        )
    if columns[3] == NO_WORD:
        raise DataError(
            f"{place} is of a skeleton without words: make the *_conll files of it with the shared "
            "task's skeleton2conll.sh and OntoNotes (LDC2013T19)."
        )
    if before and len(columns) != len(before[0]):
        raise DataError(
            f"{place} has {len(columns)} columns where its sentence begins with {len(before[0])}."
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
    """Return the IOB2 tags of a proposition: "(ARG0*", "*", "*)" are B-ARG0, I-ARG0, I-ARG0.

    Raises DataError for a malformed argument.
    """
    tags, role = [], ""
    for cell in column:
        # "(ARG0*)" begins and ends an argument, "(ARG0*" begins one, "*)" ends it, and "*" is
        # inside or outside. Arguments of a column are never nested.
        before, star, after = cell.partition("*")
        name = before.removeprefix("(")
        if not star or after not in ("", ")") or "(" in name or (name and role):
            raise DataError(f"{place} has the argument {cell!r}, expected one such as '(ARG0*'.")
        prefix = "B" if name else "I"
        role = name or role
        if after and not role:
            raise DataError(f"{place} has the argument {cell!r}, which ends none.")
        tags.append(f"{prefix}-{role}" if role else "O")
        role = "" if after else role
    if role:
        raise DataError(f"{place} has an argument {role} that does not end.")
    return tags


MARK = re.compile(r"\(\d{1,9}\)?|\d{1,9}\)", re.ASCII)
"""Pattern of a chain's mark: a mention begins, begins and ends, or ends."""


def chain_mentions(column: Sequence[str], place: str) -> Iterator[list[int]]:
    """Yield a column's mentions as [chain, first word, last word]: [7, 0, 2] for "(7", "-", "7)".

    Bars separate several marks of a word. As in scorer.pl a word's begins are read before its ends:
    in "7)|(7" the end belongs to the mention that begins there. Mentions come in the order in which
    scorer.pl reads their begins, at each word those of one word first, because its index keeps the
    later of two chains with one mention.

    Raises DataError for a malformed or unbalanced mark.
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
                # Of a chain's nested mentions the innermost ends first.
                begun[chain].pop()[2] = word
            else:
                raise DataError(f"{place} has the coreference {cell!r}, which ends none.")
    if left := [chain for chain, words in begun.items() if words]:
        raise DataError(f"{place} has a mention of chain {left[0]} that does not end.")
    yield from found


# The rows of a split: its records, with labels as names.

Reader = Callable[[OfficialFiles], Iterable[Record]]

READERS: Mapping[Format, Reader] = MappingProxyType(
    {
        "tsv": tsv_records,
        "csv": csv_records,
        "jsonl": jsonl_records,
        "squad": squad_records,
        "race": race_records,
        "conll": conll_records,
        "conll2012": conll2012_records,
        "conllu": conllu_records,
        "quac": quac_records,
        "coqa": coqa_records,
        "hotpotqa": hotpotqa_records,
        "pairs": pair_records,
    }
)


def file_rows(files: OfficialFiles) -> list[Row]:
    """Return the rows of one split; raise DataError if its files are malformed."""
    records = READERS[files.source.format](files)
    return [_row(files.source, files.split, record) for record in records]


def _row(source: Source, split: Split, record: Record) -> Row:
    if source.label not in source.columns:
        return record.fields
    if split.hidden:
        return {**record.fields, source.label: None}
    return {**record.fields, source.label: _label(source, split, record)}


def _label(source: Source, split: Split, record: Record) -> object:
    """Return a record's label: a name, a number if the source names no labels, or None for none.

    A list of labels already consists of names. Raises DataError for an unknown label.
    """
    value = record.fields[source.label]
    may_lack = source.label in source.may_lack(split)
    if (value is None and may_lack) or (value is not None and value == source.unlabelled):
        return None
    if isinstance(value, list):
        return value
    if not source.label_names:
        try:
            return float(str(value))
        except ValueError:
            raise DataError(f"{record.place} has the label {value!r}; expected a number.") from None
    # "1" of CoLA's file is "acceptable"; MNLI's files have the names themselves.
    name = source.label_texts.get(str(value), str(value))
    if name not in source.label_names:
        expected = ", ".join(source.label_texts or source.label_names)
        raise DataError(f"{record.place} has the label {value!r}; expected one of {expected}.")
    return name
