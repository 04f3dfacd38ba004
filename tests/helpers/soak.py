"""Parameters of tests, most of which only `make soak` runs."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def in_part(values: Iterable[Any], in_ci: Collection[Any]) -> list[Any]:
    """Mark as soak the values of a parameter, or of several as tuples, that CI leaves out."""
    return [
        value
        if value in in_ci
        else pytest.param(*value, marks=pytest.mark.soak)
        if isinstance(value, tuple)
        else pytest.param(value, marks=pytest.mark.soak)
        for value in values
    ]
