"""Convert rows of any table to examples of a model's task, ignoring labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.annotations import words_in
from benchharness.extensions.custom_data.columns import NAMED, PAIRS, Table, key_of
from benchharness.extensions.custom_data.roles import BESIDE, SHAPES, SPLIT, Kind, parse_roles
from benchharness.extensions.custom_data.task import HIDDEN, OwnData, no_column, to_examples
from benchharness.extensions.custom_data.verdicts import VERDICT
from benchharness.tasks.examples import Example
from benchharness.tasks.task import Task, find_fault

KINDS: Mapping[str, Kind] = {
    "class": "class",
    "labels": "labels",
    "number": "number",
    "span": "spans",
    "choice": "choice",
    "tag": "tags",
}
"""Kinds of custom tasks (see the extension custom_data), keyed by the equivalent `kind` of a task.
Only for these kinds can `--columns` assign roles, such as "text", to the columns of a table.
"""

TEXTS = ("text", "sentence")
"""Usual names of the column with texts in tables that have only one text per row."""

Reader = Callable[[Table], list[Example]]


def reader_of(task: Task, columns: str = "") -> Reader:
    """Create a function that converts the rows of a table to examples of a task, without labels.

    Args:
        task: Task of the examples.
        columns: Columns to read, in the format of `--columns`, e.g. "text=review". If it is empty,
            the names of columns in the task's own data are used or, if a table does not have these,
            other usual names.

    Returns:
        A function that takes a table, and returns its examples. It raises DataError if the table
        lacks columns or has an invalid row.

    Raises:
        BenchError: `columns` does not fit the task.
    """
    given = parse_roles(columns) if columns else {}
    kind = KINDS.get(task.kind)
    if given and kind is None:
        raise BenchError(
            f"--columns cannot be used for {task.title}: rename the columns as in its data set."
        )
    own = OwnData.from_json(task.definition) if task.definition else None
    if kind is not None:
        _check_roles(task, given, own)

    def read(table: Table) -> list[Example]:
        if own is not None:
            asked, rows = (own, table) if given else _with_plain_text(own, table)
            examples = _by_roles(replace(asked, columns={**asked.columns, **given}), rows)
        elif given or not _is_official(task, table):
            examples = _by_roles(_as_own(task, given or _named_roles(task, table), table), table)
        else:
            examples = [_official(task, table, number) for number in range(len(table.ids))]
        for number, example in enumerate(examples):
            if fault := find_fault(task, example):
                raise DataError(f"{table.place(number)} {fault}.")
        return examples

    return read


def _as_own(task: Task, roles: Mapping[str, tuple[str, ...]], table: Table) -> OwnData:
    """Return a task definition for columns with roles; raise DataError if there are none."""
    if not roles:
        raise _no_columns(task, table)
    kind = KINDS[task.kind]
    labels = dict.fromkeys(SHAPES[kind].needed, ("",))  # labels have no column
    return OwnData(title=task.title, kind=kind, columns={**labels, **roles}, metrics=())


def _by_roles(own: OwnData, table: Table) -> list[Example]:
    """Convert a table to examples without labels; several rows may form an example."""
    hidden = {name for role in HIDDEN for name in own.columns.get(role, ())} | {""}
    inputs = {n for r, names in own.columns.items() if r not in HIDDEN for n in names}
    columns = {n: v for n, v in table.columns.items() if n in inputs or n not in hidden}
    beside = (SPLIT, VERDICT, "keys")
    roles = {role: names for role, names in own.columns.items() if role not in beside}
    return list(
        to_examples(replace(own, columns=roles), replace(table, columns=columns), may_hide=True)
    )


def _with_plain_text(own: OwnData, table: Table) -> tuple[OwnData, Table]:
    """Add to a table with a single text per row the columns that the model was trained on.

    The text is used for the first of several text columns, and split into words for a tagging task.
    Other tables are returned unchanged.
    """
    name = next((n for n in ("text", *table.columns) if n in table.columns), "")
    is_plain = len(table.columns) == 1 or name == "text"
    first, *others = own.columns.get("words" if own.kind == "tags" else "text", ("",))
    if not is_plain or {first, *others} & {*table.columns, ""} or "text2" in own.columns:
        return own, table
    texts = table.columns[name]
    columns: dict[str, Sequence[Any]] = {each: [""] * len(texts) for each in others}
    columns[first] = texts
    if own.kind == "tags":
        columns[first] = [words_in(text) if isinstance(text, str) else text for text in texts]
        own = replace(own, columns={r: n for r, n in own.columns.items() if r != "sentence"})
    return own, replace(table, columns={**table.columns, **columns})


def _check_roles(task: Task, given: Mapping[str, Sequence[str]], own: OwnData | None) -> None:
    shape = SHAPES[KINDS[task.kind]]
    roles = [r for r in (*shape.needed, *shape.allowed) if r not in (*HIDDEN, *BESIDE, "keys")]
    known = {*roles, *(own.columns if own else ())}
    lacking = [r for r in shape.needed if given and r in roles and r not in given]
    if given and (given.keys() - known or (lacking and not own)):
        raise BenchError(
            f"--columns has the roles {', '.join(given)}, but {task.title} reads "
            f"{', '.join(roles)}: use e.g. --columns {roles[0]}=COLUMN."
        )


# Read rows in the benchmark's own format.


def _row(task: Task, table: Table, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {name: values[number] for name, values in table.columns.items()}
    return {"idx": table.ids[number], **row, task.source.label: None}


def _is_official(task: Task, table: Table) -> bool:
    """Return whether a table has all columns of the task's own rows, except for labels."""
    try:
        task.convert(_row(task, table, 0))
    except KeyError:
        return False
    except (BenchError, TypeError, ValueError, IndexError):
        return True  # an invalid row is reported later, with its location
    return True


