"""Exports of annotation tools: marked spans as tagged words, Label Studio's tasks as rows."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchharness.tasks.errors import DataError

Numbered = Sequence[tuple[str, Any]]
"""Rows as they are read, each with its number."""

# doccano's, Prodigy's and spaCy's offsets, and Label Studio's.


class Span(NamedTuple):
    """A span of a text by its characters."""

    start: int
    end: int
    label: str


_PIECE = re.compile(r"\w+|[^\w\s]")

_JOINERS = "\u200c\u200d"
"""They stand within words of Persian, Sinhala and Malayalam."""


def _words(text: str) -> list[tuple[int, int]]:
    """Where words stand: runs of letters with their accents, or single other characters."""
    places: list[tuple[int, int]] = []
    for piece in _PIECE.finditer(text):
        start, end = piece.span()
        if places and places[-1][1] == start and _goes_on(text[places[-1][0] : start], text[start]):
            places[-1] = places[-1][0], end
        else:
            places.append((start, end))
    return places


def _goes_on(before: str, character: str) -> bool:
    """Whether a character behind a word, or behind another character, is still a part of it.

    Accents may be characters of their own, which are no letters: NFD, Hindi, Hebrew.
    """
    is_letter = character.isalnum() or character == "_"
    return _is_mark(character) or (is_letter and before[0].isalnum() and _is_mark(before[-1]))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" or character in _JOINERS


def words_of_spans(
    columns: Mapping[str, Sequence[Any]], place: Callable[[int], str]
) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """The columns `words` and `tags` of texts with one column of marked spans; and a note.

    Words are as `_words` cuts them. A span that begins or ends within a
    word has all of it, which is said.
    """
    marked = [name for name, values in columns.items() if _is_marked(values)]
    texts = [n for n in ("text", "data", "sentence", "content") if n in columns]
    if len(marked) != 1 or not texts or {"words", "tags"} & set(columns):
        return {}, ()
    words: list[Any] = []
    tags: list[Any] = []
    cut = 0
    for row, (text, found) in enumerate(zip(columns[texts[0]], columns[marked[0]], strict=True)):
        places = _words(str(text or ""))
        spans = [span for each in found or () if (span := _span(each))]
        words.append([str(text)[start:end] for start, end in places])
        # A row without a list is one to be predicted; an empty list says that nothing is marked.
        tags.append(None if found is None or not places else _tags(places, spans, place(row)))
        ends = {start for start, _ in places}, {end for _, end in places}
        cut += sum(span.start not in ends[0] or span.end not in ends[1] for span in spans)
    said = f"{cut} spans in {marked[0]} begin or end within a word: all of it is taken"
    return {"words": words, "tags": tags}, (said,) if cut else ()


def _is_marked(values: Sequence[Any]) -> bool:
    found = [each for value in values if isinstance(value, list) for each in value]
    return bool(found) and all(map(_span, found))


def _span(found: Any) -> Span | None:
    match found:
        # doccano's list and its object, then Prodigy's and spaCy's object, and Label Studio's.
        case (
            [int(start), int(end), str(label)]
            | {"start_offset": int(start), "end_offset": int(end), "label": str(label)}
            | {"start": int(start), "end": int(end), "label": str(label)}
            | {"start": int(start), "end": int(end), "labels": [str(label)]}
        ):
            return Span(start, end, label)
    return None


def _tags(places: Sequence[tuple[int, int]], spans: Sequence[Span], row: str) -> list[str]:
    tags = ["O"] * len(places)
    for span in spans:
        inside = [
            n for n, (start, end) in enumerate(places) if start < span.end and span.start < end
        ]
        if not inside:
            raise DataError(f"{row} marks {span.start} to {span.end}, where its text has no word.")
        if any(tags[number] != "O" for number in inside):
            raise DataError(
                f"{row} marks {span.start} to {span.end} ({span.label}), which overlaps with "
                "another one: a word has one tag, so leave one of them out."
            )
        # A word that a span touches is in it, whole.
        for number in inside:
            tags[number] = f"{'B' if number == inside[0] else 'I'}-{span.label}"
    return tags


# Label Studio's JSON: a task has its data, and what each annotator said.


def label_studio_rows(name: str, rows: Numbered) -> Numbered:
    """Rows with a column for each control of the labelling page; others stay as they are."""
    if not all(
        isinstance(r, dict) and isinstance(r.get("data"), dict) and "annotations" in r
        for _, r in rows
    ):
        return rows
    done = [list(_answers(name, task)) for _, task in rows]
    marking = {  # spans of a text, or several choices of a list
        control
        for answers in done
        for each in answers
        for control, value in each.items()
        if _is_marked([value]) or (isinstance(value, list) and len(value) > 1)
    }
    found = []
    for (number, task), answers in zip(rows, done, strict=True):
        if any(answer != answers[0] for answer in answers):
            raise DataError(
                f"{name} row {number} has {len(answers)} annotations that differ: export one of "
                "each task, such as those of one annotator."
            )
        # A task that was looked at and has none gets an empty list; one that nobody looked at has
        # no such column, which is a missing value.
        empty: dict[str, list[Any]] = {control: [] for control in marking if answers}
        found.append((number, {**task["data"], **empty, **(answers[0] if answers else {})}))
    return found


def _answers(name: str, task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What each annotator said of a task, by the control's name; cancelled ones said nothing."""
    try:
        for annotation in task["annotations"]:
            if not annotation.get("was_cancelled"):
                said: dict[str, Any] = {}
                for result in annotation["result"]:
                    control, value = result.get("from_name"), result.get("value")
                    # Every span of a text is a result of its own, while a choice is one result.
                    if control and "start" in value:
                        said.setdefault(control, []).append(value)
                    elif control:
                        said[control] = value[result["type"]]
                yield said
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(
            f"{name} is not as Label Studio exports JSON ({error!r} in a task): export it again, "
            "or as CSV."
        ) from error
