"""BEIR's layout: corpus.jsonl, queries.jsonl, and qrels/SPLIT.tsv with what is relevant to what.

As beir's data_loader.py reads it: a document is its title and its text, "metadata" is ignored, and
of a split are the queries that its qrels name.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from benchharness.tasks.errors import DataError
from benchharness.tasks.examples import Corpus
from benchharness.tasks.sources.formats import parse_object, read_lines
from benchharness.tasks.sources.hub import hub_dataset
from benchharness.tasks.sources.source import Place, Row, Source, Split

HEADER = ("query-id", "corpus-id", "score")

_IN_MEMORY = 6
"""Bytes of memory for each of a corpus file: its texts, their tokens and their vectors."""

Line = tuple[str, Mapping[str, Any]]
"""Where an object stands, to be said in an error, and the object."""


def file_queries(qrels: Place) -> list[Row]:
    """The rows of a split on files; DataError where they are malformed."""
    folder = qrels.parent.parent
    held = {child.name: child for child in folder.iterdir()}
    if lacking := [name for name in ("corpus.jsonl", "queries.jsonl") if name not in held]:
        raise DataError(f"{folder} has {qrels.parent.name}/ and no {lacking[0]}: get BEIR's files.")
    corpus, queries = _file_corpus(held["corpus.jsonl"]), _queries(_objects(held["queries.jsonl"]))
    lines = enumerate(read_lines(qrels), start=1)
    judged = ((f"{qrels} line {n}", line.split("\t")) for n, line in lines if line.strip())
    next(judged, None)  # the header
    return list(_rows(judged, queries, corpus))


def hub_queries(source: Source, split: str) -> list[Row]:
    """The same of the hub, where a set's qrels are a data set of their own."""
    corpus, queries = _of_hub(source.hub)
    name = f"{source.hub}-qrels"
    found = hub_dataset(replace(source, hub=name, config=source.config), split)
    judged = (
        (f"{name} row {index}", [str(row[column]) for column in HEADER])
        for index, row in enumerate(found)
    )
    return list(_rows(judged, queries, corpus))


@cache
def _of_hub(hub: str) -> tuple[Corpus, Mapping[str, str]]:
    objects = {}
    for part in ("corpus", "queries"):
        splits = {part: Split(hub=part, files=())}
        found = hub_dataset(Source(hub=hub, config=part, revision="main", splits=splits), part)
        objects[part] = [(f"{hub} ({part}) row {n}", row) for n, row in enumerate(found)]
    return _corpus(hub, objects["corpus"]), _queries(objects["queries"])


def _objects(path: Place) -> Iterator[Line]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield (place := f"{path} line {number}"), parse_object(line, place)


def _file_corpus(path: Place) -> Corpus:
    if not isinstance(path, Path):
        return _corpus(str(path), _objects(path))
    found = path.stat()
    needed = _IN_MEMORY * found.st_size
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise DataError(
            f"{path} has {found.st_size / 1e9:.1f} GB, to search it takes about "
            f"{needed / 1e9:.0f} GB of memory, and this machine has {memory / 1e9:.0f}: use a "
            "larger one, or a smaller corpus."
        )
    return _kept_corpus(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=2)  # every split of a set asks for it
def _kept_corpus(path: Path, _changed: int, _size: int) -> Corpus:
    return _corpus(str(path), _objects(path))


def _corpus(name: str, objects: Iterable[Line]) -> Corpus:
    texts: dict[str, str] = {}
    for place, document in objects:
        known = _text(place, document, "_id")
        if known in texts:
            raise DataError(f"{place} has the id {known!r}, which another document has.")
        title = document.get("title") or ""
        texts[known] = f"{title} {_text(place, document, 'text')}".strip()
    if not texts:
        raise DataError(f"{name} is empty: expected a document on each line.")
    digest = hashlib.sha256()
    for known, text in texts.items():
        digest.update(f"{known}\0{text}\0".encode("utf-8", "surrogatepass"))
    return Corpus(ids=tuple(texts), texts=tuple(texts.values()), digest=digest.hexdigest())


def _queries(objects: Iterable[Line]) -> dict[str, str]:
    return {_text(place, o, "_id"): _text(place, o, "text") for place, o in objects}


def _text(place: str, found: Mapping[str, Any], key: str) -> str:
    if not isinstance(found.get(key), str):
        raise DataError(f"{place} has the {key} {found.get(key)!r}; expected a text.")
    return str(found[key])


def _rows(
    judged: Iterable[tuple[str, list[str]]], queries: Mapping[str, str], corpus: Corpus
) -> Iterator[Row]:
    """A row for each query of the judgements, in the order of its first."""
    grades: dict[str, dict[str, int]] = {}
    for place, fields in judged:
        if len(fields) != len(HEADER):
            raise DataError(f"{place} has {len(fields)} fields; expected {', '.join(HEADER)}.")
        query, document, grade = fields
        if query not in queries:
            raise DataError(f"{place} names the query {query!r}, which queries.jsonl has not.")
        if document not in corpus.places:
            raise DataError(f"{place} names the document {document!r}, which the corpus has not.")
        try:
            grades.setdefault(query, {})[document] = int(grade)
        except ValueError:
            raise DataError(f"{place} has the score {grade!r}; expected a whole number.") from None
    for query, found in grades.items():
        relevant = tuple(sorted(found.items()))
        yield {"id": query, "text": queries[query], "relevant": relevant, "corpus": corpus}
