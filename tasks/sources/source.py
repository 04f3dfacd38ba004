"""Where a task's rows are: the same rows through the hub, official files and the embedded data."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from benchharness.tasks.errors import BenchError

if TYPE_CHECKING:
    from benchharness.tasks.sources.archives import Member

Row = Mapping[str, object]
"""One row with the hub's column names; class labels are names, or None where they are hidden.

Every source also gives `idx`, the row's position in its split. A column inside another one has a
dotted name ("answers.text").
"""


ODDITIES = "oddities"
"""The column that a reader may give a row: what is odd about it, as in `Example.oddities`."""

Place = Union[Path, "Member"]
"""A file or folder, on the disk or in an archive; `str` names it."""

_Json = Literal["jsonl", "squad", "race", "quac", "coqa", "hotpotqa"]
Format = Literal["tsv", "csv", "conll", "conll2012", "conllu", "beir", "pairs", _Json]
"""The layout of official files: tables with tabs or commas, a JSON object a line, SQuAD's JSON,
RACE's folders, CoNLL's columns of 2003 and of 2012, those of Universal Dependencies, the JSON of
QuAC, CoQA and HotpotQA, BEIR's folders, and files of minimal pairs."""

Column = str | int | tuple[str, ...]
"""Where a column is in an official file: its header's name or its dotted path in a JSON object, one
of several names that official releases use, or its position from 0 in a table without a header."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """One split: its name on the hub, and the official files it can be read from.

    `files` are paths under the suite's folder, in the order they are looked for; the first one that
    exists is read. "train/*/*.txt" stands for all the files that fit. Case and punctuation of a
    name do not matter. `columns` replaces the source's where this split is laid out differently.
    The labels of a `hidden` split are None whatever the data hold, so that every source gives equal
    rows (the hub's MRPC test rows carry their labels, the official test file does not). `config`
    is the hub's where it is not the source's. A split in a `language` has the rows in it alone.
    """

    hub: str
    files: tuple[str, ...]
    columns: Mapping[str, Column] | None = None
    hidden: bool = False
    config: str = ""
    language: str = ""


def splits_of(*files: str, hidden: bool = False) -> dict[str, Split]:
    """A file each for train, dev and test, as the hub mostly calls them; test may be `hidden`."""
    names = (("train", "train"), ("dev", "validation"), ("test", "test"))
    return {
        name: Split(hub=hub, files=(file,), hidden=hidden and name == "test")
        for (name, hub), file in zip(names, files, strict=False)
    }


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set: hub repository, config and pinned revision, and the official layout.

    `configs` are the hub's where a split is put together of several (BLiMP has 67). `hub_folder` is
    the repository's folder to read, where its configs are folders without names.

    `home` is the suite's folder ("glue"): `--data` may name that folder, the one above it, or the
    task's own ("CoLA") below it. `spellings` are other names of folders, by the one that is used
    here: {"glue": ("glue_data",)}.
    `columns` maps a row's columns to those of the official files. `label_names` is the order of the
    hub's ClassLabel, checked on loading: a hub whose order has changed is refused instead of being
    read with the wrong meaning. `label_texts` are what the files write instead of a name ("0").
    `label` is the column that holds it, or a list of them. A label without names is a number.
    `classes` are the names of the hub's other ClassLabels, by column, in their order.
    `unlabelled` is what the files write where the annotators agreed on no label (the hub: -1); it
    becomes None. `optional` columns are None where a source lacks them. `no_answer` is whether a
    file of SQuAD's layout must be one with unanswerable questions (2.0), or one without (1.1); None
    takes both.

    `unfold` takes a JSON object of a "jsonl" file apart where it holds several rows; `arrange` puts
    a split's rows into the form and order that all sources share. A `revision` that is no commit
    ("main") is one that nobody has confirmed; the fingerprint of the rows then stands alone.
    `reader` gives the rows of a split where none of the layouts is theirs: of a file or folder
    (mini: the embedded data's), or of the hub, for which it gets None. `language_of`
    tells the language of a row where a file has several, None where a row is of any; it raises
    ValueError for a row that is of none.
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
        """Whether the revision is a commit, which never changes."""
        return re.fullmatch("[0-9a-f]{40}", self.revision) is not None

    def may_lack(self, split: Split) -> tuple[str, ...]:
        """The columns that the split's official files need not have."""
        hides_labels = split.hidden or split.hub.startswith("test")
        return (*self.optional, self.label) if hides_labels else self.optional

    def split(self, name: str) -> Split:
        """The split of that name; BenchError where the task has none."""
        if name not in self.splits:
            known = ", ".join(self.splits)
            raise BenchError(f"the task has no split {name!r}: it has {known}.")
        return self.splits[name]


# The columns of a row by type; TypeError where a row holds something else.


def text(row: Row, column: str) -> str:
    """A text column."""
    value = row[column]
    if not isinstance(value, str):
        raise TypeError(f"its {column} is {value!r}, expected a text")
    return value


def texts(row: Row, column: str) -> tuple[str, ...]:
    """A column of several texts."""
    values = _several(row, column, "texts")
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"its {column} is {values!r}, expected texts")
    return tuple(str(value) for value in values)


def number(row: Row, column: str) -> int:
    """A column that counts something."""
    return _whole(row[column], column)


def numbers(row: Row, column: str) -> tuple[int, ...]:
    """A column of several counts."""
    return tuple(_whole(value, column) for value in _several(row, column, "numbers"))


def label_of(row: Row) -> str | float | None:
    """A class name, a number, or None where the label is hidden."""
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
