"""A pytest plugin: `@pytest.mark.bench(...)` turns a check against a baseline into a test.

    @pytest.mark.bench(model="tiny", suite="glue", limit=300)
    def test_glue_is_no_worse(): ...

pytest loads the plugin in every environment with this package, so nothing else is imported before a
marker is found.
"""

from pathlib import Path
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "bench(model, **options): fail where `bench check` with these options does, with _ for - "
        "in their names; `baseline` and `data_file` are relative to the root folder",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Run the checks of a test's markers before the test's own code."""
    for marker in item.iter_markers("bench"):
        _check(item.config.rootpath, *marker.args, **marker.kwargs)


def _check(root: Path, *words: Any, **arguments: Any) -> None:
    from benchharness.driver.gate import failure_of_marked

    if failure := failure_of_marked(root, *words, **arguments):
        pytest.fail(failure, pytrace=False)
