"""Parameters of tests that only `make soak` runs completely."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def in_part(values: Iterable[Any], in_ci: Collection[Any]) -> list[Any]:
    """Mark the values (or tuples of values) that are not in `in_ci` as soak."""
    return [
        value
        if value in in_ci
        else pytest.param(*value, marks=pytest.mark.soak)
        if isinstance(value, tuple)
        else pytest.param(value, marks=pytest.mark.soak)
        for value in values
    ]
