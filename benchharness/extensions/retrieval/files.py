"""Read data in BEIR's layout: corpus.jsonl, queries.jsonl, and relevance judgements in qrels/.

As in beir's data_loader.py, a document consists of its title and text, "metadata" is ignored, and a
split has the queries of its qrels file. Released data sets also contain judgements of queries and
documents that do not exist. They are handled as in trec_eval, and sentences about them are in
`oddities` of rows.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.retrieval.task import Corpus
from benchharness.tasks.sources.formats import (
    OfficialFiles,
    Record,
    parse_object,
    read_lines,
)
from benchharness.tasks.sources.hub import hub_dataset
from benchharness.tasks.sources.source import ODDITIES, Place, Row, Source, Split

HEADER = ("query-id", "corpus-id", "score")
"""Names of the columns in a file of judgements (qrels)."""

_IN_MEMORY = 6
"""Bytes of memory needed per byte of a corpus file, for its texts, tokens and embeddings."""

NO_DOCUMENT = "judged documents that the corpus lacks count as not found, as in trec_eval"
NO_QUERY = "judgements of queries that queries.jsonl lacks are ignored, as in trec_eval"
AGAIN = "if a document is judged twice for a query, the last judgement counts, as in BEIR's loader"
NO_HEADER = "a file of judgements without a header is read from its first line"
NO_TEXT = "queries without text are ranked, and count in the scores"
SAME_DOCUMENT = "documents with the same id and the same text count as one"
SAME_QUERY = "if several queries have the same id, the last one counts, as in BEIR's loader"

Queries = tuple[Mapping[str, str], tuple[str, ...]]
"""Texts of the queries, keyed by id; and one sentence per irregularity in the file of queries."""

Line = tuple[str, Mapping[str, Any]]
"""Location (file and line, or row) of a JSON object, for error messages, and the object."""


def query_records(files: OfficialFiles) -> Iterator[Record]:
    """Yield one record per judged query of a split, with its judgements and the corpus.

    A judged query that queries.jsonl lacks has the text None.

    Args:
        files: The qrels file of the split. Its folder "qrels" is next to corpus.jsonl and
            queries.jsonl.

    Raises:
        DataError: A file is missing or malformed, or the corpus needs more memory than this machine
            has.
    """
    (qrels,) = files.paths
    folder = qrels.parent.parent
    held = {child.name: child for child in folder.iterdir()}
    if lacking := [name for name in ("corpus.jsonl", "queries.jsonl") if name not in held]:
        raise DataError(f"{folder} has {qrels.parent.name}/ but no {lacking[0]}: get BEIR's files.")
    corpus, queries = _file_corpus(held["corpus.jsonl"]), _queries(_objects(held["queries.jsonl"]))
    lines = enumerate(read_lines(qrels), start=1)
    judged = [(f"{qrels} line {n}", line.split("\t")) for n, line in lines if line.strip()]
    has_header = not judged or not _is_judgement(judged[0][1], queries)
    odd = () if has_header else (NO_HEADER,)
    for row in _rows(str(qrels), judged[has_header:], queries, corpus, odd):
        yield Record(str(qrels), row)


def _is_judgement(fields: list[str], queries: Queries) -> bool:
    return len(fields) == len(HEADER) and fields[0] in queries[0] and fields[0] != HEADER[0]


def hub_queries(source: Source, split: str) -> list[Row]:
    """Return one row per judged query of a split on the hub, with its judgements and the corpus.

    A judged query that the data set lacks has the text None.

    Args:
        source: The data set with the corpus and the queries. The judgements are in another data
            set, which has the same name with the suffix "-qrels".
        split: The name of the split.

    Raises:
        DataError: The data sets cannot be read, or do not belong together.
    """
    corpus, queries = _of_hub(source.hub)
    name = f"{source.hub}-qrels"
    found = hub_dataset(replace(source, hub=name, config=source.config), split)
    judged = [
        (f"{name} row {index}", [str(row[column]) for column in HEADER])
        for index, row in enumerate(found)
    ]
    return _rows(name, judged, queries, corpus)


@cache
def _of_hub(hub: str) -> tuple[Corpus, Queries]:
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
            f"{path} has {found.st_size / 1e9:.1f} GB, so searching it needs about "
            f"{needed / 1e9:.0f} GB of memory, but this machine has {memory / 1e9:.0f} GB: use a "
            "machine with more memory, or a smaller corpus."
        )
    return _kept_corpus(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=2)  # all splits of a data set share its corpus
def _kept_corpus(path: Path, _changed: int, _size: int) -> Corpus:
    return _corpus(str(path), _objects(path))


def _corpus(name: str, objects: Iterable[Line]) -> Corpus:
    texts: dict[str, str] = {}
    count = 0
    for place, document in objects:
        count += 1
        known, title = _text(place, document, "_id"), document.get("title") or ""
        found = f"{title} {_text(place, document, 'text')}".strip()
        if texts.setdefault(known, found) != found:
            raise DataError(f"{place} has the id {known!r}, but another document has the same id.")
    if not texts:
        raise DataError(f"{name} is empty: expected a document on each line.")
    digest = hashlib.sha256()
    for known, text in texts.items():
        digest.update(f"{known}\0{text}\0".encode("utf-8", "surrogatepass"))
    return Corpus(
        ids=tuple(texts),
        texts=tuple(texts.values()),
        digest=digest.hexdigest(),
        oddities=(SAME_DOCUMENT,) * (count - len(texts)),
    )


def _queries(objects: Iterable[Line]) -> Queries:
    found = [(_text(place, o, "_id"), _text(place, o, "text")) for place, o in objects]
    texts = dict(found)
    return texts, (SAME_QUERY,) * (len(found) - len(texts))


def _text(place: str, found: Mapping[str, Any], key: str) -> str:
    if not isinstance(found.get(key), str):
        raise DataError(f"{place} has the {key} {found.get(key)!r}; expected a text.")
    return str(found[key])


def _rows(
    name: str,
    judged: Sequence[tuple[str, list[str]]],
    queries: Queries,
    corpus: Corpus,
    odd: tuple[str, ...] = (),
) -> list[Row]:
    """Return one row per judged query, in the order in which the qrels file first names them.

    A query that does not exist has the text None. The first row reports the irregularities of the
    files as a whole.

    Args:
        name: Name of the qrels, for error messages.
        judged: Location and fields of each judgement.
        queries: Texts of the queries.
        corpus: Documents of the corpus.
        odd: Sentences about irregularities of the qrels file.

    Raises:
        DataError: If a judgement is malformed, or if none of the judged queries or none of the
            judged documents exists.
    """
    grades: dict[str, dict[str, int]] = {}
    again: Counter[str] = Counter()
    for place, fields in judged:
        if len(fields) != len(HEADER):
            raise DataError(f"{place} has {len(fields)} fields; expected {', '.join(HEADER)}.")
        query, document, grade = fields
        known = grades.setdefault(query, {})
        again[query] += document in known
        try:
            known[document] = int(grade)
        except ValueError:
            raise DataError(f"{place} has the score {grade!r}; expected a whole number.") from None
    texts, odd_queries = queries
    _check_known(name, "query", grades, texts, "queries.jsonl")
    documents = dict.fromkeys(each for found in grades.values() for each in found)
    _check_known(name, "document", documents, corpus.places, "the corpus")
    odd += corpus.oddities + odd_queries
    rows: list[Row] = []
    for query, found in grades.items():
        relevant, text = tuple(sorted(found.items())), texts.get(query)
        if text is None:
            odd += (NO_QUERY,) * len(found)
        else:
            odd += (NO_DOCUMENT,) * sum(each not in corpus.places for each in found)
            odd += (NO_TEXT,) * (not text.strip())
        odd += (AGAIN,) * again[query]
        facts = {"id": query, "text": text, "relevant": relevant, "corpus": corpus}
        rows.append({**facts, ODDITIES: odd})
        odd = ()
    return rows


def _check_known(
    name: str, noun: str, judged: Collection[str], known: Collection[str], place: str
) -> None:
    """Raise DataError if no judged id is known, because the files are from different data sets."""
    if judged and not any(each in known for each in judged):
        raise DataError(
            f"{name} judges the {noun} {next(iter(judged))!r}, but {place} contains none of the "
            "judged ids: get all files from the same data set."
        )
