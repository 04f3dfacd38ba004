"""SQuAD's JSON: articles of paragraphs of questions, every question a row."""

from collections.abc import Iterator
from typing import Any

from tasks.sources.json_text import items, parse_object, value
from tasks.sources.official import OfficialFiles, Record
from tasks.sources.text import read_text

__all__ = ["squad_records"]


def squad_records(files: OfficialFiles) -> Iterator[Record]:
    """The questions in the file's order; `answers.text` and `answers.answer_start` are lists."""
    path = files.paths[0]
    document = parse_object(read_text(path), str(path))
    for number, article in enumerate(items(document, "data", str(path))):
        place = f"{path} article {number}"
        title = value(article, "title", place)
        for position, paragraph in enumerate(items(article, "paragraphs", place)):
            yield from _questions(paragraph, title, f"{place} paragraph {position}")


def _questions(paragraph: Any, title: str, place: str) -> Iterator[Record]:
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
            "answers.text": [value(answer, "text", where) for answer in answers],
            "answers.answer_start": [value(answer, "answer_start", where) for answer in answers],
        }
        yield Record(where, fields)
