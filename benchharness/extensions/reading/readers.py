"""Read the official JSON files of QuAC, CoQA and HotpotQA into records with the hub's columns.

A record is a dialog (QuAC), a conversation about a story (CoQA) or a question (HotpotQA). A list of
objects in a file is converted to parallel lists, one per key.
"""

from collections.abc import Iterator
from typing import Any

from benchharness.errors import DataError
from benchharness.tasks.sources.formats import (
    OfficialFiles,
    Record,
    items,
    parallel_lists,
    parse_json,
    parse_object,
    read_text,
    value,
)
from benchharness.tasks.sources.source import Place


def quac_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the dialogs in a file of QuAC; each list of a dialog has one item per question."""
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
                **parallel_lists(asked, place, keys),
            }
            # A question has answers by several people, so both columns are lists of lists.
            for key in ("text", "answer_start"):
                found = [[value(each, key, place) for each in several] for several in answers]
                fields[f"answers.{key}s"] = found
            yield Record(place, fields)


def _articles(files: OfficialFiles, noun: str = "article") -> Iterator[tuple[Place, str, Any]]:
    """Yield (path, location for messages, item) for each item of a JSON file's list "data"."""
    path = files.paths[0]
    document = parse_object(read_text(path), str(path))
    for number, article in enumerate(items(document, "data", str(path))):
        yield path, f"{path} {noun} {number}", article


def coqa_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the conversations in a file of CoQA."""
    answer = ("input_text", "span_start", "span_end", "turn_id")
    for path, where, story in _articles(files, "conversation"):
        place = f"{path} conversation {value(story, 'id', where)}"
        fields = {name: value(story, name, place) for name in ("id", "source", "story")}
        others = story.get("additional_answers") or {}
        lists = {
            "questions": (items(story, "questions", place), ("input_text", "turn_id")),
            "answers": (items(story, "answers", place), answer),
        }
        # Add the answers by additional annotators, which the training file lacks.
        for name in ("0", "1", "2"):
            found = items(others, name, place) if name in others else []
            lists[f"additional_answers.{name}"] = found, ("input_text",)
        for name, (found, keys) in lists.items():
            fields |= parallel_lists(found, place, {f"{name}.{key}": key for key in keys})
        yield Record(place, fields)


def hotpotqa_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the questions in a file of HotpotQA, each with its paragraphs as lists of sentences."""
    path = files.paths[0]
    for number, question in enumerate(parse_json(read_text(path), str(path), list, "a list")):
        place = f"{path} question {value(question, '_id', f'{path} question {number}')}"
        fields = {name: value(question, name, place) for name in ("question", "answer", "type")}
        fields["id"] = question["_id"]
        # [["Oslo", 0], ["Rome", 2]] is converted to the columns ["Oslo", "Rome"] and [0, 2].
        columns = {"supporting_facts": ("title", "sent_id"), "context": ("title", "sentences")}
        for key, names in columns.items():
            pairs = items(question, key, place)
            if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
                raise DataError(
                    f"{place} has a {key} that is not a list of pairs: get the official file."
                )
            fields |= {f"{key}.{name}": [p[at] for p in pairs] for at, name in enumerate(names)}
        yield Record(place, fields)
