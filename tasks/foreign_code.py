"""Permission to load third-party code, such as a metric's script that stored data refer to.

An archive, a store, a server, a model's folder and a baseline may come from a third party, and may
name code. That code is loaded only if the options of the current command name the same code, if an
earlier command for the same store named it (leaderboard/store/store.py keeps a record), or if the
user trusts all third-party code. Code is identified by its location and the digest of its content.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import NamedTuple

from benchharness.errors import ForeignCodeError


class Code(NamedTuple):
    """Location and digest of a piece of code, which identify it.

    Attributes:
        place: Local path of the code, or its name on the hub.
        digest: SHA-256 (hex) of the content.
    """

    place: str
    digest: str

    @property
    def key(self) -> str:
        """Digest (hex) of the code's location and content, which can be used as a file name."""
        found = local_place(self.place)
        place = str(found.resolve()) if found else self.place
        return hashlib.sha256(f"{place}\0{self.digest}".encode()).hexdigest()


def modules_in(folder: Path, pattern: str = "**/*") -> dict[str, Path]:
    """Return the files in a folder tree that Python can import, keyed by path inside the folder.

    Args:
        folder: Root of the folder tree.
        pattern: Glob pattern that selects files; by default, all files in all subfolders.
    """
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.glob(pattern))
        if path.name.endswith(_MODULES) and path.parent.name != "__pycache__"
    }


_MODULES = tuple(all_suffixes())


def modules_digest(files: Mapping[str, Path]) -> str:
    """Return a SHA-256 (hex) that identifies the content of one or several modules.

    Empty `__init__.py` files are ignored. If only one file remains, the result is the SHA-256 of
    that file.

    Args:
        files: The files of the modules, keyed by their relative paths.
    """
    digests = {
        name: hashlib.sha256(code).hexdigest()
        for name, path in sorted(files.items())
        if (code := path.read_bytes()) or path.name != "__init__.py"
    }
    if len(digests) == 1:
        return next(iter(digests.values()))
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


def local_place(place: str) -> Path | None:
    """Return the local file or folder at this path; None if it is missing or inaccessible."""
    try:
        found = Path(place).expanduser()
        return found if found.exists() else None
    except (OSError, RuntimeError):  # no permission, or the name is too long; "~user" is unknown
        return None


_ANY = "any"
_named: set[str] = set()
_of_plugins: set[str] = set()
_remembered: set[str] = set()


def begin(*, trust: bool = False) -> None:
    """Reset the permissions at the beginning of a command, except those of installed plugins.

    Args:
        trust: True to allow all third-party code during the command.
    """
    _named.clear()
    _remembered.clear()
    if trust:
        _named.add(_ANY)


def name_code(codes: Iterable[Code]) -> None:
    """Allow code until the current command ends.

    A command allows the code that its options name, and a worker process the code that its job
    names.
    """
    _named.update(code.key for code in codes)


def name_code_of_plugin(codes: Iterable[Code]) -> None:
    """Allow code that an installed plugin names, until the process ends."""
    _of_plugins.update(code.key for code in codes)


def named_code() -> frozenset[str]:
    """Return the keys (`Code.key`) of the code that was allowed with `name_code`."""
    return frozenset(_named - {_ANY})


def remember_code(keys: Iterable[str]) -> None:
    """Allow the code that earlier commands named for the store that is now open.

    Code that was remembered for another store is no longer allowed.

    Args:
        keys: Keys of the code (`Code.key`), as recorded in the store.
    """
    _remembered.clear()
    _remembered.update(keys)


def require_named(codes: Iterable[Code]) -> None:
    """Check that all of the code may be loaded; raise ForeignCodeError if any is not allowed."""
    for code in codes:
        if not {_ANY, code.key} & (_named | _of_plugins | _remembered):
            raise ForeignCodeError(
                f"the metric {Path(code.place).name} is third-party code that no earlier command "
                "has allowed for this leaderboard, so it was not loaded. Read the code, then pass "
                "--trust-remote-code, or repeat the run with --metric."
            )
