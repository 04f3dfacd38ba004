"""Where a task's rows are: the same rows through the hub, official files and the embedded data."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.errors import BenchError

__all__ = ["Column", "Format", "Row", "Source", "Split"]

Row = Mapping[str, object]
"""One row with the hub's column names; class labels are names, or None where they are hidden.

Every door also gives `idx`, the row's position in its split. A column inside another one has a
dotted name ("answers.text").
"""

Format = Literal["tsv", "csv", "jsonl", "squad", "race", "conll"]
"""The layout of official files: tables with tabs or commas, a JSON object a line, SQuAD's JSON,
RACE's folders, CoNLL's columns."""

Column = str | int | tuple[str, ...]
"""Where a column is in an official file: its header's name or its dotted path in a JSON object, one
of several names that official releases use, or its position from 0 in a table without a header."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """One split: its name on the hub, and the official files it can be read from.

    `files` are paths under the suite's folder, in the order they are looked for; the first one that
    exists is read. "train/*/*.txt" stands for all the files that fit. `columns` replaces the
    source's where this split is laid out differently. The labels of a `hidden` split are None
    whatever a source holds, so that every door gives equal rows (the hub's MRPC test rows carry
    their labels, the official test file does not).
    """

    hub: str
    files: tuple[str, ...]
    columns: Mapping[str, Column] | None = None
    hidden: bool = False


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set: hub repository, config and pinned revision, and the official layout.

    `home` is the suite's folder ("glue"): `--data` may name that folder or the one above it.
    `columns` maps a row's columns to those of the official files. `label_names` is the order of the
    hub's ClassLabel, checked on loading: a hub whose order has changed is refused instead of being
    read with the wrong meaning. `label_texts` are what the files write instead of a name ("0").
    `label` is the column that holds it, or a list of them. A label without names is a number.
    `unlabelled` is what the files write where the annotators agreed on no label (the hub: -1); it
    becomes None. `optional` columns are None where a door lacks them.

    `unfold` takes a JSON object of a "jsonl" file apart where it holds several rows; `arrange` puts
    a split's rows into the form and order that all doors share. A `revision` that is no commit
    ("main") is one that nobody has confirmed; the fingerprint of the rows then stands alone.
    """

    hub: str
    config: str
    revision: str
    splits: Mapping[str, Split]
    home: str = ""
    format: Format = "tsv"
    columns: Mapping[str, Column] = field(default_factory=dict)
    label: str = "label"
    label_names: tuple[str, ...] = ()
    label_texts: Mapping[str, str] = field(default_factory=dict)
    unlabelled: str | None = None
    optional: tuple[str, ...] = ()
    unfold: Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]] | None = None
    arrange: Callable[[Sequence[Row]], Sequence[Row]] | None = None

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
            raise BenchError(f"{self.hub} {self.config} has no split {name!r}: it has {known}.")
        return self.splits[name]
