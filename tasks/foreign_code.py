"""Permission to load code that data refer to, such as the script of a metric.

An archive, a store, a server, a model's folder and a baseline may come from a third party. The name
of code in one of them is only text. The code is loaded only if the options of this command name the
same code, if an earlier command for the same store did (leaderboard/store/store.py keeps a record),
or if the user trusts third-party code. Code is identified by its place and its digest.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import NamedTuple

from benchharness.errors import ForeignCodeError


class Code(NamedTuple):
    """Code by its path or its name on the hub, with the SHA-256 (hex) of its content."""

    place: str
    digest: str

    @property
    def key(self) -> str:
        """Digest that identifies this code in this place; usable as a file name."""
        found = local_place(self.place)
        place = str(found.resolve()) if found else self.place
        return hashlib.sha256(f"{place}\0{self.digest}".encode()).hexdigest()


def modules_in(folder: Path, pattern: str = "**/*") -> dict[str, Path]:
    """Return the files below a folder that Python can import, by their relative paths."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.glob(pattern))
        if path.name.endswith(_MODULES) and path.parent.name != "__pycache__"
    }


_MODULES = tuple(all_suffixes())


def modules_digest(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 (hex) of the modules of a piece of code; for a single module, of its file.

    Empty `__init__.py` files, which only make a folder a package, are ignored.
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
    """Return the local file or folder with that path; None if it is missing or unreachable."""
    try:
        found = Path(place).expanduser()
        return found if found.exists() else None
    except (OSError, RuntimeError):  # no permission or too long a name; no such user
        return None


_ANY = "any"
_named: set[str] = set()
_of_plugins: set[str] = set()
_remembered: set[str] = set()


def begin(*, trust: bool = False) -> None:
    """Forget the code that was named before; with `trust`, allow all third-party code.

    Called at the beginning of a command.
    """
    _named.clear()
    _remembered.clear()
    if trust:
        _named.add(_ANY)


def name_code(codes: Iterable[Code]) -> None:
    """Allow code that this command names; in a worker process, the code of its job."""
    _named.update(code.key for code in codes)


def name_code_of_plugin(codes: Iterable[Code]) -> None:
    """Allow code that a plugin names, until this process ends."""
    _of_plugins.update(code.key for code in codes)


def named_code() -> frozenset[str]:
    """Return the keys of the code that this command has named."""
    return frozenset(_named - {_ANY})


def remember_code(keys: Iterable[str]) -> None:
    """Allow the code that earlier commands named for the store that is open now."""
    _remembered.clear()
    _remembered.update(keys)


def require_named(codes: Iterable[Code]) -> None:
    """Raise ForeignCodeError for code that no command has named."""
    for code in codes:
        if not {_ANY, code.key} & (_named | _of_plugins | _remembered):
            raise ForeignCodeError(
                f"the metric {Path(code.place).name} is code that no command here has named for "
                "this leaderboard, so it was not loaded: read it, then give --trust-remote-code, "
                "or repeat the run that names it by --metric."
            )
