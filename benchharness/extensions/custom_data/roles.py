"""Roles of a table's columns, and the kinds of tasks that they determine.

A mapping gives roles to columns, and these roles determine the kind of task:

    text [text2] label          one class                (label=a+b: one column per class)
    text [text2] labels         several labels, or none  (labels=a+b: one column per label)
    text [text2] number         a number
    words tags [sentence]       a tag per word           (with `sentence`, each row is one word)
    context question answer [start]   a span of the context
    question options answer [context] one of the options (options=a+b: one column per option)
    question option label [context]   one of the options (each row is one option)

With one column per class or label, a cell is 1 if the class or label applies to the text, else 0.

Any task may have the roles `group`, `split` and `verdict` as well. Rows of one group are all in
train or all in dev if dev is split off from train. `split` contains train, dev or test for each
row. `verdict` contains a word such as "accept" or "rejected" (see verdicts.py). `keys` are names of
the options, such as "A" and "B", one of which is the answer.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Literal, NamedTuple

from benchharness.errors import BenchError
from benchharness.extensions.custom_data.verdicts import VERDICT

Kind = Literal["class", "labels", "number", "tags", "spans", "choice"]
"""Kind of task: one class per text, any number of labels per text, a number per text, a tag per
word, a span of a context, or one of several options.
"""

Columns = Mapping[str, tuple[str, ...]]
"""Names of the columns that have each role, keyed by role. Most roles have one column."""


BESIDE = ("group", VERDICT)
"""Additional roles that any kind of task may have, apart from `split`."""


class Shape(NamedTuple):
    """Roles of the columns for a kind of task.

    Attributes:
        needed: The roles that must have a column.
        allowed: The roles that may have a column.
        said: A noun for the answer in error messages, such as "a class".
        head: The name of the kind of task in notes, such as "classification".
    """

    needed: tuple[str, ...]
    allowed: tuple[str, ...]
    said: str
    head: str


def _shape(needed: str, allowed: str, said: str, head: str = "") -> Shape:
    return Shape(tuple(needed.split()), (*allowed.split(), *BESIDE), said, head or said)


SHAPES: Mapping[Kind, Shape] = {
    "class": _shape("text label", "text2", "a class", "classification"),
    "labels": _shape("text labels", "text2", "several labels", "multi-label classification"),
    "number": _shape("text number", "text2", "a number", "regression"),
    "tags": _shape("words tags", "sentence", "tags", "tags of words"),
    "spans": _shape(
        "context question answer", "start", "a span of the context", "answers in a context"
    ),
    "choice": _shape("options answer", "question context keys", "one of several options"),
}
"""Roles and names of each kind of task. A multiple-choice task whose rows are single options has
the roles in LONG_CHOICE instead.
"""
LONG_CHOICE = ("question", "option", "label")
"""Needed roles of a multiple-choice task whose rows are single options."""
SPLIT = "split"


@dataclass(frozen=True, kw_only=True)
class ColumnMapping:
    """A kind of task, and the columns for each of its roles.

    Attributes:
        kind: The kind of task.
        columns: The names of the columns that have each role, keyed by role.
    """

    kind: Kind
    columns: Columns

    @property
    def words(self) -> str:
        """Mapping in the form of a value of `--columns`, such as "text=review,label=stars"."""
        return ",".join(f"{role}={'+'.join(names)}" for role, names in self.columns.items())

    @property
    def names(self) -> set[str]:
        """Names of all columns that have a role."""
        return {name for names in self.columns.values() for name in names}

    @property
    def is_long_choice(self) -> bool:
        """True if each row is a single option and not a question with all of its options."""
        return "option" in self.columns


def parse_columns(words: str, names: Collection[str]) -> ColumnMapping:
    """Parse a value of `--columns`, such as "text=review,label=stars".

    `names` are the names of the table's columns, for error messages. Raises BenchError if the value
    is malformed, or if its roles fit no kind of task.
    """
    return mapping_of(parse_roles(words), f"--columns {words!r}", names)


def parse_roles(words: str) -> dict[str, tuple[str, ...]]:
    """Parse a value of `--columns` into the names of the columns of each role, keyed by role.

    Raises BenchError if a part is not of the form role=column, or if a role occurs twice.
    """
    columns: dict[str, tuple[str, ...]] = {}
    for part in words.split(","):
        role, equals, names = (each.strip() for each in part.partition("="))
        if not (equals and role and names) or role in columns:
            raise BenchError(
                f"--columns {words!r} is not a list of role=column, with each role once, such as "
                "--columns text=review,label=stars."
            )
        columns[role] = tuple(name.strip() for name in names.split("+"))
    return columns


def mapping_of(columns: Columns, words: str, names: Collection[str] = ()) -> ColumnMapping:
    """Determine the kind of task from the roles that have columns.

    Args:
        columns: The names of the columns that have each role, keyed by role.
        words: The place of the roles for error messages, such as "--columns 'label=stars'".
        names: The names of the table's columns, for error messages about `--columns`.

    Raises:
        BenchError: The roles fit no kind of task.
    """
    given = set(columns) - {SPLIT}
    if set(LONG_CHOICE) <= given <= {*LONG_CHOICE, "context", *BESIDE}:
        return ColumnMapping(kind="choice", columns=columns)
    for kind, shape in SHAPES.items():
        if set(shape.needed) <= given <= {*shape.needed, *shape.allowed}:
            return ColumnMapping(kind=kind, columns=columns)
    shapes = (*(shape.needed for shape in SHAPES.values()), LONG_CHOICE)
    expected = "; ".join(map(" ".join, shapes))
    raise BenchError(
        f"the roles in {words} do not fit any task: expected one of {expected}."
        f"{_completed(columns, shapes, names)}"
    )


def _completed(columns: Columns, shapes: Sequence[Sequence[str]], names: Collection[str]) -> str:
    """Return the value of `--columns` with the roles that the most similar kind of task lacks.

    Empty without the names of the table's columns, or if no role lacks a column.
    """
    given = set(columns)
    near = min(shapes, key=lambda needed: (len({*needed} - given), -len(given & {*needed})))
    lacking = [role for role in near if role not in given]
    if not lacking or not names:
        return ""
    free = [name for name in names if name not in {each for of in columns.values() for each in of}]
    added = {role: (role if role in free else "COLUMN",) for role in lacking}
    option = ColumnMapping(kind="class", columns={**added, **columns}).words
    chosen = " or ".join(free) or "the name of a column"
    last = f"; replace COLUMN by {chosen}." if "COLUMN" in option else "."
    return f" {' and '.join(lacking)} missing: pass --columns {quote(option)}{last}"


def listed(given: Sequence[Any]) -> list[Any]:
    """Return the answer options of a row as one list, without empty ones.

    Each element of `given` is the value of one column: an option or a list of options.
    """
    every = [each for one in given for each in (one if isinstance(one, list) else [one])]
    return [each for each in every if each not in (None, "")]


_NUMBERS = re.compile(r"\d{1,2}(\.0)?(\s*[,;/|+&]\s*\d{1,2})*")


def numbers_in(right: object) -> list[int]:
    """Return the option numbers in an answer: [3] for "3", [1, 4] for "1,4".

    The result is empty if the answer has any other form.
    """
    word = str(right).strip()
    is_one = _NUMBERS.fullmatch(word) and not isinstance(right, bool)
    return [*map(int, re.findall(r"\d+", word.removesuffix(".0")))] if is_one else []


def first_number(pairs: Sequence[tuple[object, Sequence[object]]]) -> int:
    """Return the number that stands for the first option in answers, 1 or 0.

    The result is 1 only if this is certain: some answer equals the number of its options and would
    be out of range if the first option were 0. In addition, some answer is 1 and none is 0, at
    least three quarters of the answers are single numbers, and the answers are not the texts of
    options.

    Args:
        pairs: The answer and the options of each row.
    """
    named = [(numbers_in(right), len(listed(options))) for right, options in pairs]
    if not named or not all(numbers and 0 < max(numbers) <= count for numbers, count in named):
        return 0
    found = {number for numbers, _ in named for number in numbers}
    are_texts = all(right in options or str(right) in options for right, options in pairs)
    are_single = sum(len(numbers) > 1 for numbers, _ in named) <= len(named) / 4
    has_last = any(count > 1 and count in numbers for numbers, count in named)
    return int({0, 1} & found == {1} and has_last and are_single and not are_texts)


def place_of(
    right: object,
    options: Sequence[object],
    keys: Sequence[object] | None = None,
    first: int = 0,
) -> int | None:
    """Return the index of the right option; None if the answer matches no option.

    Args:
        right: The answer: a key, a number, a letter or the text of an option.
        options: The options of the row.
        keys: The keys of the options, of which the answer is one; None if options have no keys.
        first: The number that stands for the first option. With 1, the answer is always a number.
    """
    word = str(right).strip()
    if keys is not None:
        return next((at for at, key in enumerate(keys) if str(key).strip() == word), None)
    if first:
        numbers = numbers_in(right)
        return numbers[0] - 1 if numbers and 0 < numbers[0] <= len(options) else None
    # A text is tried before a number: with the options "3", "2", "1" the answer "2" is the second.
    if right in options or word in options:
        return options.index(right if right in options else word)
    # pandas writes "2.0" for 2 in a column with missing values.
    if re.fullmatch(r"\d+(\.0)?", word):
        return int(float(word)) if int(float(word)) < len(options) else None
    if len(word) == 1 and 0 <= (place := ord(word.lower()) - ord("a")) < len(options):
        return place
    return None
