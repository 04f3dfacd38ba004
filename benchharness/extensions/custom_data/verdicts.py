"""Leave out the rows that a tool or a person rejected, ignored or did not finish.

The column with the role `verdict` has a word for each row, such as "accept" or "rejected". A note
for the user counts the rows that are left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.custom_data.columns import Table, key_of

VERDICT = "verdict"

_BY_REASON = {
    "rejected": "reject rejected invalid bad disapproved",
    "ignored": "ignore ignored skip skipped",
    "discarded": "discard discarded deleted",
    "cancelled": "cancelled canceled",
    "not finished": "draft default pending new todo open unlabeled",
    "not confirmed": "false no 0 unconfirmed unreviewed",
}
SAID: Mapping[str, str] = {
    word: reason for reason, words in _BY_REASON.items() for word in words.split()
}
"""Reason for which a row is left out, keyed by the verdict in its cell, in lower case. For example,
a row with the verdict "bad" is "rejected". Notes for the user contain the reason.
"""

_COUNTED = """
    accept accepted valid validated approved approve submitted completed complete confirmed done
    reviewed gold edited finished true yes 1 labeled
"""
ACCEPTED = frozenset(_COUNTED.split())
"""Verdicts with which a row is kept, in lower case."""

_STATES = frozenset(
    (
        *("answer", "status", "state", "verdict", "decision"),
        *("review", "reviewstatus", "annotationstatus"),
    )
)
_FLAGS = frozenset(
    f"{start}{word}"
    for start in ("is", "")
    for word in ("confirmed", "approved", "accepted", "validated", "valid", "reviewed")
)
"""Normalized names of columns of verdicts. The verdicts in a column of `_FLAGS` are yes and no, or
words; those in a column of `_STATES` are words.
"""

_OF_TOOLS = frozenset(("isconfirmed", "isapproved"))
_YES_OR_NO = frozenset(("true", "false", "yes", "no", "1", "0"))
_PRODIGY = frozenset(("accept", "reject", "ignore"))
_RESPONSES = ".responses.status"
"""Suffix of the name of Argilla's column with the status of each answer."""


def verdict_column(table: Table) -> tuple[str, bool]:
    """Find the column with a verdict for each row, such as "accept" or "rejected".

    Returns:
        The name of the column, or "" if there is none; and True if the column was certainly written
        by an annotation tool, False if its name and values only look like verdicts, or if there is
        no such column.
    """
    for name in table.columns:
        if name.endswith(_RESPONSES) and name.removesuffix(".status") in table.columns:
            return name, True
    for name, values in table.columns.items():
        words = _words(values)
        if not words & SAID.keys() or not words <= SAID.keys() | ACCEPTED:
            continue
        if _is_of_tool(table, name, words):
            return name, True
        names = _FLAGS if words <= _YES_OR_NO else _STATES | _FLAGS
        if key_of(name) in names and words & ACCEPTED:
            return name, False
    return "", False


def _is_of_tool(table: Table, name: str, words: set[str]) -> bool:
    if name == "answer":  # Prodigy's verdict on a label, choices or spans
        judged = {"label", "accept", "spans"} & set(table.columns) or table.made
        return bool(judged) and words <= _PRODIGY
    if name == "status":  # as in Argilla before version 2
        return "annotation" in table.columns
    if key_of(name) == "assignmentstatus":  # as in Mechanical Turk and Toloka
        return any(key_of(each).endswith("workerid") for each in table.columns)
    return key_of(name) in _OF_TOOLS and bool(words & ACCEPTED)  # as in doccano


def beside_responses(table: Table, column: str) -> set[str]:
    """Return the names of the columns that Argilla writes in addition to the answers to a question.

    Examples are the columns with the annotators, and with the answers that a model suggested. The
    result also includes `column` itself, and "status", even if the table has no such column.

    Args:
        table: Table that Argilla exported.
        column: The name of the column of verdicts. If it is not of the form
            "QUESTION.responses.status", which only Argilla uses, the result is empty.
    """
    question = column.removesuffix(_RESPONSES)
    starts = (f"{question}.responses.", f"{question}.suggestion")
    found = {name for name in table.columns if name.startswith(starts)} | {"status"}
    return found if question != column else set()


def _words(values: Sequence[Any]) -> set[str]:
    return {_word(each) for value in values for each in _each(value) if each not in (None, "")}


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _word(value: Any) -> str:
    return str(value).strip().lower()


def _reason(value: Any) -> str:
    """Return the reason to leave a row out; "" if any of its verdicts accepts it."""
    found = [SAID.get(_word(each), "") for each in _each(value)]
    return "" if not all(found) or not found else found[0]


def accepted(table: Table, column: str, label: str = "") -> Table:
    """Drop the rows that were rejected, ignored or not finished, and add a note that counts them.

    If a row has several answers (Argilla), the submitted answer is kept. In Prodigy's binary tasks,
    a rejected row is not dropped but gets the class "not LABEL". A table is such a task if all its
    labels are the same, and all verdicts are "accept", "reject" or "ignore".

    Args:
        table: Table with the rows.
        column: The column with the verdict on each row. If the table lacks it, the table is
            returned unchanged.
        label: The column of classes, or "" if there is none.

    Raises:
        DataError: Several submitted answers to a row differ.
    """
    if column not in table.columns:
        return table
    verdicts = table.columns[column]
    names = {str(value) for value in table.columns.get(label, ()) if value not in (None, "")}
    rows = [row for row, value in enumerate(verdicts) if not _reason(value)]
    columns = dict(table.columns)
    if len(names) == 1 and _words(verdicts) <= _PRODIGY:
        (name,) = names
        rows = [row for row, value in enumerate(verdicts) if _reason(value) != "ignored"]
        columns[label] = [
            f"not {name}" if _reason(verdict) else value
            for verdict, value in zip(verdicts, columns[label], strict=True)
        ]
    if column.endswith(_RESPONSES):
        answers = column.removesuffix(".status")
        columns[answers] = [
            _agreed(table.place(row), value, verdicts[row])
            for row, value in enumerate(columns[answers])
        ]
    kept = set(rows)
    left = Counter(_reason(value) for row, value in enumerate(verdicts) if row not in kept)
    said = ", ".join(f"{count} {reason}" for reason, count in left.items())
    notes = (f"left out of {table.name}: {said} (column {column})",) if left else ()
    return replace(table, columns=columns, notes=(*table.notes, *notes)).take(rows)


def _agreed(place: str, answers: Any, verdicts: Any) -> Any:
    """Return the submitted answer, or None; raise DataError if submitted answers differ."""
    if not isinstance(answers, list) or len(answers) != len(_each(verdicts)):
        return answers
    kept = [a for a, v in zip(answers, _each(verdicts), strict=True) if _word(v) not in SAID]
    if any(answer != kept[0] for answer in kept):
        raise DataError(
            f"{place} has {len(kept)} answers that differ: keep only one per row, such as those "
            "of one annotator."
        )
    return kept[0] if kept else None
