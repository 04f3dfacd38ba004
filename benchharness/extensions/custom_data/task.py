"""Definitions of tasks on users' data, and the tasks that are built from them.

A definition is plain data that is stored with a job and sent to workers. The task can be built from
its definition and the files of rows alone.
"""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.custom_data.cells import read_cells
from benchharness.extensions.custom_data.columns import MISSING, NULLS, Table, to_number
from benchharness.extensions.custom_data.leaks import duplicate_groups
from benchharness.extensions.custom_data.metrics import Script, codes_of, known_metrics, metrics_of
from benchharness.extensions.custom_data.places import split_files, split_of
from benchharness.extensions.custom_data.roles import (
    SPLIT,
    ColumnMapping,
    Kind,
    listed,
    mapping_of,
    numbers_in,
    place_of,
)
from benchharness.extensions.custom_data.tables import hub_table, read_table
from benchharness.extensions.custom_data.tags import kinds_of, to_iob
from benchharness.extensions.custom_data.verdicts import VERDICT, accepted
from benchharness.tasks.examples import (
    ChoiceExample,
    Example,
    PairExample,
    SpanExample,
    TagExample,
)
from benchharness.tasks.foreign_code import Code, name_code_of_plugin
from benchharness.tasks.metrics.entities import to_iob2
from benchharness.tasks.read import sample
from benchharness.tasks.sources.formats import fields_of
from benchharness.tasks.sources.hub import hub_dataset
from benchharness.tasks.sources.source import Row, Source, Split
from benchharness.tasks.squad import find_answer
from benchharness.tasks.suite import ScoreRule, Suite
from benchharness.tasks.suites import SUITES, TASKS, add_suite, forget_suite
from benchharness.tasks.task import ChoiceTask, PairTask, SpanTask, TagTask, Task


