"""RACE's folders: a JSON file per passage, with its questions, options and answers side by side."""

from collections.abc import Iterator

from tasks.errors import DataError
from tasks.sources.json_text import items, parse_object, value
from tasks.sources.official import OfficialFiles, Record
from tasks.sources.text import read_text

__all__ = ["race_records"]


def race_records(files: OfficialFiles) -> Iterator[Record]:
    """The questions of every passage; `example_id` is the passage's, "high12.txt"."""
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
                "example_id": f"{path.parent.name}{path.name}",
                "article": article,
                "question": question,
                "options": options[number],
                "answer": answers[number],
            }
            yield Record(f"{place} question {number}", fields)
