"""SQLite file next to a store, in which an extension keeps facts about runs.

The file has tables of its own, so the database of the runs keeps its schema.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchharness.errors import StoreError
from benchharness.leaderboard.store.store import Store

_BUSY_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class SideFile:
    """File next to a store, or in the folder "results" if the store is on a server.

    Attributes:
        path: The file; it exists after the first use of `opened`.
        title: What the file has, for error messages.
        table: Statement that creates the table unless it exists.
    """

    path: Path
    title: str
    table: str

    @classmethod
    def of(cls, store: Store, suffix: str, title: str, table: str) -> "SideFile":
        """Return the file of a store whose name ends with `suffix`."""
        # The folder for unstored results has the name of the store and a suffix.
        return cls(path=store.kept_folder.with_suffix(suffix), title=title, table=table)

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction.

        Raises:
            StoreError: The file cannot be used, or its content cannot be read.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as db, db:
                db.execute(self.table)
                yield db
        except (OSError, sqlite3.Error, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"{self.title} in {self.path} cannot be used ({error}): delete the file if it is "
                "damaged. The stored runs are not affected."
            ) from error