@dataclass(frozen=True, kw_only=True)
class OwnData:
    """Definition of a task on a user's data; it does not contain the paths of the data files.

    Attributes:
        title: The title of the task. It is derived from the name of the file, folder or data set,
            or given in a TOML file.
        kind: The kind of task, such as "class" for one class per text (see roles.py).
        columns: The names of the columns with each role, keyed by role: {"text": ("review",),
            "label": ("stars",)}.
        metrics: The values of `--metric`.
        labels: The names of classes, labels or tags, in the order of the logits; empty for other
            kinds of task.
        unseen: The labels that occur in dev or test but not in train. They are also in `labels`,
            and predictions for their rows count as wrong.
        scripts: Facts about each metric of the `evaluate` library: the digest of its code, and its
            score for right answers. They are keyed by the value of `--metric`.
        separator: The separator between several labels in a cell; "" if cells are lists, or for
            other kinds of task.
        value_range: The lowest and the highest number, for regression; None for other kinds.
        scale: The pair (offset, divisor). In training, a number is replaced by (number - offset) /
            divisor.
        no_answer: True if some questions of train have no answer in their context.
        first_option: The number that stands for the first option in answers, 0 or 1.
        splits: The name on the hub of each split, keyed by "train", "dev" and, if it exists,
            "test"; the names are "" for files.
        held_out: The share of train that becomes dev if the data have no dev; else 0.
        encoding: The encoding of the files if the user gave it, else "".
        no_header: True if line 1 of a table is a row and not the names of its columns.
        sheet: The sheet of an Excel workbook if the user gave it, else "".
        decimal: The decimal mark of numbers, "." or ",".
        hub: The hub's repository with the rows; "" for files.
        config: The config of the data set on the hub; "" for files.
        revision: The commit of the repository, or possibly its branch if a TOML file defines the
            task; "" for files.
        digits: The six hex digits in the task's name. "" means that they are computed from the
            other fields. If the paths of scripts have been removed from the definition, the digits
            cannot be computed any more and are stored here.
    """

    title: str
    kind: Kind
    columns: Mapping[str, tuple[str, ...]]
    metrics: tuple[str, ...]
    labels: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    scripts: Mapping[str, Script] = field(default_factory=dict)
    separator: str = ""
    value_range: tuple[float, float] | None = None
    scale: tuple[float, float] = (0.0, 1.0)
    no_answer: bool = False
    first_option: int = 0
    splits: Mapping[str, str] = field(default_factory=lambda: {"train": "", "dev": ""})
    held_out: float = 0.0
    encoding: str = ""
    no_header: bool = False
    sheet: str = ""
    decimal: str = "."
    hub: str = ""
    config: str = ""
    revision: str = ""
    digits: str = ""

    @property
    def name(self) -> str:
        """Full name, "TITLE-DIGITS/TITLE"; the digits distinguish tasks with the same title."""
        text = json.dumps(self.to_json(), sort_keys=True)
        digits = self.digits or hashlib.sha256(text.encode()).hexdigest()[:6]
        return f"{self.title}-{digits}/{self.title}"

    @property
    def source(self) -> Source:
        """Source of the task's rows, on the hub or in files."""
        return Source(
            hub=self.hub,
            config=self.config,
            revision=self.revision,
            splits={name: Split(hub=there, files=()) for name, there in self.splits.items()},
            reader=partial(_rows, self),
        )

    @property
    def code(self) -> list[Code]:
        """Third-party code that runs when the metrics of the task are computed."""
        return codes_of(self.metrics, self.scripts)

    @property
    def mapping(self) -> ColumnMapping:
        """Kind of the task, and the names of the columns that have each role."""
        return mapping_of(self.columns, self.title)

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON data.

        Fields other than title, kind, columns and metrics are left out if they have their default
        value.
        """
        # Defaults are left out, so that new fields do not change the names of stored tasks. Both
        # sides of the comparison are converted to JSON and back, which turns tuples into lists.
        default = OwnData(title="", kind="class", columns={}, metrics=())
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        plain = json.loads(json.dumps(asdict(default)))
        always = ("title", "kind", "columns", "metrics")
        return {n: v for n, v in found.items() if n in always or v != plain[n]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "OwnData":
        """Create a definition from the data that `to_json` returned.

        Raises DataError if the data are damaged.
        """
        try:
            found: dict[str, Any] = {
                n: tuple(v) if isinstance(v, list) else v for n, v in data.items()
            }
            found["columns"] = {role: tuple(names) for role, names in data["columns"].items()}
            scripts = data.get("scripts", {}).items()
            found["scripts"] = {word: Script(*script) for word, script in scripts}
            own = cls(**found)
            mapping_of(own.columns, own.title)
            if own.digits and not re.fullmatch("[0-9a-f]{6}", own.digits):
                raise ValueError(own.digits)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"the stored definition of a task is damaged and cannot be read: {error!r}."
            ) from error
        return own


# Building a task from its definition.


def define(data: Mapping[str, Any]) -> Task:
    """Build and register the task of a stored definition, or return the registered task.

    If the definition of the registered task has stored digits (`OwnData.digits`) and `data` has
    none, the registered task is replaced. The reason is that a definition with stored digits lacks
    the paths of its scripts, or may have been edited to have the name of another task.

    Args:
        data: The definition, as `OwnData.to_json` returned it.
    """
    own = OwnData.from_json(data)
    known = TASKS.get(own.name)
    if known and known.definition and "digits" in known.definition and not own.digits:
        forget_suite(known.suite)
    return TASKS.get(own.name) or add(own_task(own))


def add(task: Task) -> Task:
    """Register a task on a user's data as the only task of a new suite.

    Returns the task that is registered under this name, which is an older one if the suite exists
    already.
    """
    if task.suite not in SUITES:
        cells = {task.name: tuple(metric.name for metric in task.metrics)}
        rule = ScoreRule(name=f"score of {task.title}", cells=cells, cite="the task's metric")
        add_suite(
            Suite(name=task.suite, title=task.title, tasks=(task.name,), rule=rule, cite=""), [task]
        )
    return TASKS[task.name]


def own_task(own: OwnData, name: str = "") -> Task:
    """Build the task of a definition, without registering it.

    Args:
        own: Definition of the task.
        name: The full name of the task, such as "mine/reviews", if a plugin or a TOML file creates
            the task. The code that the metrics use may then be loaded, because a plugin is trusted.
            "" for the name in the definition.

    Raises:
        BenchError: A metric does not fit the task.
    """
    if name:
        name_code_of_plugin(own.code)
    known = known_metrics(own.kind, own.labels, no_answer=own.no_answer, unseen=own.unseen)
    chosen = metrics_of(own.metrics, known, own.labels, own.scripts)
    counted = {metric.name for metric in chosen}
    facts: dict[str, Any] = {
        "name": name or own.name,
        "title": own.title,
        "source": own.source,
        "convert": itemgetter("example"),
        "metrics": chosen,
        "details": tuple(metric for metric in known.values() if metric.name not in counted),
        "leaves_out": _is_incomplete,
        "definition": None if name else own.to_json(),
    }
    match own.kind:
        case "tags":
            return TagTask(**facts, tags=own.labels)
        case "spans":
            return SpanTask(**facts, no_answer=own.no_answer)
        case "choice":
            return ChoiceTask(**facts)
        case "number":
            return PairTask(**facts, value_range=own.value_range, scale=own.scale)
    return PairTask(**facts, labels=own.labels, multi_label=own.kind == "labels")


def _is_incomplete(split: str, example: Example) -> bool:
    """Return whether a row of train or dev is left out, because it lacks a text or a label.

    Rows of train are also left out if their answer cannot be learned.
    """
    traits = example.traits
    unlearnable = split == "train" and traits.is_unlearnable
    return not split.startswith("test") and (example.is_hidden or traits.is_blank or unlearnable)


# The rows of a split.


def _rows(own: OwnData, split: str, place: Path | None) -> list[Row]:
    return [{"example": example} for example in examples_of(own, split, place)]


def examples_of(own: OwnData, split: str, place: Path | None) -> Sequence[Example]:
    """Read the examples of a split of a task.

    Args:
        own: The definition of the task.
        split: The name of the split. If the data have no dev split, "train" and "dev" are the two
            parts into which the rows of train are split.
        place: The file or folder with the rows; None to read them from the hub.

    Raises:
        DataError: A row does not fit the definition. The error contains the location of the row.
    """
    if own.held_out and split in ("train", "dev"):
        train, dev = part(own, table_of(own, "train", place))
        return train if split == "train" else dev
    table = table_of(own, split, place)
    return list(to_examples(own, table, may_hide=split.startswith("test")))


def table_of(own: OwnData, split: str, place: Path | None) -> Table:
    """Return the rows of a split as a table, without rows that were rejected or not finished.

    `place` is the file or folder with the rows, or None for the hub. Raises DataError if the rows
    cannot be read.
    """
    table = _of_split(own, split, place)
    if VERDICT not in own.columns:
        return table
    is_class = own.kind == "class" and len(own.columns["label"]) == 1
    return accepted(table, own.columns[VERDICT][0], own.columns["label"][0] if is_class else "")


def _of_split(own: OwnData, split: str, place: Path | None) -> Table:
    table = _all_rows(own, split, place)
    if SPLIT not in own.columns:
        return table
    (name,) = own.columns[SPLIT]
    if name not in table.columns:
        raise no_column(table, name)
    # If dev is held out, its rows come from the train split.
    wanted = "train" if split == "dev" and own.held_out else split
    found = table.columns[name]
    return table.take([row for row, value in enumerate(found) if split_of(str(value)) == wanted])


def _all_rows(own: OwnData, split: str, place: Path | None) -> Table:
    if place is None:
        dataset = hub_dataset(own.source, split)
        return read_cells(hub_table(f"{own.hub} {own.splits[split]}", dataset))
    files = split_files(place)
    found = files.get(split) or files.get("all")
    if found is None:
        raise DataError(f"the {split} file is missing in {place}: restore it.")
    return read_table(found, own.encoding, no_header=own.no_header, sheet=own.sheet)


def part(own: OwnData, table: Table) -> tuple[list[Example], list[Example]]:
    """Split rows into train and dev, with the labels in the same proportions; return both.

    Rows that share a value in the group column, a passage or nearly the same text are all in train
    or all in dev. If most texts are nearly the same, only rows with equal texts stay together. The
    choice is deterministic, and every label in dev is also in train.

    Args:
        own: The definition of the task. `own.held_out` is the share of dev.
        table: Table with the rows to split.

    Raises:
        DataError: The rows cannot be split, because they have too few different texts or groups.
    """
    examples = list(to_examples(own, table))
    whole = [e for e in examples if not _is_incomplete("train", e)]
    named = [table.columns[name] for name in own.columns.get("group", ())]
    # Rows with an empty cell in the group column need not stay together.
    given = {n: v for values in named for n, v in zip(table.ids, values, strict=True) if v}
    for is_near in (True, False):  # if most texts are near duplicates, group only equal ones
        groups = duplicate_groups(examples, given, is_near=is_near)
        dev_ids = _dev_of(own, whole, groups)
        # Whole groups rarely give exactly the wanted share. If dev gets less than half of this
        # share, the groups are too large.
        if len(dev_ids) >= own.held_out * len(whole) / 2:
            break
    dev = [example for example in examples if example.id in dev_ids]
    train = [example for example in examples if example.id not in dev_ids]
    if not dev or not train:
        raise DataError(
            f"{table.name} cannot be split into train and dev, because its {len(whole)} rows have "
            f"only {len(set(groups.values()))} different texts or groups: add more, or use a "
            "folder with a train file and a dev file."
        )
    return train, dev


def _dev_of(own: OwnData, whole: Sequence[Example], groups: Mapping[str, str]) -> set[str]:
    """Choose complete rows for the dev split, and return their ids."""
    held = set(sample(whole, max(1, round(own.held_out * len(whole))), lambda e: groups[e.id]))
    known = {label for n, e in enumerate(whole) if n not in held for label in e.traits.labels}
    # A row of dev whose label train lacks goes back to train, together with its group.
    back = {groups[whole[n].id] for n in held if not set(whole[n].traits.labels) <= known}
    return {whole[n].id for n in held if groups[whole[n].id] not in back}


# Converting rows to examples.


def to_examples(own: OwnData, table: Table, *, may_hide: bool = False) -> Iterator[Example]:
    """Convert the rows of a table to examples.

    Args:
        own: The definition of the task.
        table: Table with the rows to convert.
        may_hide: True if labels may be missing or hidden, as in a test split.

    Raises:
        DataError: A row does not fit the definition, or a column is missing.
    """
    mapping = own.mapping
    table = _folded(mapping, table, may_hide=may_hide)
    for number, values in enumerate(_role_values(mapping, table, may_hide=may_hide)):
        row = values
        if may_hide:
            row = {r: v if r not in HIDDEN else [*map(_shown(own), v)] for r, v in values.items()}
        yield _CONVERTERS[own.kind](own, table.ids[number], row, table.place(number))


def _folded(mapping: ColumnMapping, table: Table, *, may_hide: bool) -> Table:
    """Join rows into a row per sentence or question, if the table has one per word or option."""
    if "sentence" in mapping.columns:
        keys, parts = mapping.columns["sentence"], ("words", "tags")
    elif mapping.is_long_choice:
        keys = (*mapping.columns["question"], *mapping.columns.get("context", ()))
        parts = ("option", "label")
    else:
        return table
    lists = [name for role in parts for name in mapping.columns[role]]
    if may_hide:
        there = [r for r in parts if r not in HIDDEN or mapping.columns[r][0] in table.columns]
        lists = [name for role in there for name in mapping.columns[role]]
    if missing := [name for name in (*keys, *lists) if name not in table.columns]:
        raise no_column(table, missing[0])
    rows: dict[tuple[Any, ...], list[int]] = {}
    key: tuple[Any, ...] = ()
    for number, found in enumerate(zip(*(table.columns[name] for name in keys), strict=True)):
        if any(value not in (None, "") for value in found):
            key = tuple(map(str, found))  # empty cells repeat the key of the row above
        # Rows with the same key are one example, even if there are other rows between them.
        rows.setdefault(key, []).append(number)
    folded = table.take([numbers[0] for numbers in rows.values()])
    whole = {name: [[table.columns[name][n] for n in ns] for ns in rows.values()] for name in lists}
    return replace(folded, columns={**folded.columns, **whole})


def _shown(own: OwnData) -> Callable[[Any], Any]:
    """Return a function that turns hidden labels into None and returns other values unchanged."""
    hidden = HIDDEN_LABELS - {*own.labels}
    if own.kind == "number":  # -1 may be a real value
        hidden = HIDDEN_LABELS if own.value_range and own.value_range[0] > -1 else frozenset()

    def shown(value: Any) -> Any:
        if isinstance(value, list):
            return None if value and all(shown(each) is None for each in value) else value
        is_word = isinstance(value, str | int | float)
        return None if is_word and class_name(value) in hidden else value

    return shown if own.kind != "spans" else lambda value: value


HIDDEN_LABELS = frozenset(("-1", "-1.0", "-100", "?"))
"""Values in a test split that stand for a hidden label, unless they are labels of the task. For
regression, they do so only if the lowest number of the task is above -1.
"""

HIDDEN = ("label", "labels", "number", "tags", "answer", "start")
"""Roles of columns with labels. Such a column may be missing in a split that needs no labels, such
as test.
"""


def _role_values(
    mapping: ColumnMapping, table: Table, *, may_hide: bool
) -> Iterator[dict[str, list[Any]]]:
    columns: dict[str, list[Sequence[Any]]] = {}
    for role, names in mapping.columns.items():
        there = [name for name in names if name in table.columns]
        is_optional = role in ("group", VERDICT) or (may_hide and role in HIDDEN)
        if len(there) < len(names) and not is_optional:
            raise no_column(table, next(name for name in names if name not in table.columns))
        # A role with a missing column has no values in any row, as in a test file without labels.
        columns[role] = [table.columns[name] for name in there] if len(there) == len(names) else []
    for number in range(len(table.ids)):
        yield {role: [values[number] for values in each] for role, each in columns.items()}


def no_column(table: Table, name: str) -> DataError:
    """Return the error for a column that a table does not have."""
    names = ", ".join(map(repr, table.columns))
    hint = " (--no-header numbers them from 1)" if name.isdigit() and table.has_header else ""
    return DataError(f"{table.name} has no column {name!r}: its columns are {names}{hint}.")


def _pair(own: OwnData, name: str, row: Mapping[str, list[Any]], place: str) -> PairExample:
    second = row.get("text2")
    return PairExample(
        id=name,
        text_a="" if row["text"] in _NO_TEXTS else _joined(row["text"], place),
        text_b=None if second is None else _joined(second, place),
        label=_LABELS[own.kind](own, row, place),
    )


_NO_TEXTS = (["NULL"], ["\\N"])
"""Values of a first text that mean "missing" in database dumps. In a second text, such as an
aspect, they are kept."""


def _class(own: OwnData, row: Mapping[str, list[Any]], place: str) -> str | None:
    values = row["label"]
    if len(values) > 1 and all(value in (None, "") for value in values):
        return None
    if len(values) > 1:
        flags = [_flag(value, place) for value in values]
        if sum(flags) != 1:
            raise DataError(
                f"{place} has a 1 for {sum(flags)} of the classes: expected exactly one."
            )
        # There is a column per class: the label is the name of the column that holds 1.
        return own.columns["label"][flags.index(1)]
    found = label_parts(values[0], "\n") if values and isinstance(values[0], list) else values
    if len(found) > 1:
        raise DataError(f"{place} has {len(found)} labels: expected exactly one.")
    if not found or found[0] in (None, ""):
        return None
    label = class_name(found[0])
    is_none = may_be_no_label(label) and own.labels and label not in own.labels
    return None if is_none else label


_NO_LABELS = ("-", "--", "---", "?", "??", "n/a", "#n/a", "todo", "tbd", "unknown", *NULLS)
"""Values that mean "no label", in lower case: SNLI's "-" if its annotators did not agree, marks
that programs write into empty cells, and placeholders such as "TODO". "unknown" is a class unless
another of these values occurs as well.
"""


def may_be_no_label(name: str) -> bool:
    """Return whether a label may stand for "no label"; examples are "n/a" and "None".

    "none" and "NONE" are not accepted, because they are often the names of classes.
    """
    return name.casefold() in _NO_LABELS or name == "None"


def is_null(value: Any) -> bool:
    """Return whether a cell is a program's mark of an empty cell, such as "NULL" or "nan"."""
    return isinstance(value, str) and value.strip().lower() in NULLS


