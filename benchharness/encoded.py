"""Encoded splits, kept on disk for the other seeds and jobs of the same texts and tokenizer.

A file CACHE/features/DIGEST.npz has the arrays and numbers of a Features, or of a head's own kind.
"""

import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchharness.cache import cache_folder
from benchharness.heads.head import Limits
from benchharness.training.batching import Features
from leaderboard.job import METHOD
from leaderboard.text import whole_file
from tasks.read import SplitRows

__all__ = ["KEPT_TOKENS", "encode_once"]

KEPT_TOKENS = 200_000
"""Splits of fewer tokens are encoded again, in less than a second."""

KIND = "kind"


def encode_once(
    encode: Callable[[Sequence[Any], Any, Limits], Features],
    rows: SplitRows,
    tokenizer: Any,
    identity: str,
    limits: Limits,
) -> Features:
    """What a head makes of a split, or has made of it before; `identity` is the tokenizer's digest.

    A file that is damaged or cannot be written costs time only.
    """
    words = (encode.__module__, rows.fingerprint, identity, type(tokenizer).__name__, METHOD)
    key = hashlib.sha256(json.dumps([words, asdict(limits)]).encode()).hexdigest()
    path = cache_folder("features") / f"{key}.npz"
    found = _read(path)
    if found is not None:
        return found
    features = encode(rows.examples, tokenizer, limits)
    if len(features.token_ids) >= KEPT_TOKENS:
        with suppress(OSError):
            _write(path, features)
    return features


def _write(path: Path, features: Features) -> None:
    values = {field.name: getattr(features, field.name) for field in fields(features)}
    kept: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    kept[KIND] = type(features).__name__
    with whole_file(path) as file:
        np.savez(file, **kept)


def _read(path: Path) -> Features | None:
    """The features of a file; None where it is not there or not whole."""
    classes: list[type[Features]] = [Features, *Features.__subclasses__()]
    kinds = {kind.__name__: kind for kind in classes}
    try:
        # A damaged file that np.load has opened by itself stays open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            values = {name: _value(arrays[name]) for name in arrays.files}
        return kinds[values.pop(KIND)](**values)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


def _value(array: Any) -> Any:
    return array if array.ndim else array.item()
