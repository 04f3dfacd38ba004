"""The roles of a table's columns, and the kinds of tasks that they make.

A mapping gives columns roles, and the roles make the kind of task:

    text [text2] label          one class                (label=a+b: the one column that holds 1)
    text [text2] labels         several labels, or none  (labels=a+b: each column that holds 1)
    text [text2] number         a number
    words tags [sentence]       a tag for every word     (with `sentence` a row is a word)
    context question answer [start]   a span of the context
    question options answer [context] one of the options (options=a+b: a column an option)
    question option label [context]   the same, a row an option

`group` may be beside any of them: rows of one group stay on one side of a split that is made. So
may `split`, which says of each row whether it is of train, dev or test, and `verdict`, which says
whether it counts (see verdicts.py). `keys` are what the answer calls the options, where that is
neither their place nor their text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from benchharness.tasks.errors import BenchError
from benchharness.tasks.own.verdicts import VERDICT

Kind = Literal["class", "labels", "number", "tags", "spans", "choice"]

Columns = Mapping[str, tuple[str, ...]]
"""The columns of each role; most roles have one."""


BESIDE = ("group", VERDICT)
"""The roles that any kind of task may have too, but for `split`."""


class Shape(NamedTuple):
    """A kind's roles, those that it may have too, and how errors and the task's line call it."""

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
LONG_CHOICE = ("question", "option", "label")
SPLIT = "split"


@dataclass(frozen=True, kw_only=True)
class ColumnMapping:
    """One way to read a table."""

    kind: Kind
    columns: Columns

    @property
    def words(self) -> str:
        """What follows --columns."""
        return ",".join(f"{role}={'+'.join(names)}" for role, names in self.columns.items())

    @property
    def names(self) -> set[str]:
        """All columns that have a role."""
        return {name for names in self.columns.values() for name in names}

    @property
    def is_long_choice(self) -> bool:
        """Whether a row is an option."""
        return "option" in self.columns


def parse_columns(words: str) -> ColumnMapping:
    """The mapping that `--columns` gives; BenchError where roles or their sum make no task."""
    return mapping_of(parse_roles(words), words)


def parse_roles(words: str) -> dict[str, tuple[str, ...]]:
    """The columns of each role that `--columns` gives; BenchError where a part is none."""
    columns: dict[str, tuple[str, ...]] = {}
    for part in words.split(","):
        role, equals, names = (each.strip() for each in part.partition("="))
        if not (equals and role and names) or role in columns:
            raise BenchError(
                f"--columns {words!r} is not role=column, each role once, such as "
                "--columns text=review,label=stars."
            )
        columns[role] = tuple(name.strip() for name in names.split("+"))
    return columns


def mapping_of(columns: Columns, words: str) -> ColumnMapping:
    """The mapping of columns with roles; `words` is how an error names them."""
    given = set(columns) - {SPLIT}
    if set(LONG_CHOICE) <= given <= {*LONG_CHOICE, "context", *BESIDE}:
        return ColumnMapping(kind="choice", columns=columns)
    for kind, shape in SHAPES.items():
        if set(shape.needed) <= given <= {*shape.needed, *shape.allowed}:
            return ColumnMapping(kind=kind, columns=columns)
    known = "; ".join(" ".join(n) for n in (*(s.needed for s in SHAPES.values()), LONG_CHOICE))
    raise BenchError(f"the roles of --columns {words!r} make no task: expected one of {known}.")


def listed(given: Sequence[Any]) -> list[Any]:
    """The options of a row that are there; a column may hold one or a list of them."""
    every = [each for one in given for each in (one if isinstance(one, list) else [one])]
    return [each for each in every if each not in (None, "")]


_NUMBERS = re.compile(r"\d{1,2}(\.0)?(\s*[,;/|+&]\s*\d{1,2})*")


def numbers_in(right: object) -> list[int]:
    """The numbers of options in an answer such as "3" or "1,4"; none where it is anything else."""
    word = str(right).strip()
    is_one = _NUMBERS.fullmatch(word) and not isinstance(right, bool)
    return [*map(int, re.findall(r"\d+", word.removesuffix(".0")))] if is_one else []


def first_number(pairs: Sequence[tuple[object, Sequence[object]]]) -> int:
    """What the first option is counted as, by answers with their options: 0, or surely 1.

    Counted from 1, the last option of a row has a number that is none from 0.
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
    """The right option's place from 0: by its key, by that number, by a letter, or by its text.

    Numbers count from `first`; from 1 they go before texts.
    """
    word = str(right).strip()
    if keys is not None:
        return next((at for at, key in enumerate(keys) if str(key).strip() == word), None)
    if first:
        numbers = numbers_in(right)
        return numbers[0] - 1 if numbers and 0 < numbers[0] <= len(options) else None
    # The text goes before the number: of the options "3", "2", "1" the answer "2" is the second.
    if right in options or word in options:
        return options.index(right if right in options else word)
    # "2.0" is what pandas writes for 2 in a column with missing values.
    if re.fullmatch(r"\d+(\.0)?", word):
        return int(float(word)) if int(float(word)) < len(options) else None
    if len(word) == 1 and 0 <= (place := ord(word.lower()) - ord("a")) < len(options):
        return place
    return None
