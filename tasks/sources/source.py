"""Where a task's rows are: the same rows through the hub, official files and the embedded data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.errors import BenchError

__all__ = ["Column", "Row", "Source", "Split"]

Row = Mapping[str, object]
"""One row with the hub's column names; class labels are names, or None where they are hidden.

Every door also gives `idx`, the row's position in its split.
"""

Column = str | int | tuple[str, ...]
"""Where a column is in a tab-separated file: its header's name, one of several names that official
releases use, or its position from 0 in a file without a header."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """One split: its name on the hub, and the official files it can be read from.

    `files` are paths under the suite's folder, in the order they are looked for; the first one that
    exists is read. `columns` replaces the source's where this split is laid out differently. The
    labels of a `hidden` split are None whatever a source holds, so that every door gives equal rows
    (the hub's MRPC test rows carry their labels, the official test file does not).
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
    A `label` without names is a number. `optional` columns are None where a door lacks them.
    """

    hub: str
    config: str
    revision: str
    splits: Mapping[str, Split]
    home: str = ""
    columns: Mapping[str, Column] = field(default_factory=dict)
    label_names: tuple[str, ...] = ()
    label_texts: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()

    def split(self, name: str) -> Split:
        """The split of that name; BenchError where the task has none."""
        if name not in self.splits:
            known = ", ".join(self.splits)
            raise BenchError(f"{self.hub} {self.config} has no split {name!r}: it has {known}.")
        return self.splits[name]
