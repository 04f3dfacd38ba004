"""Safe display of untrusted text, compact JSON with digests, and atomic file writes."""

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

from benchharness.errors import StoreError

Key = TypeVar("Key")
Value = TypeVar("Value")

# Unicode categories: control and format characters (U+202E reverses the text after it), lone
# surrogates (which UTF-8 cannot encode), unassigned and private characters, and the two invisible
# line separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


def visible(text: str, keep: str = "") -> str:
    r"""Escape the invisible characters in a text (e.g. `\u202e`), except those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii")
        if (unicodedata.category(c) in _UNSEEN) and c not in keep
        else c
        for c in text
    )


def table_cell(value: object) -> str:
    """Format a value for a cell of a Markdown table.

    Invisible characters, "|" and "<" are escaped, and line breaks become spaces.
    """
    text = visible(str(value).replace("\n", " "))
    return text.replace("|", "\\|").replace("<", "&lt;")


def counted(number: int, noun: str, to: int | None = None) -> str:
    """Return a number with its noun, e.g. "1 seed" or "3 seeds".

    Args:
        number: Number, or lower end of a range.
        noun: Noun in the singular. Its plural is formed with "s".
        to: Upper end of a range, as in "1 to 3 seeds"; None for a single number.
    """
    numbers = str(number) if to in (None, number) else f"{number} to {to}"
    return f"{numbers} {noun}" if (to or number) == 1 else f"{numbers} {noun}s"


def are(number: int) -> str:
    """Return the verb that follows this number of things: "is" or "are"."""
    return "is" if number == 1 else "are"


def rounded(value: float, form: str, limit: float = 0.0) -> str:
    """Format a number, with more digits if rounding would make it equal to a limit.

    Without these digits, an interval from 0.003 to 7.92 would seem to contain 0, and a p-value of
    0.04997 would not seem to be below 0.05.

    Args:
        value: Number to format.
        form: Format with the number of digits, e.g. "+.2f".
        limit: Limit on whose side the formatted number must be, unless the number equals it within
            the precision of floats.
    """
    before, _, after = form.partition(".")
    for digits in range(int(after[:-1]), 9):
        text = f"{value:{before}.{digits}{after[-1]}}"
        if float(text) != limit:
            return text
    return f"{limit:{form}}"


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Collect the values of each key in a list.

    Args:
        pairs: Pairs of a key and a value; several pairs may have the same key.

    Returns:
        Lists of values, keyed by key. Keys and values are in the order of the pairs.
    """
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def storable(text: str) -> str:
    r"""Escape the characters that databases refuse: NUL as `\x00`, lone surrogates as `\udc80`.

    PostgreSQL refuses NUL, and every driver refuses lone surrogates. Python creates lone surrogates
    when it reads file names and logs that are not UTF-8.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


# JSON without spaces, for storage and for digests.


def to_text(data: Any) -> str:
    """Return the data as compact ASCII JSON; dict keys keep their order.

    NumPy scalars become Python numbers. Raises StoreError for values that JSON cannot represent,
    such as nan and infinity. The message contains the position of the value in the data.
    """
    return _dump(data, sort_keys=False)


def plain(data: Any) -> Any:
    """Convert the data to plain JSON types: dict, list, str, int, float, bool and None.

    Raises StoreError as `to_text` does.
    """
    return json.loads(to_text(data))


def digest(data: Any) -> str:
    """Return the SHA-256 (hex) of the data as JSON with sorted keys.

    Raises StoreError as `to_text` does.
    """
    return hashlib.sha256(_dump(data, sort_keys=True).encode("ascii")).hexdigest()


def _dump(data: Any, *, sort_keys: bool) -> str:
    try:
        return (_SORTED if sort_keys else _ORDERED).encode(data)
    except (TypeError, ValueError) as error:
        places = ", ".join(_unstorable(data)) or str(error)
        raise StoreError(
            f"this value cannot be stored: {places}. The store accepts text, finite numbers, and "
            "lists and dicts of these. Leave out an undefined value, or report it as a flag."
        ) from error


def _number(value: object) -> int | float:
    """Convert a number of another type (e.g. NumPy) for JSON; raise TypeError for other objects."""
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


_SORTED, _ORDERED = (
    json.JSONEncoder(sort_keys=sort_keys, allow_nan=False, separators=(",", ":"), default=_number)
    for sort_keys in (True, False)
)


def _unstorable(data: Any, where: str = "value") -> Iterator[str]:
    """Yield a message per value that JSON cannot represent, e.g. "value.scores.f1 is nan"."""
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


# Atomic file writes: a file is written completely or not at all.


@contextmanager
def whole_file(path: Path, alike: str = "") -> Iterator[IO[bytes]]:
    """Context manager that yields a temporary file for writing, which replaces `path` at the end.

    Missing parent folders are created. If writing or the power fails, a file that already is at
    `path` stays unchanged. A pipe or a device such as /dev/stdout is written directly.

    Args:
        path: Path of the file.
        alike: Text in the name of the temporary file; empty for the name of `path`. The next call
            with the same text deletes temporary files that killed processes have left in the
            folder. If the name of `path` is different each time, give a text that stays the same.

    Raises:
        OSError: If the file cannot be written.
    """
    if path.exists() and (not path.is_file() or path.parent == Path("/dev")):
        with path.open("wb") as device:
            yield device
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    start = f".{alike or path.name}."[:200]
    _delete_left(path.parent, f"{escape(start)}{'[a-z0-9_]' * 8}{_DRAFT}")
    try:
        handle, temporary = _new_draft(path.parent, start)
    except OSError as error:  # replace the name of the temporary file in the error
        raise OSError(error.errno, error.strerror, str(path)) from error
    with os.fdopen(handle, "rb"), temporary.open("w+b") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            # mkstemp makes the file private to its owner, so set the permissions of the umask.
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
    """Create a temporary file and lock it until its descriptor is closed."""
    while True:
        handle, draft = mkstemp(dir=folder, prefix=start, suffix=_DRAFT)
        with suppress(OSError):  # if the file system has no locks, others cannot delete the file
            fcntl.flock(handle, fcntl.LOCK_SH)
        if Path(draft).exists():  # another process may have deleted it before it was locked
            return handle, Path(draft)
        os.close(handle)


def _delete_left(folder: Path, pattern: str) -> None:
    """Delete the temporary files that killed processes have left, i.e. those without a lock."""
    for draft in folder.glob(pattern):
        with suppress(OSError), draft.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()


def check_place(path: Path, also: Callable[[IO[bytes]], object] = lambda _: None) -> None:
    """Raise OSError, with the reason, if `whole_file` could not write `path`.

    A temporary file is created in the nearest existing parent folder and deleted at once, because
    permissions do not show whether a disk is read-only or full.

    Args:
        path: Path of the file that is to be written.
        also: Function that is called with the temporary file, to try further operations on it.
    """
    if path.is_dir():
        raise IsADirectoryError(EISDIR, "it is a folder")
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        with TemporaryFile(dir=folder) as file:
            also(file)
    except OSError as error:
        raise OSError(
            error.errno, f"no file can be created in {folder} ({error.strerror})"
        ) from error


def flush_to_disk(path: Path) -> None:
    """Wait until the contents of a file or folder are on disk and survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def without_apostrophe(text: str) -> str:
    """Remove the apostrophe that `inert` has put before a text; return other texts unchanged."""
    return text[1:] if text[:1] == "'" and _computes(text[1:]) else text


def _computes(text: str) -> bool:
    return text.lstrip(" '")[:1] in tuple(FORMULA)


FORMULA = "=+-@＝＋－＠"
"""Characters with which spreadsheet formulas begin, including their full-width forms (see OWASP,
CSV Injection).
"""


def inert(text: str) -> str:
    """Prepend an apostrophe to the text if a spreadsheet would evaluate it as a formula.

    A text that already begins with an apostrophe before a formula gets another one, so that
    `without_apostrophe` restores every text exactly.
    """
    return "'" + text if _computes(text) else text
