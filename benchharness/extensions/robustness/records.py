"""Measured robustness of stored runs, in an SQLite file next to the database of the runs.

The scores of the task do not contain those of challenge sets.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.side_file import SideFile
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import digest


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Value of a score or of a difference of scores, as the mean over seeds.

    Attributes:
        value: The value, in the unit of the metric (mostly 0 to 1).
        low: Lower end of its 95 % interval over rows and, with several seeds, over seeds; None if
            it is unknown.
        high: Upper end of the interval; None if it is unknown.
        seeds: Value of each seed.
    """

    value: float
    low: float | None
    high: float | None
    seeds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Record:
    """Robustness of a system (its runs with kept models) on one challenge set or perturbation.

    Attributes:
        kind: "set" or "perturbation".
        name: Name of the set or the perturbation.
        title: Title of the set, or description of the perturbation.
        task: Task that trained the models.
        split: Names of the scored splits, joined by "+".
        rows: Number of scored rows.
        limit: Maximum number of rows per split, if the user gave one.
        runs: Keys of the runs.
        finished: Time at which each run ended, by which a run that was repeated is recognised.
        seeds: Seeds of the runs.
        flags: Warnings about the runs.
        own: Score of the models on their own task, as on the leaderboard; for a perturbation, on
            the same dev rows without changes, which were predicted again.
        scores: Scores by name, the most important one first; for a perturbation there is one.
        drop: For a perturbation, the score without changes minus the score with them, paired by
            row; else None.
        facts: Further facts as JSON data. Of a set: the share of the most frequent class
            ("majority"), the class that each label counted as ("counts_as"), the accuracy on each
            category ("slices"), the source of the rows ("data") and their digest ("fingerprint").
            Of a perturbation: the seed ("seed") and the number of changed rows ("changed").
    """

    kind: Literal["set", "perturbation"]
    name: str
    title: str
    task: str
    split: str
    rows: int
    limit: int | None
    runs: tuple[str, ...]
    finished: tuple[str, ...]
    seeds: tuple[int, ...]
    flags: tuple[str, ...]
    own: float
    scores: Mapping[str, Measured]
    drop: Measured | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> Measured:
        """The most important score."""
        return next(iter(self.scores.values()))

    @property
    def place(self) -> str:
        """Digest of what was measured: a later record with the same place replaces this one."""
        options = (self.limit, self.facts.get("seed"))
        return digest([self.kind, self.name, self.task, self.split, sorted(self.runs), options])

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Create a record from its fields as JSON data."""
        lists = {name: tuple(data[name]) for name in ("runs", "finished", "seeds", "flags")}
        drop = data["drop"] and Measured(**data["drop"])
        scores = {name: Measured(**found) for name, found in data["scores"].items()}
        return cls(**{**data, **lists, "scores": scores, "drop": drop})


_TABLE = "CREATE TABLE IF NOT EXISTS robustness (place TEXT PRIMARY KEY, content TEXT NOT NULL)"


class Records:
    """File with the measured robustness of the runs of a store.

    Every method is one transaction, and raises StoreError if the file cannot be used.

    Args:
        store: Store of the runs.
    """

    def __init__(self, store: Store) -> None:
        self.file = SideFile.of(store, ".robustness", "the results of `bench robustness`", _TABLE)

    def add(self, records: Sequence[Record]) -> None:
        """Store records; each replaces an earlier one about the same runs and rows."""
        with self.file.opened() as db:
            for each in records:
                db.execute("DELETE FROM robustness WHERE place = ?", (each.place,))
                row = (each.place, json.dumps(asdict(each)))
                db.execute("INSERT INTO robustness VALUES (?, ?)", row)

    def about(self, rows: Collection[RunRow]) -> list[Record]:
        """Return the records about runs that are all in `rows`, oldest first.

        Records about an earlier attempt at the same job are left out.
        """
        if not self.file.path.exists():
            return []
        known = {(row.key, row.finished) for row in rows}
        with self.file.opened() as db:
            found = db.execute("SELECT content FROM robustness ORDER BY rowid").fetchall()
            every = [Record.from_json(json.loads(content)) for (content,) in found]
        return [r for r in every if known >= {*zip(r.runs, r.finished, strict=True)}]