def class_name(value: Any) -> str:
    """Convert a label in a cell to the name of the label.

    Whole numbers are written without a decimal point, and booleans in lower case. Texts are
    stripped and normalized to Unicode's form NFC, because "é" may be one character or two, which
    look the same.
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bool):
        return str(value).lower()
    return unicodedata.normalize("NFC", str(value).strip())


def _several(own: OwnData, row: Mapping[str, list[Any]], place: str) -> tuple[str, ...] | None:
    values = row["labels"]
    if len(values) > 1 and all(value in (None, "") for value in values):
        return None
    if len(values) > 1:
        names = own.columns["labels"]
        return tuple(n for n, v in zip(names, values, strict=True) if _flag(v, place))
    if not values or values[0] is None or (is_null(values[0]) and values[0] not in own.labels):
        return None
    found = set(label_parts(values[0], own.separator))
    # Sort labels in the order of the logits. Labels that the task lacks go last; they are an error
    # later.
    order = {label: number for number, label in enumerate(own.labels)}
    return tuple(sorted(found, key=lambda label: (order.get(label, len(order)), label)))


def label_parts(value: Any, separator: str) -> list[str]:
    """Return the names of the labels in a cell, without empty ones.

    Args:
        value: The cell: a list of labels, a text that contains several labels, or a single label.
        separator: The separator between labels in a text; "" if a text is a single label.
    """
    single = [value] if not separator else str(value).split(separator)
    parts = value if isinstance(value, list) else single
    return [name for part in parts if (name := class_name(part))]


def _flag(value: Any, place: str) -> int:
    word = str(value).strip().lower()
    if word in ("1", "1.0", "true", "0", "0.0", "false"):
        return int(word[0] in "1t")
    raise DataError(
        f"{place} has {value!r} in a column that stands for a label or class: expected 0 or 1."
    )


def _number(own: OwnData, row: Mapping[str, list[Any]], place: str) -> float | None:
    value = row["number"][0] if row["number"] else None
    if value is None or str(value).strip().lower() in MISSING:
        return None
    try:
        number = to_number(value, own.decimal)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        (name,) = own.columns["number"]
        raise DataError(f"{place} has {value!r} in the column {name!r}: expected a number.")
    return number


_LABELS: Mapping[str, Any] = {"class": _class, "labels": _several, "number": _number}


def _joined(values: Sequence[Any], place: str) -> str:
    """Return the text of a column, or the texts of several columns joined by spaces."""
    texts = [_text(value, place) for value in values]
    return texts[0] if len(texts) == 1 else " ".join(filter(None, texts))


def _text(value: Any, place: str) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        raise DataError(f"{place} has a value of type {type(value).__name__}: expected a text.")
    return str(value)


def _tagged(own: OwnData, name: str, row: Mapping[str, list[Any]], place: str) -> TagExample:
    words, tags = row["words"][0], row["tags"][0] if row["tags"] else None
    words, tags = (fields_of(v) if isinstance(v, str) else v for v in (words, tags))
    if not isinstance(words, list) or not isinstance(tags, list | None):
        raise DataError(
            f"{place} has no list of words, or its tags are not a list: expected two lists."
        )
    if tags is not None and len(tags) != len(words):
        raise DataError(
            f"{place} has {len(words)} words but {len(tags)} tags: expected one tag per word."
        )
    # A sentence without any tag is unlabelled; in other sentences a missing tag is a mistake.
    missing = [tag in (None, "") for tag in tags or ()]
    if any(missing) and not all(missing):
        raise DataError(
            f"{place} has no tag for the word {words[missing.index(True)]!r}: tag every word."
        )
    named = None if tags is None or any(missing) else tuple(map(class_name, tags))
    # Tags are converted only if all labels of the task are IOB tags, whatever the tags of this
    # sentence are.
    if named is not None and (kinds := kinds_of(own.labels)):
        read = [to_iob(tag, kinds) for tag in named]
        if None in read:
            raise DataError(
                f"{place} has an unknown tag {named[read.index(None)]!r}: expected one of "
                f"{', '.join(own.labels)}."
            )
        named = to_iob2([tag for tag in read if tag is not None])
    return TagExample(id=name, words=tuple(map(str, words)), tags=named)


def _answered(_own: OwnData, name: str, row: Mapping[str, list[Any]], place: str) -> SpanExample:
    context = _text(row["context"][0], place)
    found: tuple[tuple[str, int], ...] | None = None
    if row["answer"] and row["answer"][0] is not None:
        texts = row["answer"][0]
        texts = texts if isinstance(texts, list) else [texts] if texts else []
        starts = row["start"][0] if row.get("start") else None
        # For a single answer, the cell of starts may also be the pair [start, end].
        if isinstance(starts, list) and (len(texts), len(starts)) == (1, 2):
            starts = starts[:1]
        # If the start is a number and not a list, there is only one answer. If it is missing, the
        # first occurrence of each answer is used.
        starts = starts if isinstance(starts, list) else [starts] * len(texts)
        if len(starts) != len(texts):
            raise DataError(
                f"{place} has {len(texts)} answers but {len(starts)} starts: expected one per "
                "answer."
            )
        placed = [
            (str(text), find_answer(context, str(text), _start(start, place)))
            for text, start in zip(texts, starts, strict=True)
            if not (text in NO_ANSWERS and context.endswith(text))
        ]
        # Answers that the context lacks go last, because training uses the first answer.
        found = tuple(sorted(placed, key=lambda answer: answer[1] < 0))
    question = _text(row["question"][0], place)
    return SpanExample(id=name, question=question, context=context, answers=found)


NO_ANSWERS = ("ANSWERNOTFOUND", "CANNOTANSWER")
"""Answers that stand for "no answer": the first one in the data set SubjQA, and the second one in
QuAC. Each context in SubjQA or QuAC ends with the word of its data set.
"""


def _start(value: Any, place: str) -> int:
    """Return an answer's start in characters; 0 if it is missing, to find the first occurrence."""
    if value is None or value == "":
        return 0
    try:
        return int(value)
    except (TypeError, ValueError):
        raise DataError(
            f"{place} has the start {value!r} of an answer: expected a whole number."
        ) from None


