"""One text for one value: the JSON that is stored, and digests that show damage and sameness."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from leaderboard.job import Job
from tasks.errors import StoreError

__all__ = ["digest", "plain", "recipe_digest", "storable", "to_text"]


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


def recipe_digest(job: Job) -> str:
    """Twelve hex digits of the values of a job's settings: two recipes of one name differ here."""
    return digest(job.values)[:12]


def storable(text: str) -> str:
    r"""The text with what databases refuse written out: NUL as `\x00`, lone surrogates as `\udc80`.

    PostgreSQL refuses the first, every driver the second (Python reads them from file names and
    logs that are not UTF-8).
    """
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _dump(data: Any, *, sort_keys: bool) -> str:
    try:
        return json.dumps(
            data, sort_keys=sort_keys, allow_nan=False, separators=(",", ":"), default=_number
        )
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
