"""Read the exports of INCEpTION and WebAnno: WebAnno TSV 3 and UIMA CAS JSON."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchharness.errors import DataError
from benchharness.extensions.custom_data.annotations import Numbered, characters_in

WEBANNO = "#FORMAT=WebAnno TSV"
CAS = re.compile(r'\s*\{\s*"%(?:HEADER|TYPES|FEATURE_STRUCTURES)"')
"""WEBANNO is the beginning of a file in WebAnno TSV, and CAS the pattern of the beginning of a file
in UIMA CAS JSON.
"""


def is_document(head: str) -> bool:
    """Return whether a text begins as a document that INCEpTION has exported."""
    return head.startswith(WEBANNO) or bool(CAS.match(head))


def _row_id(documents: Mapping[str, Any], name: str, number: int) -> str:
    return str(number) if len(documents) == 1 else f"{name}:{number}"


# WebAnno TSV.


class _Word(NamedTuple):
    """A word: the row id of its line, its text, and its cells, keyed by layer and feature."""

    place: str
    text: str
    marks: Mapping[tuple[str, str], str]


def webanno_rows(name: str, documents: Mapping[str, str]) -> tuple[Numbered, tuple[str, ...]]:
    """Read the sentences of WebAnno TSV 3 files, and encode the annotated spans as tags.

    The line of a word contains the number of the word ("1-2" is word 2 of sentence 1), its
    character offsets, the word, and a cell for each kind of annotation (feature). The cell is "_"
    outside of spans, "PER" for a span of one word, and "PER[1]" for each word of a longer span with
    the number 1.

    The features belong to layers, such as named entities and parts of speech. The tags of a layer
    encode the spans of only one feature: the first one that has labels, where features that are
    called "value" are tried first. Relations and chains are ignored.

    Args:
        name: The name of the file or folder, for messages.
        documents: The texts of the files, keyed by name.

    Returns:
        For each sentence, the id of its first line, and a dictionary with the list "words" and the
        list "tags". If several layers have labels, there is a list of tags for each of them instead
        of "tags". In addition, notes on layers and spans that were left out.

    Raises:
        DataError: The files have no layer of spans with labels, or two spans share a word.
    """
    sentences, parts = _sentences(documents)
    words = [word for sentence in sentences for word in sentence]
    layers = _labelled(words)
    if not layers:
        raise DataError(f"{name} has no annotated spans: export it with a layer of spans.")
    notes: list[str] = []
    for layer, key in [*layers.items()]:
        stacked = next((w for w in words if len(_kinds_of(w.marks.get(key, ""))) > 1), None)
        if stacked is not None and len(layers) == 1:
            raise DataError(
                f"{name} line {stacked.place} has two spans at the word {stacked.text!r}: remove "
                "one of them, because a word can have only one tag."
            )
        if stacked is not None:
            del layers[layer]
            notes.append(f"left out of {name}: the layer {layer}, because its spans overlap")
    if cut := sum(any(_kinds_of(w.marks.get(k, "")) for k in layers.values()) for w in parts):
        notes.append(f"left out of {name}: {cut} spans of parts of words")
    names = {"tags": min(layers.values())} if len(layers) == 1 else layers
    rows = []
    for found in sentences:
        tags = {
            n: _tags_of_marks([w.marks.get(key, "_") for w in found]) for n, key in names.items()
        }
        rows.append((found[0].place, {"words": [word.text for word in found], **tags}))
    return rows, tuple(notes)


def _sentences(documents: Mapping[str, str]) -> tuple[list[list[_Word]], list[_Word]]:
    """Return the words of each sentence, and the parts of words that have lines of their own."""
    sentences: dict[tuple[str, int, str], list[_Word]] = {}
    parts: list[_Word] = []
    for name, text in documents.items():
        file, at = 0, 3
        columns: dict[tuple[str, str], int] = {}
        for number, line in enumerate(text.split("\n"), start=1):
            if line.startswith(WEBANNO):
                # Files may have been joined, so that sentences are counted from 1 again.
                file, at, columns = file + 1, 3, {}
            elif header := re.match(r"#T_(\w+)=(.*)", line):
                layer, *features = header[2].strip().split("|")
                for feature in features or [""]:
                    if header[1] == "SP":
                        columns[layer.rpartition(".")[2], feature] = at
                    at += 1
            elif found := re.match(r"(\d+)-\d+(\.\d+)?\t[^\t]*\t", line):
                fields = line.removesuffix("\r").split("\t")
                marks = {key: fields[n] for key, n in columns.items() if n < len(fields)}
                word = _Word(_row_id(documents, name, number), _unescaped(fields[2]), marks)
                place = parts if found[2] else sentences.setdefault((name, file, found[1]), [])
                place.append(word)
    return [*sentences.values()], parts


def _labelled(words: Sequence[_Word]) -> dict[str, tuple[str, str]]:
    """Return the layer and the feature with labels of each layer that has any.

    The keys are the names of the layer and of the feature, such as "NamedEntity.value".
    """
    keys = dict.fromkeys(k for word in words for k, mark in word.marks.items() if _kinds_of(mark))
    features: dict[str, str] = {}
    for layer, feature in sorted(keys, key=lambda key: key[1] != "value"):
        features.setdefault(layer, feature)
    return {
        f"{layer}.{feature}".rstrip("."): (layer, feature) for layer, feature in features.items()
    }


def _kinds_of(mark: str) -> list[str]:
    """Return the labels in a cell; none for "_" (no span) and "*[3]" (a span without a label)."""
    if mark in ("", "_", "*"):
        return []
    parts = (re.sub(r"\[\d+\]$", "", part) for part in re.split(r"(?<!\\)\|", mark))
    return [_unescaped(part) for part in parts if part not in ("", "_", "*")]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _tags_of_marks(marks: Sequence[str]) -> list[str]:
    tags, before = [], ""
    for mark in marks:
        is_more = mark == before and mark.endswith("]")
        kind = next(iter(_kinds_of(mark)), "")
        tags.append(f"{'I' if is_more else 'B'}-{kind}" if kind else "O")
        before = mark
    return tags


# UIMA CAS JSON: a text and its annotations, which are objects with a type, a begin and an end.

_SOFA = "uima.cas.Sofa"
_NO_LAYERS = frozenset(("DocumentAnnotation", "DocumentMetaData", "Sentence", "Token"))
_ENDS_OF_RELATIONS = frozenset(("@Governor", "@Dependent"))


def cas_rows(name: str, documents: Mapping[str, Any]) -> tuple[Numbered, tuple[str, ...]]:
    """Read the sentences of documents in UIMA CAS JSON, with their spans.

    A document without annotated sentences is one row. A layer is a type of annotation, and the
    label of a span is its feature "value" or, if there is none, its first feature that is a text.

    Args:
        name: The name of the file or folder, for messages.
        documents: The parsed files, keyed by name.

    Returns:
        For each sentence, its number and a dictionary with its "text" and, for each layer, a list
        of its spans as [start, end, label]. In addition, a note on spans that were left out.

    Raises:
        DataError: A file has no text.
    """
    rows: list[tuple[str, dict[str, Any]]] = []
    left: Counter[str] = Counter()
    for file, document in documents.items():
        every = document.get("%FEATURE_STRUCTURES")
        structures = [e for e in every if isinstance(e, dict)] if isinstance(every, list) else []
        texts = (each.get("sofaString") for each in structures if each.get("%TYPE") == _SOFA)
        text = next((found for found in texts if isinstance(found, str)), None)
        if text is None:
            raise DataError(f"{file} has no text (sofaString): export the document again.")
        spans = [*_spans(text, structures)]
        sentences = sorted((s, e) for kind, s, e, _ in spans if kind == "Sentence")
        layers = [span for span in spans if span[0] not in _NO_LAYERS and span[3]]
        for number, (start, end) in enumerate(sentences or [(0, len(text))], start=1):
            row: dict[str, Any] = {"text": text[start:end]}
            for kind, first, last, label in layers:
                if start <= first and last <= end:
                    row.setdefault(kind, []).append([first - start, last - start, label])
                elif start <= first < end:
                    left[kind] += 1
            rows.append((_row_id(documents, file, number), row))
    # A sentence without annotations has no spans, which differs from a missing list of spans.
    every = {kind: [] for _, row in rows for kind in row if kind != "text"}
    said = f"left out of {name}: {left.total()} spans that cross the end of a sentence"
    return [(place, {**every, **row}) for place, row in rows], (said,) if left else ()


def _spans(
    text: str, structures: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, int, int, str]]:
    """Yield the type, start, end and label of each annotation that is not a relation."""
    for found in structures:
        match found:
            case {"%TYPE": str(kind), "begin": int(begin), "end": int(end)}:
                features = {
                    n: v for n, v in found.items() if isinstance(v, str) and n[:1] not in "%@^"
                }
                label = features.get("value") or next(iter(features.values()), "")
                if not found.keys() & _ENDS_OF_RELATIONS:
                    start, last = (characters_in(text, units) for units in (begin, end))
                    yield kind.rpartition(".")[2], start, last, label
