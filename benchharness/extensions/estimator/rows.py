"""Convert the X and y of scikit-learn to the rows of a task."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from benchharness.errors import DataError
from benchharness.extensions.custom_data.task import OwnData, class_name, examples_of
from benchharness.extensions.custom_data.tasks import parquet_files

SHOWN_ROWS = 200
"""Number of training rows that are also predicted at the end, to notice a training that failed."""

_FORMS = "pass a list, array or Series of texts, a list of pairs of texts, or a data frame of texts"

_PLAIN = re.compile(r"\w[\w .:/&+-]*")
"""Pattern of the names of classes that can be written to a file and read again unchanged."""

Texts = Sequence[tuple[str, ...]]
"""Rows of one or two texts."""


class RowsError(DataError, ValueError):
    """Raised if X or y cannot be used; scikit-learn expects a ValueError for this."""


def texts_of(X: Any, width: int | None = None) -> Texts:
    """Return the rows of X as tuples of one or two texts, all of the same length.

    Args:
        X: A list, an array or a Series of texts; or pairs of texts, as a list of tuples, or as an
            array or a data frame of two columns.
        width: Number of texts per row that is needed; None for any.

    Raises:
        RowsError: X is sparse, is empty, or has a value that is not a text, or its rows have
            another number of texts.
    """
    if issparse(X):
        raise RowsError(
            f"X is a sparse matrix of {X.shape[0]} rows, but a Classifier reads texts: {_FORMS}."
        )
    is_one = isinstance(X, str | bytes | Mapping) or getattr(X, "shape", None) == ()
    if is_one or not hasattr(X, "__len__"):
        raise RowsError(f"X is a {type(X).__name__}, but a Classifier reads rows: {_FORMS}.")
    rows = [_cells(row) for row in (X.to_numpy(object) if isinstance(X, pd.DataFrame) else X)]
    if not rows:
        raise RowsError("X is empty, with 0 samples: pass at least one text.")
    wanted = (1, 2) if width is None else (width,)
    for number, row in enumerate(rows):
        if odd := [value for value in row if not isinstance(value, str)]:
            shown = f"{odd[0]!r:.40} of type {type(odd[0]).__name__}"
            raise RowsError(f"row {number} of X has {shown}, which is not a text: {_FORMS}.")
        if len(row) not in wanted:
            raise RowsError(
                f"row {number} of X has {len(row)} texts, but expected "
                f"{' or '.join(map(str, wanted))}: {_FORMS}."
            )
        wanted = (len(row),)
    return [tuple(map(str, row)) for row in rows]  # str, because numpy's texts have their own type


def _cells(row: Any) -> tuple[Any, ...]:
    return tuple(row) if isinstance(row, list | tuple | np.ndarray) else (row,)


def classes_of(y: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes in y, sorted, and the number of the class of each row.

    Raises:
        RowsError: y is missing, has a missing value, or has only one class.
        ValueError: y has numbers that are not classes, or several columns.
    """
    if y is None:
        raise RowsError(
            "Classifier requires y to be passed, but the target y is None: pass a class per text."
        )
    labels = column_or_1d(y, warn=True)
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        raise RowsError(f"row {missing[0]} of y has no class: pass a class for every text.")
    check_classification_targets(labels)
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        shown = str(classes[0])
        raise RowsError(f"y has only one class, {shown!r}: pass texts of two or more classes.")
    return classes, numbers


def class_names(classes: Sequence[Any]) -> tuple[str, ...]:
    """Return a different name for each class, by which a file of rows can refer to it."""
    names = tuple(map(str, classes))
    are_plain = all(_PLAIN.fullmatch(name) and class_name(name) == name for name in names)
    if are_plain and len(set(names)) == len(names):
        return names
    return tuple(f"class {number}" for number in range(len(names)))


def task_of(names: tuple[str, ...], width: int) -> OwnData:
    """Return the definition of the task: one or two texts, and a class."""
    texts = {"text": ("text",), "text2": ("text2",)}
    return OwnData(
        title="classifier",
        kind="class",
        columns={role: texts[role] for role in tuple(texts)[:width]} | {"label": ("label",)},
        metrics=("accuracy",),
        labels=names,
    )


@dataclass(frozen=True, kw_only=True)
class Split:
    """Division of rows into train and dev.

    Attributes:
        train: Indices of the rows for training.
        dev: Indices of the rows that are predicted during the training.
    """

    train: Sequence[int]
    dev: Sequence[int]


def split_rows(numbers: Sequence[int], held_out: float) -> Split:
    """Split rows into train and dev, with each class in the same proportions.

    Args:
        numbers: Class index of each row.
        held_out: Share of the rows that are only in dev. With 0, all rows are in train, and some of
            them also in dev.
    """
    rows: dict[int, list[int]] = {}
    for row, number in enumerate(numbers):
        rows.setdefault(number, []).append(row)
    if not held_out:
        first = -(-SHOWN_ROWS // len(rows))
        dev = {row for same in rows.values() for row in same[:first]}
        return Split(train=range(len(numbers)), dev=sorted(dev))
    # The rows of a class at which its share of dev reaches the next whole number.
    dev = {
        row
        for same in rows.values()
        for place, row in enumerate(same, 1)
        if floor(place * held_out) > floor((place - 1) * held_out)
    }
    if not dev:  # every class has too few rows: hold out the last row of each that has several
        dev = {same[-1] for same in rows.values() if len(same) > 1}
    train = [row for row in range(len(numbers)) if row not in dev]
    return Split(train=train, dev=sorted(dev) or train)


def write_rows(
    folder: Path, own: OwnData, texts: Texts, labels: Sequence[str], split: Split
) -> None:
    """Write train and dev as Parquet files in a folder, and check that they are read unchanged.

    Raises:
        DataError: A text cannot be written, or every text looks like a list or a quoted text and
            would therefore be read as one.
    """
    columns = [name for role in ("text", "text2") for name in own.columns.get(role, ())]
    frame = pd.DataFrame(list(texts), columns=columns).assign(label=list(labels))
    parts = {"train": frame.iloc[list(split.train)], "dev": frame.iloc[list(split.dev)]}
    folder.mkdir()
    for name, content in parquet_files(parts).items():
        (folder / f"{name}.parquet").write_bytes(content)
    try:
        read: Sequence[Any] = examples_of(own, "train", folder)
    except DataError as error:
        raise _misread(texts, split.train[0]) from error
    for row, example in zip(split.train, read, strict=True):
        found = (example.text_a,) if example.text_b is None else (example.text_a, example.text_b)
        if found != tuple(texts[row]) and found[0]:  # a text that means "missing" is left out
            raise _misread(texts, row)


def _misread(texts: Texts, row: int) -> RowsError:
    return RowsError(
        f"row {row} of X, {texts[row][0]!r:.40}, would be read as another value, because every "
        "text of X has the form of a quoted text or a list: remove the quotes or brackets."
    )
