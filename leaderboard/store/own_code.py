"""Which code the commands of this user have named for a store: kept on this machine, not in it.

Whoever hands over a store, an archive or a server's rows can write anything into them. What is kept
here, an empty file for each piece of code, comes with none of them.
"""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from platformdirs import user_data_path

from benchharness.leaderboard.store.archive import is_private


def _folder(store: str) -> Path:
    return user_data_path("benchharness") / "named-code" / store


def code_named_for(store: str) -> list[str]:
    """The keys of the code that was named for a store, which is told by its digest."""
    folder = _folder(store)
    with suppress(OSError):
        return [path.name for path in folder.iterdir()] if is_private(folder) else []
    return []


def forget_code_named(store: str) -> None:
    """Removes them, of a store that is to be deleted."""
    shutil.rmtree(_folder(store), ignore_errors=True)


def keep_code_named(store: str, keys: Iterable[str]) -> None:
    """Keeps them; where that folder cannot be written, the next command has to name them again."""
    for key in keys:
        with suppress(OSError):
            _folder(store).mkdir(mode=0o700, parents=True, exist_ok=True)
            (_folder(store) / key).touch()
