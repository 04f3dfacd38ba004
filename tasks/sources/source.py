"""Description of where a task's rows are on the hub and in official files.

Rows have the same form whether they are read from the hub, from files or from the mini data.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from benchharness.errors import BenchError

if TYPE_CHECKING:
    from benchharness.tasks.sources.archives import Member

Row = Mapping[str, object]
"""Row of a split: values keyed by the names of the columns in the hub's data set.

The label of a class is its name, or None if it is hidden. A nested column has a dotted name
("answers.text"). The additional column `idx` contains the index of the row in the split.
"""


ODDITIES = "oddities"
"""Name of an optional column with sentences about irregularities, as in `Example.oddities`."""

Place = Union[Path, "Member"]
"""File or folder, on the disk or in an archive; `str()` returns its path."""

Format = Literal["tsv", "csv", "jsonl", "squad", "race", "conll"]
"""Format of official files.

"tsv" and "csv" are tables, "jsonl" files have one JSON object per line, "squad" is SQuAD's JSON,
"race" is a folder tree with one JSON file per passage, and "conll" is the format of CoNLL-2003 with
one word per line.
"""

Column = str | int | tuple[str, ...]
"""Location of a column in an official file.

It is the name of the column in the header, its dotted path in a JSON object, or its index in a
table without a header. A tuple contains several names, and the first that exists in the file is
used.
"""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Location of a split on the hub and in official files.

    Attributes:
        hub: Name of the split on the hub.
        files: Possible paths of the file, relative to the suite's folder; the first one that exists
            is read. A path with "*" stands for all files that match it. Case and punctuation of
            names are ignored.
        columns: Location of each column in this split's file, if it differs from `Source.columns`.
        hidden: True if all labels are set to None, even if the source has them. So the rows are the
            same wherever they are read from: MRPC's test rows have labels only on the hub.
        config: Config of the data set on the hub, if it differs from `Source.config`.
        language: Language code of the split; empty if the task has only one language. Rows in other
            languages are dropped if the source has `language_of`.
    """

    hub: str
    files: tuple[str, ...]
    columns: Mapping[str, Column] | None = None
    hidden: bool = False
    config: str = ""
    language: str = ""


def splits_of(*files: str, hidden: bool = False) -> dict[str, Split]:
    """Create the splits train, dev and test, with the names that they usually have on the hub.

    Args:
        *files: Path of the file of train, dev and test, in this order. The last splits can be left
            out.
        hidden: True if the labels of test are hidden.
    """
    names = (("train", "train"), ("dev", "validation"), ("test", "test"))
    return {
        name: Split(hub=hub, files=(file,), hidden=hidden and name == "test")
        for (name, hub), file in zip(names, files, strict=False)
    }


