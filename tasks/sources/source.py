"""Where a task's rows are: the same rows through the hub, official files and the embedded data."""

from collections.abc import Mapping
from dataclasses import dataclass

from tasks.errors import BenchError

__all__ = ["Row", "Source", "Split"]

Row = Mapping[str, object]
"""One row with the hub's column names; class labels are names, or None where they are hidden."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """One split: its name on the hub, and the official files it can be read from.

    `files` are paths under the `--data` folder, in the order they are looked for; the first one
    that exists is read.
    """

    hub: str
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set: hub repository, config and pinned revision, and the official layout.

    `label_names` is the order of the hub's ClassLabel, checked on loading: a hub whose order has
    changed is refused instead of being read with the wrong meaning.
    """

    hub: str
    config: str
    revision: str
    splits: Mapping[str, Split]
    label_names: tuple[str, ...] = ()

    def split(self, name: str) -> Split:
        """The split of that name; BenchError where the task has none."""
        if name not in self.splits:
            known = ", ".join(self.splits)
            raise BenchError(f"{self.hub} {self.config} has no split {name!r}: it has {known}.")
        return self.splits[name]