def answers_in(own: OwnData, table: Table) -> list[tuple[Any, Sequence[Any]]]:
    """Return pairs of the answer and the options, one per row of a multiple-choice task.

    Rows without an answer are left out. The result is empty if each row is a single option, or
    if the options have keys: in these two cases an answer is not the number, letter or text of an
    option.
    """
    if "option" in own.columns or "keys" in own.columns:
        return []
    asked = [_asked(own, row) for row in _role_values(own.mapping, table, may_hide=True)]
    return [(right, options) for right, options in asked if right not in (None, "")]


def _asked(own: OwnData, row: Mapping[str, list[Any]]) -> tuple[Any, Sequence[Any]]:
    """Return the answer and the options of a multiple-choice row."""
    right, given = row["answer"][0] if row["answer"] else None, row["options"]
    right = right[0] if isinstance(right, list) and len(right) == 1 else right
    if "question" in row and {*own.columns["answer"]} < {*own.columns["options"]}:
        # The right option has a column of its own. Without sorting it would always be at the same
        # position.
        return right, sorted(listed(given), key=str)
    is_list = len(given) == 1 and isinstance(given[0], list | None)
    return right, given[0] or () if is_list else given


def _chosen(own: OwnData, name: str, row: Mapping[str, list[Any]], place: str) -> ChoiceExample:
    if "option" in row:
        options: Sequence[Any] = row["option"][0]
        gold: tuple[int, ...] | None
        flags = [_flag(value, place) for value in row["label"][0]] if row["label"] else ()
        gold = tuple(n for n, flag in enumerate(flags) if flag) if flags else None
        if gold == ():
            raise DataError(f"{place} begins a question without a right option: mark one with 1.")
    else:
        right, options = _asked(own, row)
        keys = row["keys"][0] if row.get("keys") else None
        # An answer that names several right options is treated as a missing label.
        is_one = right not in (None, "") and not (own.first_option and len(numbers_in(right)) > 1)
        found = place_of(right, options, keys, own.first_option) if is_one else None
        if found is None and is_one:
            raise DataError(
                f"{place} has the answer {right!r}, which matches none of its {len(options)} "
                f"options: expected the text of an option, its number (from {own.first_option}) or "
                "its letter."
            )
        gold = None if found is None else (found,)
    return ChoiceExample(
        id=name,
        context=_text(row["context"][0], place) if row.get("context") else "",
        question=_text(row["question"][0], place) if row.get("question") else "",
        options=tuple(_text(option, place) for option in options),
        gold=gold,
    )


_CONVERTERS: Mapping[str, Any] = {
    **dict.fromkeys(_LABELS, _pair),
    "tags": _tagged,
    "spans": _answered,
    "choice": _chosen,
}
