"""SQLite file next to a store, in which an extension keeps facts about runs.

The facts are in a table of this file, so the schema of the store stays unchanged.
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
        path: Path of the file, which `opened` creates if it is missing.
        title: Noun phrase for the file's content in error messages, such as "the verdicts of `bench
            reproduce`".
        table: SQL statement that creates the table of the file unless it exists.
    """

    path: Path
    title: str
    table: str

    @classmethod
    def of(cls, store: Store, suffix: str, title: str, table: str) -> "SideFile":
        """Return the side file of a store.

        Args:
            store: The store.
            suffix: The end of the file's name, such as ".robustness". The name begins with the name
                of the store.
            title: As in the attribute.
            table: As in the attribute.
        """
        # The folder for unstored results has the name of the store and a suffix.
        return cls(path=store.kept_folder.with_suffix(suffix), title=title, table=table)

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Context manager that yields a connection to the file, for one transaction.

        Raises:
            StoreError: The file cannot be opened, read or written, or its content is damaged.
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
