"""Which known checkpoint a published system is, or why it is none."""

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from benchharness.leaderboard.boards.published import PublishedRow, every_row


@dataclass(frozen=True, kw_only=True)
class System:
    """A system as a source names it. `table` is empty where every table means the same by it.

    `model` is the name of the checkpoint that runs here; where it is empty, `reason` says why
    nothing does. `rows` counts its published rows, `in_lectures` says that the lectures which the
    tables came from name it.
    """

    name: str
    table: str
    model: str
    reason: str
    rows: int
    in_lectures: bool

    @property
    def status(self) -> str:
        """What there is of it: a checkpoint, numbers, or the name."""
        if self.model:
            return "runs here"
        return "published row only" if self.rows else "named in a lecture only"


@cache
def systems() -> tuple[System, ...]:
    """Every system of the published tables and of the lectures, by name."""
    return tuple(sorted(_systems(), key=lambda system: (system.name.lower(), system.table)))


def find_system(name: str, table: str) -> System | None:
    """The system that a table means by a name; None where nobody has said yet what it is."""
    named = _by_name()
    return named.get((name, table), named.get((name, "")))


def rows_of_model(model: str) -> tuple[PublishedRow, ...]:
    """The published rows of one of our models, in the order of the tables."""
    return _by_model().get(model, ())


@cache
def _by_name() -> Mapping[tuple[str, str], System]:
    return {(system.name, system.table): system for system in systems()}


@cache
def _by_model() -> Mapping[str, tuple[PublishedRow, ...]]:
    found: defaultdict[str, list[PublishedRow]] = defaultdict(list)
    for row in every_row():
        if (system := find_system(row.system, row.table)) is not None:
            found[system.model].append(row)
    return {model: tuple(rows) for model, rows in found.items() if model}


def _systems() -> Iterator[System]:
    file = files("benchharness.leaderboard") / "published" / "systems.toml"
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    lectures = set(document["lectures"])
    for key, model in document["runs"].items():
        yield _system(key, lectures, model=model, reason="")
    for reason, keys in document["absent"].items():
        for key in keys:
            yield _system(key, lectures, model="", reason=reason)


def _system(key: str, lectures: set[str], **found: Any) -> System:
    tables = {row.table for row in every_row()}
    table, colon, name = key.partition(": ")
    if not (colon and table in tables):
        table, name = "", key
    rows = [row for row in every_row() if row.system == name and table in ("", row.table)]
    return System(
        name=name, table=table, rows=len(rows), in_lectures=not table and name in lectures, **found
    )