@dataclass(frozen=True, kw_only=True)
class Source:
    """Description of the places from which the rows of a task can be read, and of their format.

    Attributes:
        hub: Name of the repository of the data set on the hub; empty if it is not on the hub.
        config: Config of the data set.
        revision: Pinned commit of the repository. It may also be a branch such as "main"; then the
            rows are identified by their fingerprint only.
        splits: Splits, keyed by name.
        configs: Configs on the hub that together form a split, so that their rows are concatenated
            (67 in BLiMP); empty if each split is in one config.
        hub_folder: Folder in the repository to read, if the data set has no named configs; else
            empty.
        home: Name of the suite's folder, e.g. "glue". The value of `--data` may be this folder, its
            parent, or the folder of the task inside it, e.g. "CoLA".
        spellings: Alternative names of folders, keyed by the name that the other fields use, e.g.
            {"glue": ("glue_data",)}.
        format: Format of the official files.
        columns: Location of each column in the official files, keyed by the name of the column in
            rows.
        label: Name of the column with the label or a list of labels. Labels are numbers if
            `label_names` is empty.
        label_names: Names of the hub's ClassLabel, in order. DataError is raised if the names or
            their order on the hub have changed, because labels would get another meaning.
        label_texts: Names of the labels, keyed by the texts that the official files contain instead
            of the names, e.g. {"0": "unacceptable"}; empty if the files contain the names.
        classes: Names of classes for other columns on the hub that contain lists of class indices,
            keyed by column. The position of a name is its index.
        unlabelled: Text in files that marks a row on whose label the annotators did not agree (on
            the hub: -1). The label of such a row is None.
        optional: Columns that a source may lack; their value is then None.
        no_answer: For files in SQuAD's format: True if they must be of version 2.0, False if no
            question may be unanswerable (1.1), None if both are accepted.
        unfold: Function that converts an object of a "jsonl" file to several rows; None if every
            object is one row.
        arrange: Function that changes the form and the order of a split's rows, so that they are
            the same wherever they are read from; None if they are the same already.
        reader: Function `(split, path)` that reads the rows of a split, instead of the functions of
            this package. The path is a file or folder of the user, the folder of the mini data, or
            None for the hub.
        file: Name of the file or folder that `reader` reads if the task itself names it; else
            empty.
        read_records: Function that reads the official files of a split if their format is none of
            `Format`. It takes an OfficialFiles and yields Record objects (see `formats`).
        read_hub: Function `(source, name of a split)` that reads the rows of a split from the hub
            if they are not simply the rows of a config.
        language_of: Function that returns the language of a row if a file has several languages. It
            returns None if the row belongs to every language, and raises ValueError if the row has
            no known language.
    """

    hub: str
    config: str
    revision: str
    splits: Mapping[str, Split]
    configs: tuple[str, ...] = ()
    hub_folder: str = ""
    file: str = ""
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
    read_records: Callable[[Any], Iterable[Any]] | None = None
    read_hub: Callable[["Source", str], list[Row]] | None = None
    language_of: Callable[[Row], str | None] | None = None

    def shown(self, data: object) -> str:
        """Return the place of the rows for messages: the value of `--data`, unless it is unused.

        Args:
            data: Value of `--data`. The default "hub" is also the value for tasks that are never
                read from the hub.
        """
        return self.file or (str(data) if self.hub or str(data) != "hub" else "the task's own data")

    @property
    def is_pinned(self) -> bool:
        """True if the revision is a commit, whose content never changes."""
        return re.fullmatch("[0-9a-f]{40}", self.revision) is not None

    def may_lack(self, split: Split) -> tuple[str, ...]:
        """Return the names of the columns that the official files of a split need not have.

        These are the optional columns and, for a test split or hidden labels, the label.
        """
        hides_labels = split.hidden or split.hub.startswith("test")
        return (*self.optional, self.label) if hides_labels else self.optional

    def split(self, name: str) -> Split:
        """Return the split with this name; raise BenchError if it does not exist."""
        if name not in self.splits:
            known = ", ".join(self.splits)
            raise BenchError(f"the task has no split {name!r}; its splits are {known}.")
        return self.splits[name]


# The following functions return the value of a column. They raise TypeError if the value does not
# have the expected type.


def text(row: Row, column: str) -> str:
    """Return the text in a column of a row; raise TypeError if the value is not a text."""
    value = row[column]
    if not isinstance(value, str):
        raise TypeError(f"its {column} is {value!r}, expected a text")
    return value


def texts(row: Row, column: str) -> tuple[str, ...]:
    """Return the texts in a column of a row; raise TypeError if the value is no list of texts."""
    values = _several(row, column, "texts")
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"its {column} is {values!r}, expected texts")
    return tuple(str(value) for value in values)


def number(row: Row, column: str) -> int:
    """Return the integer in a column of a row; raise TypeError if the value is not an integer."""
    return _whole(row[column], column)


def numbers(row: Row, column: str) -> tuple[int, ...]:
    """Return the integers in a column; raise TypeError if the value is no list of integers."""
    return tuple(_whole(value, column) for value in _several(row, column, "numbers"))


def label_of(row: Row) -> str | float | None:
    """Return the label of a row: the name of a class, a number, or None if it is hidden.

    Raises:
        TypeError: If the label has another type.
    """
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
