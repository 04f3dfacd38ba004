"""What a tool or a person said of a row as a whole: accepted, rejected, not looked at.

Rows that were not accepted are left out and counted: by the column with the role `verdict`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchharness.tasks.errors import DataError
from benchharness.tasks.own.columns import Table, key_of

VERDICT = "verdict"

SAID: Mapping[str, str] = {
    **dict.fromkeys(("reject", "rejected", "invalid", "bad", "disapproved"), "rejected"),
    **dict.fromkeys(("ignore", "ignored", "skip", "skipped"), "ignored"),
    **dict.fromkeys(("discard", "discarded", "deleted"), "discarded"),
    **dict.fromkeys(("cancelled", "canceled"), "cancelled"),
    **dict.fromkeys(
        ("draft", "default", "pending", "new", "todo", "open", "unlabeled"), "not finished"
    ),
    **dict.fromkeys(("false", "no", "0", "unconfirmed", "unreviewed"), "not confirmed"),
}
"""The words of a verdict that a row is left out for, in lower case, and what is said of it."""

ACCEPTED = frozenset(
    [
        "accept",
        "accepted",
        "valid",
        "validated",
        "approved",
        "approve",
        "submitted",
        "completed",
        "complete",
        "confirmed",
        "done",
        "reviewed",
        "gold",
        "edited",
        "finished",
        "true",
        "yes",
        "1",
        "labeled",
    ]
)

_NAMES = frozenset(
    [
        "answer",
        "status",
        "state",
        "verdict",
        "decision",
        "review",
        "reviewstatus",
        "annotationstatus",
        "isconfirmed",
        "confirmed",
        "isapproved",
        "approved",
        "accepted",
        "isaccepted",
        "isvalid",
        "valid",
        "isreviewed",
        "reviewed",
    ]
)
_FLAGS = frozenset(["isconfirmed", "isapproved"])
_PRODIGY = frozenset(("accept", "reject", "ignore"))
_RESPONSES = ".responses.status"
"""What Argilla adds to the name of a question: whether each answer was submitted."""


def verdict_column(table: Table) -> tuple[str, bool]:
    """The column that says of each row whether it counts, and whether a tool is sure to mean that.

    Nothing where there is none.
    """
    for name, values in table.columns.items():
        if name.endswith(_RESPONSES) and name.removesuffix(".status") in table.columns:
            return name, True
        words = _words(values)
        if not words & SAID.keys() or not words <= SAID.keys() | ACCEPTED:
            continue
        if _is_of_tool(table, name, words):
            return name, True
        if key_of(name) in _NAMES and words & ACCEPTED and not words <= {"0", "1", "true", "false"}:
            return name, False
    return "", False


def _is_of_tool(table: Table, name: str, words: set[str]) -> bool:
    if name == "answer":  # Prodigy's, of a label, of choices or of spans
        judged = {"label", "accept", "spans"} & set(table.columns) or table.made
        return bool(judged) and words <= _PRODIGY
    if name == "status":  # Argilla's before version 2
        return "annotation" in table.columns
    return key_of(name) in _FLAGS and bool(words & ACCEPTED)  # doccano's


def beside_responses(table: Table, column: str) -> set[str]:
    """The columns of Argilla beside its responses: who gave them, and what a model suggested."""
    question = column.removesuffix(_RESPONSES)
    starts = (f"{question}.responses.", f"{question}.suggestion")
    return {n for n in table.columns if n.startswith(starts)} if question != column else set()


def _words(values: Sequence[Any]) -> set[str]:
    return {_word(each) for value in values for each in _each(value) if each not in (None, "")}


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _word(value: Any) -> str:
    return str(value).strip().lower()


def _reason(value: Any) -> str:
    """Why a row is left out; nothing where it counts, or where one of several people accepted it."""
    found = [SAID.get(_word(each), "") for each in _each(value)]
    return "" if not all(found) or not found else found[0]


def accepted(table: Table, column: str, label: str = "") -> Table:
    """The rows that count, by a column of verdicts; `label` is the column of a class.

    Where all rows have the one label that they were asked about (Prodigy's binary tasks), a rejected
    one is of the class "not LABEL".
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
    notes = (f"left out of {table.name}: {said} ({column})",) if left else ()
    return replace(table, columns=columns, notes=(*table.notes, *notes)).take(rows)


def _agreed(place: str, answers: Any, verdicts: Any) -> Any:
    """The answer of those who submitted one; DataError where they differ."""
    if not isinstance(answers, list) or len(answers) != len(_each(verdicts)):
        return answers
    kept = [a for a, v in zip(answers, _each(verdicts), strict=True) if _word(v) not in SAID]
    if any(answer != kept[0] for answer in kept):
        raise DataError(
            f"{place} has {len(kept)} answers that differ: keep one of each row, such as those of "
            "one person."
        )
    return kept[0] if kept else None
