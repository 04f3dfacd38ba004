"""Parse the values of `--groups`, and find the rows that belong to each group.

A value of `--groups` has one of these forms, and is never evaluated as code:

* `length`: thirds by the number of words
* `category`: the benchmark's own categories, such as RACE's levels
* `answer`: the gold answer, for tasks with classes or labels
* the name of a column of custom data: one group per value
* a condition, `SUBJECT OPERATOR VALUE`, such as `len(text) > 100`: the rows that fulfil it, and
  all other rows
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.task import OwnData, no_column, table_of
from benchharness.leaderboard.comparing.contrast import slices_of
from benchharness.leaderboard.job import Job
from benchharness.tasks.examples import Example
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task, split_title

LENGTH, CATEGORY, ANSWER = "length", "category", "answer"

DEFAULT = (LENGTH, CATEGORY)
"""Groupings of a split without `--groups`. A grouping is left out if a split has no such groups."""

MOST_VALUES = 30
"""Largest number of groups of one grouping, i.e. of different values of a column."""

_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

_CONDITION = re.compile(r"(.+?)\s*(<=|>=|!=|=|<|>|\scontains\s)\s*(.+)", re.DOTALL)

_FORMS = (
    f"expected {LENGTH}, {CATEGORY}, {ANSWER}, the name of a column, or a condition such as "
    "'len(text) > 100', 'words(text) <= 20', 'text contains refund' or 'COLUMN = VALUE'"
)

Groups = Mapping[str, Sequence[int]]
"""Indices of the examples in each group, keyed by the name of the group."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Examples of a split, with access to the other columns of custom data.

    Attributes:
        examples: Examples of the split, in order.
        job: Job that predicted the examples; it has the location of the data.
        split: Name of the split.
    """

    examples: tuple[Example, ...]
    job: Job
    split: str

    @property
    def title(self) -> str:
        """Title of the task and the split, such as "RTE dev"."""
        return split_title(self.job.task, self.split)

    def column(self, name: str) -> list[Any] | None:
        """Return the value of each example in a column of the custom data.

        The result is None if the task has no custom data, or the data do not have the column. If
        several rows of the table form one example, its value is the value in the first of them.

        Raises:
            DataError: The data cannot be read.
        """
        task = find_task(self.job.task)
        if not task.definition:
            return None
        own = OwnData.from_json(task.definition)
        split = "train" if own.held_out and self.split == "dev" else self.split
        table = table_of(own, split, parse_data(self.job.data).folder)
        if name not in table.columns:
            return None
        known = dict(zip(table.ids, table.columns[name], strict=True))
        return [known[example.id] for example in self.examples]


def groups_of(spec: str, rows: Rows) -> Groups:
    """Return the groups of rows for one value of `--groups`.

    Rows with an empty cell in a column are in no group.

    Args:
        spec: Value of `--groups`, in one of the forms in the module's docstring.
        rows: Examples of the split.

    Raises:
        BenchError: The value has another form, a column has too many values, or no row of this
            split fulfils a condition or no row contradicts it.
        DataError: A cell that is compared with a number is not a number, or the data cannot be
            read.
    """
    spec = spec.strip()
    if spec in (LENGTH, CATEGORY):
        return _slices(spec, rows)
    if spec == ANSWER:
        return _by_value(spec, rows, [_answer(example) for example in rows.examples])
    if (values := rows.column(spec)) is not None:
        return _by_value(spec, rows, values)
    if found := _CONDITION.fullmatch(spec):
        return _by_condition(rows, *(part.strip() for part in found.groups()))
    raise _unknown(spec, rows)


def _unknown(spec: str, rows: Rows) -> BenchError:
    task = find_task(rows.job.task)
    if task.definition:
        own = OwnData.from_json(task.definition)
        table = table_of(own, "train", parse_data(rows.job.data).folder)
        return BenchError(f"--groups {spec!r}: {no_column(table, spec)} Otherwise {_FORMS}.")
    return BenchError(f"--groups {spec!r} is unknown for {rows.title}: {_FORMS}.")


def _slices(spec: str, rows: Rows) -> Groups:
    if spec == LENGTH:
        found = slices_of(rows.examples)
        return {name: places for name, places in found.items() if re.match(r"words \d/\d", name)}
    groups: dict[str, list[int]] = {}
    for place, example in enumerate(rows.examples):
        for name in example.traits.slices:
            groups.setdefault(name, []).append(place)
    return groups


def _answer(example: Example) -> str:
    """Return the name of an example's group by gold answer.

    The name consists of the labels or the class, or states if the question has an answer. It is ""
    if the answer is hidden.
    """
    traits = example.traits
    if traits.labels:
        return " and ".join(traits.labels)
    gold = getattr(example, example.gold_field)
    if isinstance(gold, tuple):
        return "with an answer" if gold else "without an answer"
    return "" if gold is None else str(gold)


def _by_value(spec: str, rows: Rows, values: Sequence[Any]) -> Groups:
    groups: dict[str, list[int]] = {}
    for place, value in enumerate(values):
        if value not in (None, ""):
            groups.setdefault(f"{spec} {value}", []).append(place)
    if len(groups) > MOST_VALUES:
        raise BenchError(
            f"--groups {spec!r} has {len(groups)} different values on {rows.title}, and at most "
            f"{MOST_VALUES} can be compared: use a condition, such as '{spec} = VALUE'."
        )
    return dict(sorted(groups.items()))


def _by_condition(rows: Rows, subject: str, operation: str, value: str) -> Groups:
    values = _subject(rows, subject)
    if operation in _ORDERS:
        bound = _number(value, f"--groups compares {subject} with {value!r}", BenchError)
        compare = _ORDERS[operation]
        texts = zip(rows.examples, values, strict=True)
        numbers = [_cell(text, example, subject, rows) for example, text in texts]
        fits = [None if n is None else compare(n, bound) for n in numbers]
    elif operation == "contains":
        fits = [None if v is None else value.casefold() in str(v).casefold() for v in values]
    else:
        wanted = operation == "="
        fits = [None if v is None else (str(v).strip() == value) is wanted for v in values]
    name = f"{subject} {operation} {value}"
    places = {name: [n for n, fit in enumerate(fits) if fit]}
    places["others"] = [n for n, fit in enumerate(fits) if fit is False]
    if lacking := [each for each, found in places.items() if not found]:
        raise BenchError(
            f"--groups {name!r}: no row of {rows.title} is in the group {lacking[0]!r}. Use "
            "another value."
        )
    return places


def _subject(rows: Rows, subject: str) -> Sequence[Any]:
    """Return each example's value for the left side of a condition; None for an empty value."""
    measures: Mapping[str, Callable[[str], Any]] = {
        "text": str,
        "len(text)": len,
        "words(text)": lambda text: len(text.split()),
    }
    if (column := rows.column(subject)) is not None:
        return [None if value == "" else value for value in column]
    if subject in measures:
        return [measures[subject](_text(example)) for example in rows.examples]
    if subject == ANSWER:
        return [_answer(example) or None for example in rows.examples]
    raise _unknown(subject, rows)


