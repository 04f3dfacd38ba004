"""CoNLL's columns: a word a line with its tags, an empty line after each sentence."""

from collections.abc import Iterator

from tasks.errors import DataError
from tasks.sources.official import OfficialFiles, Record
from tasks.sources.source import Source
from tasks.sources.text import read_lines

__all__ = ["conll_records"]

DOCUMENT = "-DOCSTART-"


def conll_records(files: OfficialFiles) -> Iterator[Record]:
    """The sentences: the first column is the word, the last one its entity tag.

    Lines that begin a document are no words.
    """
    source, path = files.source, files.paths[0]
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*read_lines(path), ""], start=1):
        fields = line.split()
        if fields and fields[0] != DOCUMENT:
            place = f"{path} line {number}"
            if len(fields) == 1:
                raise DataError(f"{place} has the word {fields[0]!r} and no tag.")
            words.append(fields[0])
            tags.append(_tag(source, fields[-1], place))
        elif words:
            first = number - len(words)
            yield Record(f"{path} line {first}", {"tokens": words, source.label: tags})
            words, tags = [], []


def _tag(source: Source, tag: str, place: str) -> str:
    if tag not in source.label_names:
        expected = ", ".join(source.label_names)
        raise DataError(f"{place} has the tag {tag!r}; expected one of {expected}.")
    return tag
