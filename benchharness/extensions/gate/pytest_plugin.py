"""Pytest plugin: `@pytest.mark.bench(...)` turns a test into a check against a baseline.

    @pytest.mark.bench(model="tiny", suite="glue", limit=300)
    def test_glue_is_no_worse(): ...

pytest loads this module in every environment in which benchharness is installed. So the module
imports the check only when a test has the marker.
"""

from pathlib import Path
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `bench`."""
    config.addinivalue_line(
        "markers",
        "bench(model, **options): fail if `bench check` with these options fails; write option "
        "names with _ instead of -; `baseline` and `data_file` are relative to the root folder",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Run the checks that a test's `bench` markers describe, before the code of the test."""
    for marker in item.iter_markers("bench"):
        _check(item.config.rootpath, *marker.args, **marker.kwargs)


def _check(root: Path, *words: Any, **arguments: Any) -> None:
    from benchharness.extensions.gate.gate import failure_of_marked

    if failure := failure_of_marked(root, *words, **arguments):
        pytest.fail(failure, pytrace=False)