def _official(task: Task, table: Table, number: int) -> Example:
    try:
        return task.convert(_row(task, table, number))
    except (BenchError, KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{table.place(number)} is not a row of {task.title}: {error}.") from error


# Find columns that have the names of their roles, or other usual names.


def _named_roles(task: Task, table: Table) -> dict[str, tuple[str, ...]]:
    """Return the columns of each role by their names; {} if a required role has no column."""
    if task.kind not in KINDS or getattr(task, "classes", False):
        return {}
    by_key = {key_of(name): name for name in reversed(list(table.columns))}
    if KINDS[task.kind] in ("class", "labels", "number"):
        return _text_roles(task, table, by_key)
    shape = SHAPES[KINDS[task.kind]]
    found: dict[str, tuple[str, ...]] = {}
    for role in (*shape.needed, *shape.allowed):
        if role in HIDDEN or role in (*BESIDE, "keys", "sentence"):
            continue
        keys = [role, *sorted(NAMED.get(role, frozenset()) - NAMED["right"])]
        if name := next((by_key[key] for key in keys if key in by_key), ""):
            found[role] = (name,)
        elif role in shape.needed:
            return {}
    return found


def _text_roles(task: Task, table: Table, by_key: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    wants_two = _wants_two(task)
    if wants_two is not False:
        for one, other in (("text", "text2"), *PAIRS):
            if one in by_key and other in by_key:
                return {"text": (by_key[one],), "text2": (by_key[other],)}
    names = [by_key[key] for key in TEXTS if key in by_key] or list(table.columns)
    is_told = bool(by_key.keys() & set(TEXTS)) or len(names) == 1
    return {"text": (names[0],)} if is_told and not wants_two else {}


class _AnyRow(dict[str, Any]):
    """Row with a text in every column, used to find out how many texts a task reads."""

    def __missing__(self, column: str) -> str:
        return "text"


def _wants_two(task: Task) -> bool | None:
    """Return whether a row of a task has two texts; None if it is unknown."""
    try:
        example: Any = task.convert(_AnyRow({task.source.label: None}))
        return example.text_b is not None
    except (BenchError, AttributeError, KeyError, TypeError, ValueError, IndexError):
        return None


def _no_columns(task: Task, table: Table) -> DataError:
    """Return the error for a table that lacks the columns of a task."""
    try:
        task.convert(_row(task, table, 0))
    except KeyError as error:
        said = str(no_column(table, str(error.args[0])))
    else:
        said = f"{table.name} does not have the columns of {task.title}."
    kind = KINDS.get(task.kind)
    roles = [r for r in SHAPES[kind].needed if r not in HIDDEN] if kind else []
    if "text" in roles and _wants_two(task):
        roles.append("text2")
    hint = ",".join(f"{role}=COLUMN" for role in roles)
    more = f"; name the columns with --columns {hint}" if hint else ""
    return DataError(f"{said.removesuffix('.')}{more}.")
