"""Store the robustness of runs, in an SQLite file next to the database of the runs.

The scores on challenge sets are not part of the scores of a task on a leaderboard.
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
    """Score or difference of scores, with its interval.

    Attributes:
        value: Mean over seeds, in the unit of the metric (mostly from 0 to 1).
        low: Lower end of the 95 % interval over rows and, with several seeds, over seeds; None if
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
    """Robustness of a system's kept models on one challenge set, or to one perturbation.

    Attributes:
        kind: "set" or "perturbation".
        name: Name of the set or the perturbation.
        title: Title of the set, or description of the perturbation.
        task: Task on which the models were trained.
        split: Names of the scored splits, joined by "+".
        rows: Number of scored rows.
        limit: Maximum number of rows per split (`--limit`); None for no limit.
        runs: Keys of the runs.
        finished: Time at which each run ended. A repetition of the job has another time, so the
            record does not apply to it.
        seeds: Seeds of the runs.
        flags: Warnings about the runs.
        own: Mean score of the models on their own task: for a set, the score on the leaderboard;
            for a perturbation, the score on the same dev rows without changes.
        scores: Scores, keyed by name, the most important one first; a perturbation has one.
        drop: For a perturbation, the score without changes minus the score with changes, with an
            interval that is paired by row; None for a set.
        facts: Other facts as JSON data. For a set: the share of the most frequent class
            ("majority"), the merged class of each label ("counts_as"), the accuracy on each
            category ("slices"), the source of the rows ("data") and their digest ("fingerprint").
            For a perturbation: its seed ("seed") and the number of changed rows ("changed").
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
        """Most important score: the first of `scores`."""
        return next(iter(self.scores.values()))

    @property
    def place(self) -> str:
        """Key of the record in the file; a later record with the same key replaces this one."""
        options = (self.limit, self.facts.get("seed"))
        return digest([self.kind, self.name, self.task, self.split, sorted(self.runs), options])

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Create a record from a dict of its fields, as read from JSON."""
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
        """Store records; a record replaces an earlier one about the same runs, test and options."""
        with self.file.opened() as db:
            for each in records:
                db.execute("DELETE FROM robustness WHERE place = ?", (each.place,))
                row = (each.place, json.dumps(asdict(each)))
                db.execute("INSERT INTO robustness VALUES (?, ?)", row)

    def about(self, rows: Collection[RunRow]) -> list[Record]:
        """Return the records whose runs are all among `rows`, oldest first.

        Records about an earlier attempt at the same job are left out.
        """
        if not self.file.path.exists():
            return []
        known = {(row.key, row.finished) for row in rows}
        with self.file.opened() as db:
            found = db.execute("SELECT content FROM robustness ORDER BY rowid").fetchall()
            every = [Record.from_json(json.loads(content)) for (content,) in found]
        return [r for r in every if known >= {*zip(r.runs, r.finished, strict=True)}]
