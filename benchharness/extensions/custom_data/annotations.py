"""Read exports of annotation tools and other programs, and turn marked spans into tagged words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from benchharness.errors import DataError
from benchharness.extensions.custom_data.columns import FEW_ODD, Table, key_of
from benchharness.extensions.custom_data.tags import SPAN

Numbered = Sequence[tuple[str, Any]]
"""Rows in the order of the file, each as a pair (id, row). The id is the row's number or key, as
text.
"""


class ToolRows(NamedTuple):
    """Rows of a file, after exports of known annotation tools have been converted.

    Attributes:
        rows: The id and the content of each row.
        notes: Notes for the user, e.g. on annotations that were left out.
    """

    rows: Numbered
    notes: tuple[str, ...] = ()


def tool_rows(name: str, rows: Numbered) -> ToolRows:
    """Convert rows in the export format of a known annotation tool; keep other rows unchanged.

    Args:
        name: The name of the file, for messages.
        rows: The id and the content of each row.

    Returns:
        The converted or unchanged rows, with notes.

    Raises:
        DataError: The rows look like an export of a known tool, but a field is missing or damaged,
            or the annotations of one text differ (Label Studio).
    """
    for title, has_layout, read in _LAYOUTS:
        if rows and all(has_layout(row) for _, row in rows):
            try:
                return read(name, rows)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                raise DataError(
                    f"{name} looks like an export of {title}, but has a damaged row "
                    f"({error!r}): export it again, or as CSV."
                ) from error
    return ToolRows(rows)


# Spans that are marked by character offsets, as most tools write them.


class Span(NamedTuple):
    """A labelled span of a text.

    Attributes:
        start: The index of the first character.
        end: The index after the last character. In exports of a few tools it is the index of the
            last character itself (see `_is_inclusive`).
        label: Label of the span.
        text: The text of the span if the file repeats it, else "".
    """

    start: int
    end: int
    label: str
    text: str = ""


_PIECE = re.compile(r"\w+|[^\w\s]")

_JOINERS = "\u200c\u200d"
"""Zero-width characters that occur within words of Persian, Sinhala and Malayalam."""


def _words(text: str) -> list[tuple[int, int]]:
    """Return the offsets [start, end) of each word.

    A word is a run of letters, digits and accents, or any other single character except a space.
    """
    places: list[tuple[int, int]] = []
    for piece in _PIECE.finditer(text):
        start, end = piece.span()
        if places and places[-1][1] == start and _goes_on(text[places[-1][0] : start], text[start]):
            places[-1] = places[-1][0], end
        else:
            places.append((start, end))
    return places


def _goes_on(before: str, character: str) -> bool:
    """Return whether a character continues the word or the single character before it.

    Accents may be separate characters that are not letters, as in NFD text, Hindi and Hebrew.
    """
    is_letter = character.isalnum() or character == "_"
    return _is_mark(character) or (is_letter and before[0].isalnum() and _is_mark(before[-1]))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" or character in _JOINERS


_STARTS = ("start", "startoffset", "beginoffset", "begin", "startchar")
_ENDS = ("end", "endoffset", "endchar")
_KINDS = ("label", "labels", "tag", "entity", "entitylabel", "displayname", "type", "entitytype")
_TEXTS = ("text", "data", "sentence", "content", "document", "textcontent", "source", "body")


def words_in(text: str) -> list[str]:
    """Split a text into words.

    A word is a run of letters, digits, underscores and accents, or any other single character
    except white space.
    """
    return [text[start:end] for start, end in _words(text)]


def with_words(table: Table) -> Table:
    """Add columns of words and tags to a table in which one column marks spans of a text.

    Spans may be marked by their start, end and label, or by lists of character positions, such as
    [4, 5, 6]. The new columns are called "words" and "tags" or, if one of these names is in use,
    "SPANS.words" and "SPANS.tags", where SPANS is the column that marks the spans. A span that
    begins or ends within a word is extended to the whole word, and a note reports this.

    If several columns mark spans, they are replaced by a column of words and a column of tags for
    each of them, "SPANS.tags"; columns whose spans have an error are left out.

    No columns are added if the table has no text, or if no column marks spans. Spans that a
    reviewer rejected are left out, and a note reports their number.

    Raises DataError if an item in the only column of spans is not a span, or if a span contains no
    word, overlaps with another span, or repeats a text that is not the one at its position.
    """
    table = replace(table, columns={n: _of_one(n, v) for n, v in table.columns.items()})
    table = _with_runs(table)
    marked = [name for name, values in table.columns.items() if _is_marked(values)]
    # Argilla writes the spans that a model suggested next to those of annotators.
    marked = [name for name in marked if not name.endswith(".suggestion")] or marked
    text = _text_column(table)
    if not marked or text is None:
        return table
    taken = {"words", "tags"} & set(table.columns)
    if len(marked) > 1:
        return table if taken else _with_several(table, text, marked)
    (spans,) = marked
    names = tuple(f"{spans}.{word}" if taken else word for word in ("words", "tags"))
    found, notes = _tags_in(table, text, spans)
    return replace(
        table,
        columns={**table.columns, **dict(zip(names, found, strict=True))},
        notes=(*table.notes, *notes),
        made=(*names, spans),
    )


def _with_several(table: Table, text: str, marked: Sequence[str]) -> Table:
    """Replace several columns of spans by one column of words and a column of tags for each."""
    columns: dict[str, Sequence[Any]] = {"words": ()}
    columns |= {name: v for name, v in table.columns.items() if name not in marked}
    notes: list[str] = []
    for name in marked:
        try:
            (words, tags), said = _tags_in(table, text, name)
        except DataError as error:
            notes.append(f"the column {name} is left out: {str(error).removesuffix('.')}")
        else:
            columns |= {"words": words, f"{name}.tags": tags}
            notes += said
    found = replace(table, columns=columns, notes=(*table.notes, *notes))
    return found if columns["words"] else table


def _tags_in(
    table: Table, text: str, spans: str
) -> tuple[tuple[list[Any], list[Any]], tuple[str, ...]]:
    """Return the words and tags of each row for the spans in a column, and notes on them."""
    values = table.columns[spans]
    if "answer" in table.columns:  # Prodigy omits the list if a row has no spans
        answers = table.columns["answer"]
        pairs = zip(values, answers, strict=True)
        values = [[] if v is None and a == "accept" else v for v, a in pairs]
    kept = [[s for s in v if not _is_rejected(s)] if isinstance(v, list) else v for v in values]
    lists = [(v, k) for v, k in zip(values, kept, strict=True) if isinstance(v, list)]
    rejected = sum(len(value) - len(rest) for value, rest in lists)
    said = (f"left out of {table.name}: {rejected} spans that were rejected",) if rejected else ()
    found, notes = _tagged(table, table.columns[text], kept, spans)
    return found, (*said, *notes)


def _text_column(table: Table) -> str | None:
    """Return the name of the text column in which spans are marked; None if there is none."""
    by_key = {key_of(n): n for n, v in reversed([*table.columns.items()]) if _are_texts(v)}
    return next((by_key[key] for key in _TEXTS if key in by_key), None)


MOST_WHOLE = 0.8
"""Minimum share of whole words among spans that are marked by lists of character positions. If
fewer of the spans begin and end at word boundaries, the lists are not read as positions.
"""


def _with_runs(table: Table) -> Table:
    """Turn lists of character positions, such as [4, 5, 6, 12], into spans in one column."""
    texts = table.columns.get(_text_column(table) or "", ())
    for name, values in table.columns.items() if texts else ():
        if not isinstance(next(filter(None, values), None), list):
            continue
        pairs = [(str(text), v) for text, v in zip(texts, values, strict=True) if v]
        if not pairs or not all(_are_places(places) for _, places in pairs):
            continue
        runs = [(said, run) for said, places in pairs for run in _runs(places)]
        # Lists of numbers may also be indices of classes or of words. These rarely agree with the
        # boundaries of words.
        whole = sum(_is_whole(said, start, end) for said, (start, end, _) in runs)
        if whole < MOST_WHOLE * len(runs):
            continue
        spans = [_runs(places) if isinstance(places, list) else places for places in values]
        said = (
            f"the numbers in {name!r} are character positions, which are read as spans with the "
            f"label {SPAN}"
        )
        columns = {**table.columns, name: spans}
        return replace(table, columns=columns, notes=(*table.notes, said))
    return table


def _are_places(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return whether text[start:end] begins and ends at word boundaries."""
    inside = text[start:end]
    is_cut = text[max(0, start - 1) : start].isalnum() or text[end : end + 1].isalnum()
    return end <= len(text) and inside.strip() == inside and not is_cut


