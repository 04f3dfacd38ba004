"""Find the labels of a task, or the range of its numbers, in the rows of its splits."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.custom_data.cells import value_of
from benchharness.extensions.custom_data.columns import NULLS, Column, Table
from benchharness.extensions.custom_data.readings import separator_of
from benchharness.extensions.custom_data.roles import first_number
from benchharness.extensions.custom_data.tags import Spelling, spelling_of
from benchharness.extensions.custom_data.task import (
    OwnData,
    answers_in,
    class_name,
    is_null,
    label_parts,
    may_be_no_label,
    no_column,
    to_examples,
)
from benchharness.tasks.metrics.entities import are_entity_tags
from benchharness.tasks.sources.formats import fields_of


def with_labels(own: OwnData, tables: Mapping[str, Table], *, as_written: bool) -> OwnData:
    """Complete the definition of a task with facts from its rows.

    Depending on the kind of task, these are the labels and the separator between them, the range
    and scale of numbers, whether questions may have no answer, or the number of the first option.

    Args:
        own: Definition of the task.
        tables: The rows of each split, keyed by split.
        as_written: True to use tags unchanged as labels of single words, even if most of them look
            like tags of spans (B-PER).

    Raises:
        DataError: A column is missing, there are fewer than two different labels or numbers, there
            are more labels than half of the rows, or a label or tag has another form than the rest.
    """
    train = tables["train"]
    for name in (name for names in own.columns.values() for name in names):
        if name not in train.columns:
            raise no_column(train, name)
    match own.kind:
        case "number":
            return _with_range(own, tables)
        case "spans":  # a question may have no answer, as in SQuAD 2.0
            examples: Iterator[Any] = to_examples(own, train)
            return replace(own, no_answer=any(example.answers == () for example in examples))
        case "tags":
            return _with_unseen(_with_tags(own, train, as_written=as_written), tables)
        case "choice":
            return replace(own, first_option=first_number(answers_in(own, train)))
    columns = own.columns["label" if own.kind == "class" else "labels"]
    if len(columns) > 1:
        return replace(own, labels=columns)
    _check_values(train, columns[0])
    find = _with_classes if own.kind == "class" else _with_label_sets
    return _with_unseen(find(own, train, columns[0]), tables)


def _check_values(train: Table, column: str) -> None:
    """Raise DataError if some labels are lists or objects written as text, and others are not."""
    values = train.columns[column]
    written = {row for row, value in enumerate(values) if _is_written(value)}
    pieces = [row for row, v in enumerate(values) if row not in written and _is_piece(v)]
    if not written and not pieces:
        return
    rest = [row for row, v in enumerate(values) if row not in written and v not in (None, "")]
    # The error names a value that is only a piece of a list or object. If there is none, it names a
    # value of the rarer form.
    row = (pieces or (rest if len(rest) < len(written) else []) or [min(written)])[0]
    raise DataError(
        f"{train.place(row)} has {str(values[row])[:60]!r} in the column {column!r}, in which "
        "only some rows have a list or an object that was written as text: use the same form in "
        "all rows."
    )


def _is_written(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(part, list | dict) or _is_written(part) for part in value)
    try:
        return not isinstance(value_of(value), str) if isinstance(value, str) else False
    except ValueError:
        return False


def _is_piece(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return any(isinstance(p, str) and bool(re.match(r"""[\[({]\s*['"]""", p)) for p in parts)


def _with_unseen(own: OwnData, tables: Mapping[str, Table]) -> OwnData:
    """Add the labels that occur only in dev or test, sorted among the labels of train."""
    found: set[str] = set()
    for split, table in tables.items():
        if split != "train":
            for example in to_examples(own, table, may_hide=split.startswith("test")):
                found.update(example.traits.labels)
    unseen = found - set(own.labels)
    if not unseen:
        return own
    key = _tag_order([*own.labels, *unseen]) if own.kind == "tags" else _natural
    labels = tuple(sorted({*own.labels, *unseen}, key=key))
    return replace(own, labels=labels, unseen=tuple(sorted(unseen)))


def _with_classes(own: OwnData, train: Table, column: str) -> OwnData:
    values = [class_name(v) for v in _flat(train.columns[column]) if v not in (None, "")]
    # "None" is taken for an empty cell that a program wrote if no other label begins with a capital
    # (a person would have written "none"), or if other columns have "None" too.
    others = (v for name, found in train.columns.items() if name != column for v in found)
    is_capital = any(value[:1].isupper() for value in values if value != "None")
    is_program = not is_capital or any(v == "None" for v in others)
    none = _no_labels({*values} - (set() if is_program else {"None"}))
    values = [value for value in values if value not in none]
    labels = tuple(sorted(set(values), key=_natural))
    if len(labels) < 2:
        said = f"one label, {labels[0]!r}" if labels else "no label"
        raise DataError(f"{train.name} has {said} in the column {column!r}: expected two or more.")
    # With more labels than half of the rows, the labels are probably names or texts, from which
    # nothing can be learned.
    if len(labels) > max(2, len(values) // 2):
        raise DataError(
            f"{train.name} has {len(labels)} labels in {len(values)} rows of the column "
            f"{column!r}: expected several rows per label."
        )
    return replace(own, labels=labels)


def _no_labels(names: Collection[str]) -> Collection[str]:
    """Return the names that mean "no label" instead of a class."""
    none = {name for name in names if may_be_no_label(name)}
    words = {*names} - none
    # If another label has no letters, such as "+", then "-" may be a class as well.
    if not all(re.search(r"[^\W\d_]", word) for word in words):
        none = {name for name in none if name.casefold() in NULLS or name == "None"}
    return none if len(words) > 1 and {name.casefold() for name in none} != {"unknown"} else ()


def _natural(name: str) -> tuple[bool, float, str]:
    """Return a sort key that puts numbers in numeric order before names."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def _with_label_sets(own: OwnData, train: Table, column: str) -> OwnData:
    values = [v for v in train.columns[column] if v is not None and not is_null(v)]
    separator = "" if isinstance(next(iter(values), []), list) else separator_of(values) or ","
    found = {part for value in values for part in label_parts(value, separator)}
    for open_, close in ("[]", "{}", "()"):
        if odd := [part for part in found if part.count(open_) != part.count(close)]:
            raise DataError(
                f"{train.name} has the label {odd[0]!r} in the column {column!r}, which is only a "
                "part of a label: write labels as lists, or use a separator that no label has."
            )
    if len(found) < 2:
        raise DataError(f"{train.name} has fewer than two different labels in {column!r}.")
    return replace(own, labels=tuple(sorted(found, key=_natural)), separator=separator)


def _with_tags(own: OwnData, train: Table, *, as_written: bool) -> OwnData:
    spelling = Spelling(frozenset()) if as_written else spelling_in(own, train)
    if spelling.odd:
        raise _odd_tag(own, train, spelling)
    kinds = sorted(spelling.kinds)
    every = ("O", *(f"{letter}-{kind}" for letter in "BI" for kind in kinds))
    own = replace(own, labels=every if kinds else ())  # used by `to_examples`
    found = {tag for example in to_examples(own, train) for tag in example.traits.labels}
    if len(found) < 2:
        raise DataError(f"{train.name} has fewer than two different tags.")
    return replace(own, labels=tuple(sorted(found, key=_tag_order(found))))


def _tag_order(tags: Collection[str]) -> Callable[[str], tuple[bool, str]]:
    """Return a sort key for tags: alphabetical, with O first if they are entity tags."""
    if are_entity_tags(tags):
        return lambda tag: (tag != "O", tag)
    return lambda tag: (False, tag)


def written_tags(own: OwnData, train: Table) -> Iterator[tuple[int, int, str]]:
    """Yield the row index, the position in the row and the original text of each tag.

    Empty tags are skipped. If each row is a single word, all positions are 0.

    Args:
        own: The definition of the task.
        train: The rows of train.
    """
    for row, value in enumerate(train.columns[own.columns["tags"][0]]):
        each = (
            fields_of(value) if isinstance(value, str) and "sentence" not in own.columns else value
        )
        for place, tag in enumerate(each if isinstance(each, list) else [each]):
            if tag not in (None, ""):
                yield row, place, class_name(tag)


def spelling_in(own: OwnData, train: Table) -> Spelling:
    """Detect the scheme of the tags in the rows of train, such as IOB2."""
    return spelling_of(Counter(tag for _, _, tag in written_tags(own, train)))


def _odd_tag(own: OwnData, train: Table, spelling: Spelling) -> DataError:
    """Build the error for a tag that does not follow the scheme of the other tags."""
    row, place, tag = next(found for found in written_tags(own, train) if found[2] in spelling.odd)
    where = train.place(row) if "sentence" in own.columns else train.place_of_word(row, place)
    return DataError(
        f"{where} has the tag {tag!r}, which does not follow the scheme of the other tags (spans "
        f"of {', '.join(sorted(spelling.kinds)[:6])}): correct it, or pass --metric accuracy to "
        "score the tags as they are written, word by word."
    )


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list) else [] if value in (None, "") else [value]


def _with_range(own: OwnData, tables: Mapping[str, Table]) -> OwnData:
    (name,) = own.columns["number"]
    own = replace(own, decimal=Column("", tables["train"].columns[name]).decimal)
    numbers = {split: _numbers(own, table) for split, table in tables.items()}
    # The labels of test are hidden if every number there is -1, and none in train is negative.
    if set(numbers.get("test", ())) == {-1.0} and min(numbers["train"], default=-1.0) >= 0:
        del numbers["test"]
    found = [number for each in numbers.values() for number in each]
    if len(set(found)) < 2:
        raise DataError(f"{tables['train'].name} has fewer than two different numbers in {name!r}.")
    scale = _scale(fmean(found), pstdev(found))
    return replace(own, value_range=(min(found), max(found)), scale=scale)


def _numbers(own: OwnData, table: Table) -> list[float]:
    examples: list[Any] = [*to_examples(own, table, may_hide=True)]
    return [e.label for e in examples if isinstance(e.label, float)]


def _scale(mean: float, spread: float) -> tuple[float, float]:
    """Return round numbers (offset, divisor) that normalize numbers with this mean and spread.

    A number is learned as (number - offset) / divisor. With a moderate mean and spread the result
    is (0.0, 1.0), which changes nothing.
    """
    if 0.1 <= spread <= 10 and abs(mean) <= 10:
        return 0.0, 1.0
    # The spread is rounded to one digit: mean 52,300 and spread 1,480 give (52000.0, 1000.0).
    one = float(f"{spread:.0e}")
    return float(round(mean / one) * one), one
