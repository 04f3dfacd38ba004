"""Description of a task's rows, which are the same on the hub, in files and in embedded data."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from benchharness.errors import BenchError

if TYPE_CHECKING:
    from benchharness.tasks.sources.archives import Member

Row = Mapping[str, object]
"""A row, keyed by the hub's column names; class labels are names, or None if they are hidden.

Every source also gives `idx`, the row's index in its split. A column inside another one has a
dotted name ("answers.text").
"""


ODDITIES = "oddities"
"""Optional column of a row with the oddities of the row, as in `Example.oddities`."""

Place = Union[Path, "Member"]
"""A file or folder, on the disk or in an archive; `str` gives its path."""

_Json = Literal["jsonl", "squad", "race", "quac", "coqa", "hotpotqa"]
Format = Literal["tsv", "csv", "conll", "conll2012", "conllu", "beir", "pairs", _Json]
"""Layout of official files: tables with tabs or commas, CoNLL's columns of 2003 and of 2012, those
of Universal Dependencies, BEIR's folders, files of minimal pairs, a JSON object per line, SQuAD's
JSON, RACE's folders, and the JSON of QuAC, CoQA and HotpotQA."""

Column = str | int | tuple[str, ...]
"""Location of a column in an official file: its name in the header or its dotted path in a JSON
object, several names of which the first that exists counts, or its index in a table without
header."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """A split on the hub and in official files.

    Attributes:
        hub: The split's name on the hub.
        files: Paths below the suite's folder, of which the first that exists is read.
            "train/*/*.txt" stands for all files that match. Case and punctuation of names are
            ignored.
        columns: The columns if this split is laid out differently from the source's other splits.
        hidden: Whether labels are None whatever the data hold, so that all sources give equal rows:
            the hub's MRPC test rows have labels, and the official test file does not.
        config: The hub's config if it differs from the source's.
        language: The language of the split's rows, if a file has rows in several languages.
    """

    hub: str
    files: tuple[str, ...]
    columns: Mapping[str, Column] | None = None
    hidden: bool = False
    config: str = ""
    language: str = ""


def splits_of(*files: str, hidden: bool = False) -> dict[str, Split]:
    """Return splits train, dev and test of a file each, with the hub's usual names.

    With `hidden` the labels of test are hidden.
    """
    names = (("train", "train"), ("dev", "validation"), ("test", "test"))
    return {
        name: Split(hub=hub, files=(file,), hidden=hidden and name == "test")
        for (name, hub), file in zip(names, files, strict=False)
    }


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set on the hub, and the layout of its official files.

    Attributes:
        hub: The hub's repository.
        config: The config of the repository.
        revision: The pinned commit of the repository. A branch such as "main" is unconfirmed: then
            only the fingerprint of the rows identifies them.
        splits: The splits by name.
        configs: The hub's configs if a split consists of several (BLiMP has 67).
        hub_folder: The repository's folder to read, if its configs are folders without names.
        home: The suite's folder ("glue"). `--data` may name this folder, the one above it, or the
            task's own ("CoLA") below it.
        spellings: Other names of folders, by the name that is used here: {"glue": ("glue_data",)}.
        format: The layout of the official files.
        columns: The location of each column of a row in the official files.
        label: The column with the label, or with a list of labels. A label is a number if
            `label_names` is empty.
        label_names: The names of the hub's ClassLabel in order. A hub whose names or order have
            changed is refused instead of being read with the wrong meaning.
        label_texts: The name for each text that files have instead of a name ("0").
        classes: The names of the hub's other ClassLabels, by column, in order.
        unlabelled: The text in files for a label on which the annotators did not agree (on the hub:
            -1); it becomes None.
        optional: Columns that are None if a source lacks them.
        no_answer: Whether a file in SQuAD's layout must have unanswerable questions (2.0) or must
            not (1.1); None accepts both.
        unfold: Function that splits an object of a "jsonl" file into several rows.
        arrange: Function that brings a split's rows into the form and order that all sources share.
        reader: Function that reads a split in another layout from a file or folder (for mini, that
            of the embedded data), or from the hub if it gets None.
        language_of: Function that returns the language of a row if files have several, or None if
            the row is in every language; it raises ValueError for a row in none.
    """

    hub: str
    config: str
    revision: str
    splits: Mapping[str, Split]
    configs: tuple[str, ...] = ()
    hub_folder: str = ""
    home: str = ""
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    format: Format = "tsv"
    columns: Mapping[str, Column] = field(default_factory=dict)
    label: str = "label"
    label_names: tuple[str, ...] = ()
    label_texts: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unlabelled: str | None = None
    optional: tuple[str, ...] = ()
    no_answer: bool | None = None
    unfold: Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]] | None = None
    arrange: Callable[[Sequence[Row]], Sequence[Row]] | None = None
    reader: Callable[[str, Path | None], Sequence[Row]] | None = None
    language_of: Callable[[Row], str | None] | None = None

    @property
    def is_pinned(self) -> bool:
        """Return whether the revision is a commit, which never changes."""
        return re.fullmatch("[0-9a-f]{40}", self.revision) is not None

    def may_lack(self, split: Split) -> tuple[str, ...]:
        """Return the columns that the split's official files need not have."""
        hides_labels = split.hidden or split.hub.startswith("test")
        return (*self.optional, self.label) if hides_labels else self.optional

    def split(self, name: str) -> Split:
        """Return the split of this name; raise BenchError if the task has none."""
        if name not in self.splits:
            known = ", ".join(self.splits)
            raise BenchError(f"the task has no split {name!r}: it has {known}.")
        return self.splits[name]


# Columns of a row by type; TypeError if a row holds something else.


def text(row: Row, column: str) -> str:
    """Return a column's text; raise TypeError for anything else."""
    value = row[column]
    if not isinstance(value, str):
        raise TypeError(f"its {column} is {value!r}, expected a text")
    return value


def texts(row: Row, column: str) -> tuple[str, ...]:
    """Return a column's texts; raise TypeError for anything else."""
    values = _several(row, column, "texts")
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"its {column} is {values!r}, expected texts")
    return tuple(str(value) for value in values)


def number(row: Row, column: str) -> int:
    """Return a column's whole number; raise TypeError for anything else."""
    return _whole(row[column], column)


def numbers(row: Row, column: str) -> tuple[int, ...]:
    """Return a column's whole numbers; raise TypeError for anything else."""
    return tuple(_whole(value, column) for value in _several(row, column, "numbers"))


def label_of(row: Row) -> str | float | None:
    """Return a row's label: a class name, a number, or None if hidden; else raise TypeError."""
    label = row["label"]
    if not isinstance(label, str | float | None):
        raise TypeError(f"its label is {label!r}, expected a name or a number")
    return label


def _several(row: Row, column: str, kind: str) -> list[object]:
    value = row[column]
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"its {column} is {value!r}, expected {kind}")
    return list(value)


def _whole(value: object, column: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"its {column} is {value!r}, expected a whole number")
    return value