def _runs(places: Sequence[int]) -> list[list[Any]]:
    """Merge consecutive character positions into spans [start, end, SPAN]."""
    found: list[list[Any]] = []
    for place in sorted({*places}):
        if found and found[-1][1] == place:
            found[-1][1] += 1
        else:
            found.append([place, place + 1, SPAN])
    return found


def _is_rejected(span: Any) -> bool:
    """Return whether a reviewer rejected a span, as with LightTag's "correct": false."""
    verdicts = ("correct", "accepted", "approved", "valid")
    return isinstance(span, dict) and any(span.get(name) is False for name in verdicts)


def _of_one(name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Unwrap Argilla's responses by a single annotator, which are a list with one list of spans."""
    inner = [value[0] for value in values if isinstance(value, list) and len(value) == 1]
    known = [value for value in values if value is not None]
    if not name.endswith(".responses") or len(inner) < len(known) or not _is_marked(inner):
        return values
    return [None if value is None else value[0] for value in values]


def _tagged(
    table: Table, texts: Sequence[Any], marked: Sequence[Any], name: str
) -> tuple[tuple[list[Any], list[Any]], tuple[str, ...]]:
    words: list[Any] = []
    tags: list[Any] = []
    cut = 0
    written = [_spans_of(table, row, found, name) for row, found in enumerate(marked)]
    each_spans, notes = _placed(table, [str(text or "") for text in texts], written)
    for row, (text, found) in enumerate(zip(texts, marked, strict=True)):
        places = _words(str(text or ""))
        spans = each_spans[row]
        words.append([str(text)[start:end] for start, end in places])
        # A row without a list is unlabelled. An empty list means that the text has no spans.
        tags.append(None if found in (None, "") or not places else _tags(places, spans, table, row))
        ends = {start for start, _ in places}, {end for _, end in places}
        cut += sum(span.start not in ends[0] or span.end not in ends[1] for span in spans)
    said = f"{cut} spans in {name} begin or end within a word and are extended to the whole word"
    return (words, tags), (*notes, said) if cut else notes


def _spans_of(table: Table, row: int, found: Any, name: str) -> list[Span]:
    """Return the spans of a row; raise DataError for an element that is not a span."""
    if found in (None, ""):
        return []
    spans = [_span(each) for each in found] if isinstance(found, list) else [None]
    if None in spans:
        odd = found[spans.index(None)] if isinstance(found, list) else found
        raise DataError(
            f"{table.place(row)} has {str(odd)[:60]!r} in the column {name!r}, which is not a "
            "span: expected a start, an end and a label."
        )
    return [span for span in spans if span is not None]


FEWEST_PLACED = 0.1
"""Minimum share of spans whose repeated text is the one at their position. If fewer are, the
positions are refused. A few may have another text, such as a synonym (Rasa).
"""


def _placed(
    table: Table, texts: Sequence[str], rows: Sequence[Sequence[Span]]
) -> tuple[Sequence[Sequence[Span]], tuple[str, ...]]:
    """Return the spans with their offsets in characters, and notes on how they were counted.

    Tools that are written in JavaScript, such as Label Studio, count UTF-16 units, in which an
    emoji has the length 2. A few tools give the last character of a span (Dataturks). If spans
    repeat their texts, the texts show how the offsets are counted.

    Raises DataError if the repeated texts are not at the positions of the spans.
    """
    known = [
        (row, span) for row, spans in enumerate(rows) for span in spans if span.text and texts[row]
    ]
    counts = [sum(_is_at(texts[row], way(texts[row], s)) for row, s in known) for way in _WAYS]
    best = _WAYS[counts.index(max(counts))]
    if max(counts) < FEWEST_PLACED * len(known):
        row, span = known[0]
        raise _misplaced(table.place(row), span.text, (span.start, span.end), texts[row])
    found = [[best(text, s) for s in spans] for text, spans in zip(texts, rows, strict=True)]
    units = f"the positions of spans in {table.name} are read as UTF-16 units"
    notes: tuple[str, ...] = (units,) if best is _from_utf16 else ()
    if missed := len(known) - max(counts):
        notes += (f"spans of {table.name} whose text is not the one at their position: {missed}",)
    return found, notes


def _is_at(text: str, span: Span) -> bool:
    return _bare(text[span.start : span.end]) == _bare(span.text)


def _bare(text: str) -> str:
    """Remove white space, which tools change in the text of a span."""
    return "".join(text.split())


def _as_written(_text: str, span: Span) -> Span:
    return span


def _from_inclusive(_text: str, span: Span) -> Span:
    return span._replace(end=span.end + 1)


def _from_utf16(text: str, span: Span) -> Span:
    start, end = (characters_in(text, units) for units in (span.start, span.end))
    return span._replace(start=start, end=end)


_WAYS = (_as_written, _from_inclusive, _from_utf16)
"""Functions that convert the offsets of a span in a text to indices of characters."""


def characters_in(text: str, units: int) -> int:
    """Return the number of characters in the first UTF-16 units of a text.

    Args:
        text: Text whose characters are counted.
        units: The number of units, as Java and JavaScript count them.
    """
    if max(text, default="") <= "\uffff":
        return units
    part = text.encode("utf-16-le", "surrogatepass")[: 2 * units]
    return len(part.decode("utf-16-le", "ignore"))


def _are_texts(values: Sequence[Any]) -> bool:
    return any(isinstance(value, str) for value in values)


def _is_marked(values: Sequence[Any]) -> bool:
    found = [each for value in values if isinstance(value, list) for each in value]
    spans = sum(_span(each) is not None for each in found)
    return bool(spans) and spans >= (1 - FEW_ODD) * len(found)


def _span(found: Any) -> Span | None:
    """Parse a marked span in the notation of any known tool; return None for anything else."""
    match found:
        # doccano and spaCy write the first form, Argilla writes the second.
        case [int(start), int(end), str(label)] | [str(label), int(start), int(end)]:
            return Span(start, end, label)
        case {"span": {"begin": int(start), "end": int(end)}, "obj": str(label)}:  # PubAnnotation
            return Span(start, end, label)
        case dict():
            by_key = {key_of(str(name)): value for name, value in found.items()}
            start, end = (_first(by_key, keys, int) for keys in (_STARTS, _ENDS))
            label = _first(by_key, _KINDS, str | list)
            if isinstance(label, list) and len(label) == 1:  # as in Label Studio
                (label,) = label
            if isinstance(start, int) and isinstance(end, int) and isinstance(label, str):
                text = by_key.get("text") or by_key.get("value")
                return Span(start, end, label, text if isinstance(text, str) else "")
    return None


def _first(found: Mapping[str, Any], keys: Sequence[str], kind: Any) -> Any:
    return next((found[key] for key in keys if isinstance(found.get(key), kind)), None)


def _tags(
    places: Sequence[tuple[int, int]], spans: Sequence[Span], table: Table, row: int
) -> list[str]:
    tags = ["O"] * len(places)
    for span in spans:
        where = f"{table.place(row)} marks the characters {span.start} to {span.end}"
        inside = [
            n for n, (start, end) in enumerate(places) if start < span.end and span.start < end
        ]
        if not inside:
            raise DataError(f"{where}, but the text has no word there: correct the span.")
        if any(tags[number] != "O" for number in inside):
            raise DataError(
                f"{where} ({span.label}), which overlaps with another span: remove one of them, "
                "because a word can have only one tag."
            )
        # A word that a span touches is tagged as a whole.
        for number in inside:
            tags[number] = f"{'B' if number == inside[0] else 'I'}-{span.label}"
    return tags


# Label Studio's JSON: a task has its data, and the annotations of each annotator.


def _label_studio(name: str, rows: Numbered) -> ToolRows:
    """Read Label Studio's tasks into rows: the task's data, and a column per labelling control.

    Raises DataError if the annotations of one task differ.
    """
    done = [list(_answers(name, task)) for _, task in rows]
    marking = {  # labelling controls for spans, or for several choices
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
                f"{name} row {number} has {len(answers)} annotations that differ: export only "
                "one per task, such as those of one annotator."
            )
        # A task that was annotated without any span gets an empty list; a task without annotations
        # lacks the column, which means a missing value.
        empty: dict[str, list[Any]] = {control: [] for control in marking if answers}
        found.append((number, {**task["data"], **empty, **(answers[0] if answers else {})}))
    cancelled = sum(
        bool(task.get("annotations")) and not answers
        for (_, task), answers in zip(rows, done, strict=True)
    )
    said = f"left out of {name}: {cancelled} tasks with cancelled annotations"
    return ToolRows(found, (said,) if cancelled else ())


def _answers(name: str, task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the values of each annotation that was not cancelled, keyed by labelling control.

    If some annotations are marked as ground truth, only these are yielded. Raises DataError if the
    task does not have Label Studio's layout.
    """
    try:
        # Versions before 1.0 have "completions" instead of "annotations".
        every = task["annotations"] if "annotations" in task else task["completions"]
        kept = [each for each in every if not each.get("was_cancelled")]
        truths = [each for each in kept if each.get("ground_truth")]
        for annotation in truths or kept:
            said: dict[str, Any] = {}
            for result in annotation["result"]:
                control, value = result.get("from_name"), result.get("value")
                # Each span of a text is a separate result, while a choice is a single result.
                if control and "start" in value:
                    said.setdefault(control, []).append(value)
                elif control:
                    said[control] = _answer(result["type"], value)
            yield said
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(
            f"{name} looks like an export of Label Studio, but has a damaged task ({error!r}): "
            "export it again, or as CSV."
        ) from error


def _answer(kind: str, value: Mapping[str, Any]) -> Any:
    """Return the answer to a labelling control that marks no spans."""
    if kind == "taxonomy":  # a list of paths, such as ["Animal", "Dog"]
        return ["/".join(map(str, path)) for path in value[kind]]
    return value[{"pairwise": "selected", "textarea": "text"}.get(kind, kind)]


# Other layouts.


def _responses(_name: str, rows: Numbered) -> ToolRows:
    """Read Argilla's nested records into the columns that its flat records have.

    Each question gets the columns "QUESTION.responses" and "QUESTION.responses.status" and, with
    the answer that a model suggested, "QUESTION.suggestion". Answers without a status count as
    submitted.
    """
    found = []
    for number, row in rows:
        if _is_record(row):
            rest = {n: v for n, v in row.items() if n not in (*_NESTED, "suggestions", "vectors")}
            asked = row["responses"]
            offers = {n: s.get("value") for n, s in (row.get("suggestions") or {}).items()}
            new = {**row["fields"], **rest}
        else:  # a FeedbackDataset of version 1
            asked = {n: row[n] for n in row if f"{n}{_SUGGESTION}" in row}
            offers = {n: row[f"{n}{_SUGGESTION}"] for n in asked}
            new = {n: v for n, v in row.items() if n not in asked and _SUGGESTION not in n}
        for name, answers in asked.items():
            each = _as_objects(answers)
            new[f"{name}.responses"] = [answer["value"] for answer in each] or None
            states = [answer.get("status") or "submitted" for answer in each]
            new[f"{name}.responses.status"] = states or None
        new |= {f"{name}.suggestion": value for name, value in offers.items()}
        found.append((number, new))
    return ToolRows(found)


_NESTED, _SUGGESTION = ("fields", "responses"), "-suggestion"


def _as_objects(answers: Any) -> list[dict[str, Any]]:
    """Return a list of answers, which the hub may have stored as an object of lists."""
    if isinstance(answers, dict):
        return [
            dict(zip(answers, each, strict=True)) for each in zip(*answers.values(), strict=True)
        ]
    return answers or []


def _single_answers(name: str, _rows: Numbered) -> ToolRows:
    """Refuse Prodigy's yes-or-no answers to single spans, which leave other spans unmarked."""
    raise DataError(
        f"{name} has Prodigy's answers to single spans (ner.teach), so other spans of a text may "
        "not be marked: run prodigy ner.silver-to-gold and export the dataset that it writes."
    )


def _pairs(_name: str, rows: Numbered) -> ToolRows:
    """Read spaCy's training data: pairs of a text and an object with "entities" or "cats"."""
    return ToolRows([(n, {"text": text, **facts}) for n, (text, facts) in rows])


def _pieces(_name: str, rows: Numbered) -> ToolRows:
    """Join Snips' pieces of text into one text, and turn the labelled pieces into spans."""
    found = []
    for number, row in rows:
        text, spans = "", []
        for piece in row["data"]:
            if kind := piece.get("entity") or piece.get("slot_name"):
                spans.append([len(text), len(text) + len(piece["text"]), kind])
            text += piece["text"]
        rest = {name: value for name, value in row.items() if name != "data"}
        found.append((number, {"text": text, "entities": spans, **rest}))
    return ToolRows(found)


def _messages(_name: str, rows: Numbered) -> ToolRows:
    """Turn a chat in which each role speaks once into a row with a column per role."""
    found = []
    for number, row in rows:
        rest = {name: value for name, value in row.items() if name != "messages"}
        found.append((number, {**{m["role"]: m["content"] for m in row["messages"]}, **rest}))
    return ToolRows(found)


def _points(_name: str, rows: Numbered) -> ToolRows:
    """Convert Dataturks' annotations into spans: one for each label and each marked position."""
    found = []
    for number, row in rows:
        spans = [
            {**point, "label": label}
            for each in row["annotation"] or ()
            for label in each["label"]
            for point in each["points"]
        ]
        found.append((number, {**row, "annotation": spans}))
    return ToolRows(found)


def _ground_truth(name: str, rows: Numbered) -> ToolRows:
    """Read SageMaker Ground Truth's manifest; class numbers become the names in "-metadata".

    Rows whose labelling failed get None as their label, and are counted in a note.
    """
    found = []
    for number, row in rows:
        new = {key: value for key, value in row.items() if not key.endswith(_METADATA)}
        for key in [key.removesuffix(_METADATA) for key in row if key.endswith(_METADATA)]:
            about = row[f"{key}{_METADATA}"]
            if "failure-reason" in about:
                new[key] = None
            elif "class-name" in about:
                new[key] = about["class-name"]
            elif "class-map" in about:
                new[key] = [about["class-map"].get(str(each), each) for each in row[key]]
        found.append((number, new))
    failed = sum(any(_failed(value) for value in row.values()) for _, row in rows)
    said = f"{failed} rows of {name} have no label, because their labelling failed"
    return ToolRows(found, (said,) if failed else ())


_METADATA = "-metadata"


def _failed(value: Any) -> bool:
    return isinstance(value, dict) and "failure-reason" in value


def _questions(_name: str, rows: Numbered) -> ToolRows:
    """Make a row for each question of MRQA's paragraphs, and skip the line about the data set."""
    found = []
    for number, row in rows:
        rest = {name: value for name, value in row.items() if name != "qas"}
        for place, asked in enumerate(row.get("qas", ()), start=1):
            found.append((f"{number}.{place}", {**rest, **asked}))
    return ToolRows(found)


def _is_label_studio(row: Any) -> bool:
    is_task = isinstance(row, dict) and isinstance(row.get("data"), dict)
    return is_task and ("annotations" in row or "completions" in row)


def _has_responses(row: Any) -> bool:
    is_feedback = isinstance(row, dict) and any(f"{name}{_SUGGESTION}" in row for name in row)
    return is_feedback or _is_record(row)


def _is_record(row: Any) -> bool:
    return isinstance(row, dict) and all(isinstance(row.get(name), dict) for name in _NESTED)


def _has_single_answers(row: Any) -> bool:
    return isinstance(row, dict) and row.get("_view_id") == "ner" and "answer" in row


def is_pair(row: Any) -> bool:
    """Return whether a row is a list of a text and an object, as in spaCy's training data."""
    return isinstance(row, list) and list(map(type, row)) == [str, dict]


def _has_metadata(row: Any) -> bool:
    return isinstance(row, dict) and any(
        name.endswith(_METADATA)
        and isinstance(value, dict)
        and str(value.get("type")).startswith("groundtruth/text-classification")
        for name, value in row.items()
    )


def _has_pieces(row: Any) -> bool:
    pieces = _objects(row, "data")
    return bool(pieces) and all(isinstance(each.get("text"), str) for each in pieces)


def _has_messages(row: Any) -> bool:
    said = _objects(row, "messages")
    if not said or not all({"role", "content"} <= each.keys() for each in said):
        return False
    return len({str(each["role"]) for each in said}) == len(said)  # each role speaks once


def _has_points(row: Any) -> bool:
    if not isinstance(row, dict) or "content" not in row or "annotation" not in row:
        return False
    found = _objects(row, "annotation")
    return row["annotation"] is None or (bool(found) and all("points" in each for each in found))


def _has_questions(row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    return list(row) == ["header"] or ("context" in row and bool(_objects(row, "qas")))


def _objects(row: Any, name: str) -> list[dict[str, Any]]:
    """Return `row[name]` if it is a list of objects, else an empty list."""
    found = row.get(name) if isinstance(row, dict) else None
    is_one = isinstance(found, list) and all(isinstance(each, dict) for each in found)
    return found or [] if is_one else []


_LAYOUTS: tuple[tuple[str, Callable[[Any], bool], Callable[[str, Numbered], ToolRows]], ...] = (
    ("Label Studio", _is_label_studio, _label_studio),
    ("Argilla", _has_responses, _responses),
    ("Prodigy", _has_single_answers, _single_answers),
    ("spaCy", is_pair, _pairs),
    ("Ground Truth", _has_metadata, _ground_truth),
    ("Snips", _has_pieces, _pieces),
    ("a chat log", _has_messages, _messages),
    ("Dataturks", _has_points, _points),
    ("MRQA", _has_questions, _questions),
)
"""Layouts of exports: the title, a predicate for a single row, and the function that reads the
rows. The first layout whose predicate is true for every row is used.
"""


# Annotation files of brat and PubTator.


def brat_spans(name: str, marks: str, text: str) -> tuple[list[list[Any]], Counter[str]]:
    """Return the spans of a brat .ann file, and counts of the annotations that are left out.

    A line such as "T1 PER 0 4 Anna", with tabs around "PER 0 4", is a span. Discontinuous spans,
    relations and events are left out and counted. Other lines, such as notes, are ignored.

    Args:
        name: The name of the file, for messages.
        marks: The content of the file.
        text: The annotated text.

    Returns:
        A list [start, end, label] per span, where `start` is the index of the first character and
        `end` the index after the last one; and the numbers of annotations that are left out, keyed
        by a noun for them, such as "relations and events".

    Raises:
        DataError: A span is malformed, or its repeated text is not the one at its position.
    """
    found: list[list[Any]] = []
    left: Counter[str] = Counter()
    for number, line in enumerate(marks.split("\n"), start=1):
        if not line.startswith("T"):
            left.update(["relations and events"] if line.startswith(("R", "E")) else [])
            continue
        said = re.match(r"T\d+\t(\S+) (\d+) (\d+)(;?)(?:[^\t]*\t(.*))?", line)
        if said is None:
            raise DataError(
                f"{name} line {number} is not a valid span: expected a line such as "
                "'T1\\tPER 0 4\\tAnna'."
            )
        if said[4]:
            left["spans in several pieces"] += 1
            continue
        start, end = int(said[2]), int(said[3])
        if said[5] is not None and _bare(text[start:end]) != _bare(said[5]):
            raise _misplaced(f"{name} line {number}", said[5], (start, end), text)
        found.append([start, end, said[1]])
    return found, left


def _misplaced(place: str, said: str, span: tuple[int, int], text: str) -> DataError:
    """Build the error for a span whose repeated text is not the one at its position."""
    start, end = span
    return DataError(
        f"{place} gives {said[:60]!r} as the text of characters {start} to {end}, but the text "
        f"there is {text[start:end][:60]!r}: correct one of them."
    )


_PUBTATOR = re.compile(
    r"(?P<text>[^|\s]+\|[ta]\|.*)|(?P<mark>\S+\t[0-9]{1,9}\t[0-9]{1,9}\t[^\t]+\t\S.*)|"
    r"(?P<relation>\S+\t\D[^\t]*\t[^\t]+\t.+)|"
)
"""Pattern of a line of PubTator: "ID|t|title", "ID|a|abstract", a marked span (id, start, end,
text, kind and more), a relation, or an empty line.
"""


def pubtator_rows(name: str, text: str) -> tuple[Numbered, int]:
    """Return the documents of a PubTator file, and the number of relations that are left out.

    The text of a document is its title, a space and its abstract.

    Args:
        name: The name of the file, for messages.
        text: The text of the file.

    Returns:
        The id of each document with its "text" and its "entities", which are lists [start, end,
        label]; and the number of relations.

    Raises:
        DataError: A line is not in PubTator's format, or repeats the text of a marked span wrongly.
    """
    texts: dict[str, str] = {}
    marks: dict[str, list[list[Any]]] = {}
    relations = 0
    for number, line in enumerate(text.split("\n"), start=1):
        found = _PUBTATOR.fullmatch(line.rstrip())
        key, *fields = line.rstrip().split("|" if found and found["text"] else "\t", 2)
        if found is None or not (found["text"] or key in texts or not key):
            raise DataError(
                f"{name} line {number} is not in PubTator's format: expected 'ID|t|title', "
                "'ID|a|abstract', or the id, start, end, text and label of a span, separated by "
                "tabs."
            )
        if found["text"]:
            texts[key] = f"{texts[key]} {fields[1]}" if key in texts else fields[1]
        elif found["mark"]:
            start, end, said, kind = line.split("\t")[1:5]
            marked = texts[key][int(start) : int(end)]
            if marked != said:
                raise _misplaced(f"{name} line {number}", said, (int(start), int(end)), texts[key])
            marks.setdefault(key, []).append([int(start), int(end), kind.strip()])
        relations += bool(found["relation"])
    rows = [(key, {"text": said, "entities": marks.get(key, [])}) for key, said in texts.items()]
    return rows, relations