def _text(example: Example) -> str:
    return " ".join(filter(None, example.traits.texts))


def _cell(value: Any, example: Example, subject: str, rows: Rows) -> float | None:
    place = f"row {example.id!r} of {rows.title} has {value!r} in {subject!r}"
    return None if value is None else _number(value, place, DataError)


def _number(value: Any, place: str, error: type[BenchError]) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise error(
            f"{place}, which is not a number: compare it with '=' or 'contains' instead."
        ) from None


def with_groups(specs: Iterable[str], rows: Rows) -> dict[str, Groups]:
    """Return the groups of rows for each value of `--groups`, keyed by the value.

    Without values, use the groupings in `DEFAULT`, and leave out groups with a single row and
    groupings with fewer than two groups.

    Args:
        specs: Values of `--groups`; may be empty.
        rows: Examples of the split.

    Raises:
        BenchError: A value has an unknown form, puts all rows in one group, or has a group with a
            single row.
    """
    asked = tuple(specs)
    found = {spec: groups_of(spec, rows) for spec in asked or DEFAULT}
    for spec, groups in found.items():
        alone = next((name for name, places in groups.items() if len(places) == 1), "")
        if alone and asked:
            raise BenchError(
                f"--groups {spec!r}: the group {alone!r} of {rows.title} has only one row, so its "
                "interval cannot be computed: use a condition that joins it with other rows."
            )
        if asked and len(groups) < 2:
            raise BenchError(
                f"--groups {spec!r}: all rows of {rows.title} are in one group, so there is "
                "nothing to compare. Use another grouping."
            )
    if asked:
        return found
    plain = {s: {n: p for n, p in each.items() if len(p) > 1} for s, each in found.items()}
    return {spec: groups for spec, groups in plain.items() if len(groups) > 1}
