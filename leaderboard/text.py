"""Text from elsewhere made safe to look at, data as one JSON text, files that are there whole."""

import fcntl
import hashlib
import json
import math
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EISDIR
from glob import escape
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryFile, mkstemp
from typing import IO, Any, TypeVar

from benchharness.tasks.errors import StoreError

Key = TypeVar("Key")
Value = TypeVar("Value")

# Control and format characters (U+202E turns the text after it around), lone surrogates (which no
# file can hold), unassigned and private ones, and the two invisible line ends.
_UNSEEN = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


def visible(text: str, keep: str = "") -> str:
    r"""The text with every unseen character, except those in `keep`, as an escape (`\u202e`)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii")
        if (unicodedata.category(c) in _UNSEEN) and c not in keep
        else c
        for c in text
    )


def table_cell(value: object) -> str:
    """A value as a cell of a Markdown table, which neither a "|" nor a line's end ends."""
    text = visible(str(value).replace("\n", " "))
    return text.replace("|", "\\|").replace("<", "&lt;")


def counted(number: int, noun: str, to: int | None = None) -> str:
    """How many there are: "1 seed", "3 seeds", from one number to another "1 to 3 seeds"."""
    numbers = str(number) if to in (None, number) else f"{number} to {to}"
    return f"{numbers} {noun}" if (to or number) == 1 else f"{numbers} {noun}s"


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """By each key its values, both in their order: a sentence, and all of whom it is said."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def storable(text: str) -> str:
    r"""The text with what databases refuse written out: NUL as `\x00`, lone surrogates as `\udc80`.

    PostgreSQL refuses the first, every driver the second (Python reads them from file names and
    logs that are not UTF-8).
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


# One text for one value: the JSON that is stored, and digests that show damage and sameness.


def to_text(data: Any) -> str:
    """Compact ASCII JSON in the order given; NumPy's numbers become plain ones.

    Raises StoreError, naming the place, for what JSON cannot say: nan, infinity, other objects.
    """
    return _dump(data, sort_keys=False)


def plain(data: Any) -> Any:
    """The same data made of nothing but dict, list, str, int, float, bool and None."""
    return json.loads(to_text(data))


def digest(data: Any) -> str:
    """The SHA-256 (hex) of the data's JSON with sorted keys: equal data, equal digest."""
    return hashlib.sha256(_dump(data, sort_keys=True).encode("ascii")).hexdigest()


def _dump(data: Any, *, sort_keys: bool) -> str:
    try:
        return (_SORTED if sort_keys else _ORDERED).encode(data)
    except (TypeError, ValueError) as error:
        places = ", ".join(_unstorable(data)) or str(error)
        raise StoreError(
            f"this cannot be stored: {places}. The store takes text, finite numbers and what is "
            "made of them; a value that is undefined must be left out or given a flag."
        ) from error


def _number(value: object) -> int | float:
    """What JSON's encoder calls for objects it does not know."""
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


_SORTED, _ORDERED = (
    json.JSONEncoder(sort_keys=sort_keys, allow_nan=False, separators=(",", ":"), default=_number)
    for sort_keys in (True, False)
)


def _unstorable(data: Any, where: str = "value") -> Iterator[str]:
    """Every place inside the data that JSON cannot say, e.g. "value.scores.f1 is nan"."""
    if isinstance(data, Mapping):
        for name, item in data.items():
            yield from _unstorable(item, f"{where}.{name}")
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        for index, item in enumerate(data):
            yield from _unstorable(item, f"{where}[{index}]")
    elif isinstance(data, Real):
        if not math.isfinite(data):
            yield f"{where} is {float(data)}"
    elif not isinstance(data, str | None):
        yield f"{where} is a {type(data).__name__}"


# Files that are there whole or not at all.


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` at the end; folders above it are made.

    Where the writing fails or the power, what was there before stays, and the draft of a process
    that was killed goes with the next one. A pipe or a device (/dev/stdout) is written to as it is.
    Raises OSError, which names `path` where no file can be made there.
    """
    if path.exists() and (not path.is_file() or path.parent == Path("/dev")):
        with path.open("wb") as device:
            yield device
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    start = f".{path.name}."[:200]
    _delete_left(path.parent, f"{escape(start)}{'[a-z0-9_]' * 8}{_DRAFT}")
    try:
        handle, temporary = _new_draft(path.parent, start)
    except OSError as error:  # it names the draft
        raise OSError(error.errno, error.strerror, str(path)) from error
    with os.fdopen(handle, "rb"), temporary.open("w+b") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            # A temporary file is private to its owner; what is written here is made to be read.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            temporary.replace(path)
            flush_to_disk(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


_DRAFT = ".draft"


def _new_draft(folder: Path, start: str) -> tuple[int, Path]:
    """A new file that this process holds until its descriptor is closed."""
    while True:
        handle, draft = mkstemp(dir=folder, prefix=start, suffix=_DRAFT)
        with suppress(OSError):  # a file system without locks: nobody can delete it either
            fcntl.flock(handle, fcntl.LOCK_SH)
        if Path(draft).exists():  # or another has deleted it before it was held
            return handle, Path(draft)
        os.close(handle)


def _delete_left(folder: Path, pattern: str) -> None:
    """Delete the drafts that killed processes have left: those that nobody holds by a lock."""
    for draft in folder.glob(pattern):
        with suppress(OSError), draft.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()


def check_place(path: Path, also: Callable[[IO[bytes]], object] = lambda _: None) -> None:
    """Raises OSError, with the reason, where `whole_file` could not write `path`; changes nothing.

    A file is made where the first folder would be, and is gone at once: permissions alone do not
    tell of a disk that is read-only or full, and not of /proc. `also` may try more with that file.
    """
    if path.is_dir():
        raise IsADirectoryError(EISDIR, "it is a folder")
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        with TemporaryFile(dir=folder) as file:
            also(file)
    except OSError as error:
        raise OSError(error.errno, f"{folder} takes no new file ({error.strerror})") from error


def flush_to_disk(path: Path) -> None:
    """Waits until a file's bytes, or a folder's names, would survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def without_apostrophe(text: str) -> str:
    """What `inert` was given."""
    return text[1:] if text[:1] == "'" and _computes(text[1:]) else text


def _computes(text: str) -> bool:
    return text.lstrip(" '")[:1] in tuple(FORMULA)


FORMULA = "=+-@＝＋－＠"
"""What spreadsheets begin a formula with, also in full width (owasp.org, CSV Injection)."""


def inert(text: str) -> str:
    """The text with an apostrophe before what a spreadsheet would compute.

    Also before one that starts so itself, so that it can be taken away again.
    """
    return "'" + text if _computes(text) else text
