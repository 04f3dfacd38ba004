"""Code that data name, such as a metric's script: it is loaded only where this user has named it.

An archive, a store, a server, a model's folder and a baseline are written by somebody. A name of
code in one of them is a text. It becomes code only where the words of this command have named the
same code, or an earlier command's for the same store (leaderboard/store/store.py keeps these), or
where code of others is trusted. The code is told by its place and its digest.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import NamedTuple

from benchharness.tasks.errors import ForeignCodeError


class Code(NamedTuple):
    """A file of code by its path or its name on the hub, and the SHA-256 (hex) of its content."""

    place: str
    digest: str

    @property
    def key(self) -> str:
        """The same for the same code in the same place; a file name."""
        found = local_place(self.place)
        place = str(found.resolve()) if found else self.place
        return hashlib.sha256(f"{place}\0{self.digest}".encode()).hexdigest()


def modules_in(folder: Path, pattern: str = "**/*") -> dict[str, Path]:
    """What Python imports of a folder, by the paths in it."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.glob(pattern))
        if path.name.endswith(_MODULES) and path.parent.name != "__pycache__"
    }


_MODULES = tuple(all_suffixes())


def modules_digest(files: Mapping[str, Path]) -> str:
    """The SHA-256 (hex) of the modules that are one piece of code; of one alone that of its file.

    Empty files that make a folder a package count for nothing.
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
    """The file or folder of this machine that data name; None where none can be had there."""
    try:
        found = Path(place).expanduser()
        return found if found.exists() else None
    except (OSError, RuntimeError):  # no permission, too long a name; no such user
        return None


_ANY = "any"
_named: set[str] = set()
_of_plugins: set[str] = set()
_remembered: set[str] = set()


def begin(*, trust: bool = False) -> None:
    """Begins a command that has named no code yet; with `trust` it loads code of others too."""
    _named.clear()
    _remembered.clear()
    if trust:
        _named.add(_ANY)


def name_code(codes: Iterable[Code]) -> None:
    """Notes what the words of this command name; a job's, in the process that it was sent to."""
    _named.update(code.key for code in codes)


def name_code_of_plugin(codes: Iterable[Code]) -> None:
    """Notes what a plugin names, for as long as its task is there: until this process ends."""
    _of_plugins.update(code.key for code in codes)


def named_code() -> frozenset[str]:
    """The keys of the code that this command has named."""
    return frozenset(_named - {_ANY})


def remember_code(keys: Iterable[str]) -> None:
    """Notes what earlier commands have named for the store that is open now."""
    _remembered.clear()
    _remembered.update(keys)


def require_named(codes: Iterable[Code]) -> None:
    """Raises ForeignCodeError for code that nobody here has named."""
    for code in codes:
        if not {_ANY, code.key} & (_named | _of_plugins | _remembered):
            raise ForeignCodeError(
                f"the metric {Path(code.place).name} is code that no command here has named for "
                "this leaderboard, so it was not loaded: read it, then give --trust-remote-code, "
                "or repeat the run that names it by --metric."
            )
